"""The library holds no mutable global and no static local: every datum of its objects lies in a
read-only section. Also: what the shared library exports begins with sw_."""
import os
import re
import subprocess
import sys
import tempfile

MUTABLE = re.compile(r"^(\.data|\.bss|\.tbss|\.tdata|\*COM\*|\.lbss|\.ldata)(?!\.rel\.ro)")
# What instrumentation and the compiler put there, not we.
IGNORED = re.compile(r"^(__gcov|__asan|__odr_asan|__sancov|__afl|\.L|\*\.L|\.data|\.bss|completed)")


def mutable_symbols(library):
    listing = subprocess.run(["objdump", "-t", library], check=True, capture_output=True,
                             text=True).stdout
    findings, member = [], "?"
    for line in listing.splitlines():
        header = re.match(r"^(\S+):\s+file format", line)
        if header:
            member = header.group(1)
            continue
        fields = re.match(r"^[0-9a-f]+ (.{7}) (\S+)\s+([0-9a-f]+) (?:\.\w+ )?(\S+)$", line)
        if not fields:
            continue
        flags, section, size, name = fields.groups()
        if MUTABLE.match(section) and int(size, 16) > 0 and "F" not in flags and "d" not in flags \
                and not IGNORED.match(name):
            findings.append(f"{member}: {name} in {section}: a mutable global")
    return findings


def foreign_exports(library):
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                             capture_output=True, text=True).stdout
    names = [line.split()[-1].split("@")[0] for line in listing.splitlines()]
    return [f"{os.path.basename(library)} exports {n}" for n in names
            if not n.startswith("sw_") and n not in ("_init", "_fini")]


def compile_self_test(text):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "a.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-O2", "-fPIC", "-c", source, "-o", source + ".o"], check=True)
        return mutable_symbols(source + ".o")


def self_test():
    for text in ("int counter = 1;\n", "static int n;\nint f(void) { return ++n; }\n",
                 "int *f(void) { static int x[4]; return x; }\n", "_Thread_local int x;\n"):
        if not compile_self_test(text):
            sys.exit(f"self-test: no finding for {text!r}")
    good = 'const int x = 1;\nstatic const char *const n[] = {"a", "b"};\n' \
           "const char *f(int i) { return n[i]; }\n"
    if compile_self_test(good):
        sys.exit("self-test: a finding for constants")


if __name__ == "__main__":
    build = os.environ.get("BUILD_DIR", "build")
    self_test()
    found = mutable_symbols(os.path.join(build, "libshardwright.a"))
    found += foreign_exports(os.path.join(build, "libshardwright.so"))
    print("\n".join(found + [f"{len(found)} findings"]))
    sys.exit(1 if found else 0)
