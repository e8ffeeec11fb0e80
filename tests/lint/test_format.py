"""The C files are as .clang-format says. Skipped without clang-format-14 (another version formats
differently), unless SW_LINT_STRICT is set."""
import os
import shutil
import subprocess
import sys
import tempfile

import _lint

TOOL = "clang-format-14"


def check(tree):
    root = tree.root
    with tempfile.TemporaryDirectory() as scratch:
        if root is None:
            root = scratch
            here = os.path.dirname(os.path.abspath(__file__))
            style = os.path.join(os.environ.get("SOURCE_DIR", os.path.join(here, "..", "..")),
                                 ".clang-format")
            shutil.copy(style, scratch)
            for path, text in tree.files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
        paths = [path for path, _ in tree.c_files()]
        if not paths:
            return []
        run = subprocess.run([TOOL, "--dry-run", *paths], cwd=root, capture_output=True, text=True)
    places = [line.split(": ")[0] for line in run.stderr.splitlines() if ": warning:" in line]
    findings = {}
    for place in places:
        findings.setdefault(place.split(":")[0], place)
    return [f"{place}: not as {TOOL} -i would have it" for place in findings.values()]


BAD = [({"cli/a.c": "int f( void ){return 1;}\n"}, "cli/a.c:1")]
GOOD = [{"cli/a.c": "int f(void)\n{\n    return 1;\n}\n"}]

if __name__ == "__main__":
    if shutil.which(TOOL) is None:
        print(f"{TOOL} is not installed")
        sys.exit(1 if os.environ.get("SW_LINT_STRICT") else 77)
    _lint.main(check, BAD, GOOD)
