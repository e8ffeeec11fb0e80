"""Standard output, standard error and exit code of whole commands on the sample, as they were once
read and found good. expected/NAME is one session: "$ command", then what it printed, lines of standard
error behind "! ", and the exit code when it is not 0. Printed lines that would look like the session's
own ("# " prepares, "$ " runs) stand behind "| ".

SW_GOLDEN_UPDATE=1 writes what is printed now: read the difference before you keep it.
"""
import difflib
import os
import re
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "harness"))
import torch_file  # noqa: E402
BINARY = os.environ.get("SHARDWRIGHT", "build/shardwright")
UPDATE = os.environ.get("SW_GOLDEN_UPDATE", "") not in ("", "0")

# Bytes of memory depend on the platform, lines on what else a map says.
VARIES = [(re.compile(r"^(  catalog +)[0-9.]+ [kM]?B of memory", re.M), r"\1(SIZE) of memory"),
          (re.compile(r"(\(.*map \S+), line [0-9]+"), r"\1, line (LINE)"),
          (re.compile(r"^memory: about .*$", re.M), "memory: about (SIZE)"),
          (re.compile(r'("(catalog_bytes|peak_memory_bytes)": )[0-9]+'), r"\1(SIZE)")]


def prepare(command):
    """"# python code" prepares what the next commands need."""
    names = {"os": os, "flip": flip, "cut": cut, "put": put, "torch_file": torch_file}
    exec(command, names)  # the code is of this folder


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def cut(path, size):
    with open(path, "r+b") as file:
        file.truncate(size)


def put(path, content):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def run(line):
    argv = shlex.split(line)
    done = subprocess.run([BINARY if argv[0] == "shardwright" else argv[0], *argv[1:]],
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
    text = done.stdout.decode()
    if text and not text.endswith("\n"):
        text += "(no end of line)\n"
    text = re.sub(r"^(?=[#$] )", "| ", text, flags=re.M)
    text += "".join(f"! {part}\n" for part in done.stderr.decode().splitlines())
    if done.returncode != 0:
        text += f"exit {done.returncode}\n"
    for pattern, to in VARIES:
        text = pattern.sub(to, text)
    return text


def session(name):
    """The session with what its commands print now."""
    with open(os.path.join(HERE, "expected", name), encoding="utf-8") as file:
        old = file.read()
    folder = os.path.abspath(os.path.splitext(name)[0])
    os.mkdir(folder)
    back = os.getcwd()
    os.chdir(folder)
    new = ""
    for line in old.splitlines(keepends=True):
        if line.startswith("# "):
            prepare(line[2:])
            new += line
        elif line.startswith("$ "):
            new += line + run(line[2:].strip())
    os.chdir(back)
    return old, new


def main():
    failed = 0
    names = sorted(os.listdir(os.path.join(HERE, "expected")))
    for name in names:
        old, new = session(name)
        if old == new:
            continue
        failed += 1
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(keepends=True),
                                                   new.splitlines(keepends=True),
                                                   f"expected/{name}", "now"))
        if UPDATE:
            with open(os.path.join(HERE, "expected", name), "w", encoding="utf-8") as file:
                file.write(new)
    print(f"{len(names)} sessions, {failed} differ")
    sys.exit(1 if failed and not UPDATE else 0)


if __name__ == "__main__":
    main()
