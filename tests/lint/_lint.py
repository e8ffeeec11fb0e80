"""What the lints share: the tracked files, C text without comments and strings, and the self-test.

A lint is a module with check(tree) -> list of findings, and BAD: a list of (files, expected text)
that it must complain about, GOOD: a list of files it must not. main() tries both before the tree,
so that a lint that no longer sees anything turns red.
"""
import os
import re
import subprocess
import sys

LIBRARY = ("format", "reshard", "convert")
LAYERS = LIBRARY + ("cli",)


class Tree:
    def __init__(self, files, root=None):
        self.files = files  # path -> text
        self.root = root

    def c_files(self, *tops):
        for path in sorted(self.files):
            if path.endswith((".c", ".h")) and (not tops or path.split("/")[0] in tops):
                yield path, self.files[path]


def load_tree(root):
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(command, check=True, capture_output=True).stdout.split(b"\0")
        names = [os.fsdecode(n) for n in names if n]
    except (OSError, subprocess.CalledProcessError):  # a release archive
        names = []
        for folder, folders, entries in os.walk(root):
            folders[:] = [f for f in folders if not f.startswith((".git", "build"))]
            names += [os.path.relpath(os.path.join(folder, e), root) for e in entries]
    files = {}
    for name in names:
        path = os.path.join(root, name)
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "rb") as file:
                data = file.read()
            if b"\0" not in data:
                files[name] = data.decode("utf-8", "replace")
    return Tree(files, root)


_TOKEN = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def strip_c(text, strings=True):
    """Blanks comments (and the inside of strings), keeping every line where it is."""

    def blank(match):
        token = match.group(0)
        if token[0] == "/":
            return re.sub(r"[^\n]", " ", token)
        if not strings:
            return token
        return token[0] + re.sub(r"[^\n]", " ", token[1:-1]) + token[-1]

    return _TOKEN.sub(blank, text)


def strip_preprocessor(code):
    """Blanks the directives of stripped C, with their continuation lines."""
    lines, inside = [], False
    for line in code.split("\n"):
        directive = inside or line.lstrip().startswith("#")
        inside = directive and line.endswith("\\")
        lines.append("" if directive else line)
    return "\n".join(lines)


def functions(text):
    """Yields (name, first line, last line, body) of every function defined in C text."""
    code = strip_preprocessor(strip_c(text))
    depth, start, name, head = 0, 0, None, 0
    for match in re.finditer(r"[{};]", code):
        token = match.group(0)
        if token == "{":
            if depth == 0:
                signature = code[head:match.start()].strip()
                found = re.search(r"([A-Za-z_]\w*)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)", "",
                                                               signature, flags=re.S))
                is_function = signature.endswith(")") and "=" not in signature and found
                name = found.group(1) if is_function else None
                start = match.start()
            depth += 1
        elif token == "}":
            depth = max(depth - 1, 0)
            if depth == 0:
                if name:
                    yield (name, code.count("\n", 0, start) + 1,
                           code.count("\n", 0, match.start()) + 1, code[start:match.end()])
                name, head = None, match.end()
        elif depth == 0:
            head = match.end()


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def main(check, bad, good):
    """Runs the self-test, then the lint over SOURCE_DIR; exits 0 or 1."""
    for files, expected in bad:
        findings = check(Tree(files))
        if not any(expected in finding for finding in findings):
            sys.exit(f"self-test: no finding with {expected!r} for {files!r}: {findings!r}")
    for files in good:
        findings = check(Tree(files))
        if findings:
            sys.exit(f"self-test: {findings!r} for harmless {files!r}")
    root = os.environ.get("SOURCE_DIR") or os.path.join(os.path.dirname(__file__), "..", "..")
    findings = check(load_tree(os.path.abspath(root)))
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings")
    sys.exit(1 if findings else 0)
