"""What is printed, and where: closed and full streams, foreign names, files that are told apart."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import _cli
from _cli import BINARY, Run, exits, expect, write_st


def shell(line):
    done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=60, check=False,
                          env={**os.environ, "SW": BINARY})
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def check_closed_output():
    """What could not be printed was not said."""
    for line in ("inspect demo", "verify demo", "plan demo --to hf", "cat demo model.norm.weight",
                 "--help", "inspect demo --json", "verify demo --json", "--version"):
        for to in (">&-", ">/dev/full"):
            code, _, _ = shell(f'"$SW" {line} {to}')
            expect(f"{line} {to}: exit 2", code == 2, str(code))
    # a worse code stays
    code, _, _ = shell('"$SW" verify absent >&-')
    expect("verify absent >&-: exit 2", code == 2)
    code, _, err = shell('"$SW" inspect demo | true; exit ${PIPESTATUS[0]}')
    expect("a reader that leaves: 0 or SIGPIPE, without a word", code in (0, 141) and not err, err)


def check_closed_streams_are_no_files():
    """A file that is opened must not get the number of a closed stream, and be written into."""
    want = None
    for number, closing in enumerate(("", ">&-", "2>&-", "<&-", "<&- >&- 2>&-")):
        dest = f"closed-{number}"
        code, _, _ = shell(f'"$SW" convert demo {dest} --to hf --json {closing}')
        expect(f"convert {closing}: {code}", code in (0, 2), str(code))
        with open(f"{dest}/model.safetensors", "rb") as file:
            content = file.read()
        want = want or content
        expect(f"convert {closing}: the same bytes", content == want)
        code, _, _ = shell(f'"$SW" convert demo {dest} --to hf {closing}')
        expect(f"convert to what exists {closing}: exit 5", code == 5, str(code))
        with open(f"{dest}/model.safetensors", "rb") as file:
            expect(f"convert {closing}: nothing was printed into it", file.read() == want)


NASTY = "w\x1b[31mred\x07\u202egnp.\n\r\t\"\\\x7f\u009b0m"


def check_foreign_names():
    """Controls and marks of direction are escaped on the terminal, and kept in JSON."""
    os.mkdir("nasty")
    write_st("nasty/model\x1b]0;x\x07.safetensors", {NASTY: ("F32", [2], bytes(8))})
    lines = [["inspect", "nasty", "--tensors", "*", "--tree", "--files"], ["verify", "nasty"],
             ["plan", "nasty", "--to", "hf"], ["cat", "nasty", NASTY + "x"],
             ["verify", "nasty\x1b[2J"], ["frob\x1b[2J"], ["verify", "nasty", "--x\x1b[2J"],
             ["convert", "nasty", "out\x1b[2J", "--to", "hf"], ["demo", "dem\x1b[2J"],
             ["convert", "nasty", "x", "--to", "h\x1bf"], ["verify", "--from", "\x1b", "nasty"],
             ["convert", "nasty", "x", "--to", "hf", "--section", "\x1b[0m"],
             ["convert", "nasty", "x", "--to", "hf", "--strip-prefix", "\x1b[0m"],
             ["convert", "nasty", "x", "--to", "hf", "--assets", "\x1b[0m"]]
    for argv in lines:
        run = Run(*argv)
        said = run.out + run.err
        bad = [c for c in said if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160
               or c in "\u202e\u2066"]
        expect(f"{argv[0]}: no control reaches the terminal", not bad, f"{bad}\n{run}")
    run = Run("inspect", "nasty", "--tensors", "*")
    expect("inspect: the name is shown", "w\\x1b[31mred\\x07\\u202egnp.\\x0a" in run.out, run)
    document = json.loads(Run("inspect", "nasty", "--json").raw_out)
    expect("inspect --json: the name verbatim", document["tensors"][0]["name"] == NASTY)
    expect("inspect --json: the file verbatim",
           document["files"][0]["path"] == "model\x1b]0;x\x07.safetensors")
    expect("cat: by its verbatim name", Run("cat", "nasty", NASTY).out == "0 0\n")
    document = json.loads(Run("plan", "nasty", "--to", "hf", "--json").raw_out)
    expect("plan --json: the name verbatim", document["tensors"][0]["name"] == NASTY)


def check_names_of_files():
    """Bytes that are no text, blanks, leading dashes."""
    os.makedirs(b"bytes/a\xff\xfe")
    write_st(b"bytes/a\xff\xfe/m\xff.safetensors", {"w": ("F32", [1], bytes(4))})
    run = exits(0, "inspect", b"bytes/a\xff\xfe", "--files")
    expect("inspect: bytes are shown", "a\\xff\\xfe" in run.out and "m\\xff" in run.out, run)
    run = exits(0, "inspect", b"bytes/a\xff\xfe", "--json")
    json.loads(run.raw_out)
    run = exits(0, "verify", b"bytes", "--json")
    json.loads(run.raw_out)
    exits(0, "convert", b"bytes/a\xff\xfe", b"out \xff", "--to", "hf")
    expect("convert: into bytes", os.path.exists(b"out \xff/model.safetensors"))
    os.mkdir("-dash")
    write_st("-dash/m.safetensors", {"w": ("F32", [1], bytes(4))})
    exits(0, "verify", "--", "-dash")
    exits(2, "verify", "-dash", say="unknown option")


def check_colour_and_progress():
    """Nothing is coloured, whatever the environment says; no progress off a terminal."""
    plain = Run("verify", "demo")
    for env in ({"NO_COLOR": "1"}, {"NO_COLOR": ""}, {"TERM": "xterm-256color"}, {"TERM": "dumb"},
                {"CLICOLOR_FORCE": "1"}, {"FORCE_COLOR": "1"}, {"COLUMNS": "20"},
                {"LC_ALL": "C"}, {"LANG": "de_DE.UTF-8"}):
        run = Run("verify", "demo", env=env)
        expect(f"{env} changes nothing", (run.out, run.err, run.code) ==
               (plain.out, plain.err, plain.code), run)
    expect("nothing on standard error", plain.err == "")
    expect("quiet says nothing", Run("verify", "demo", "-q").out == "")
    run = Run("convert", "demo", "quiet", "--to", "hf", "--quiet")
    expect("quiet convert says nothing", run.out == run.err == "" and run.code == 0, run)


def check_raw():
    run = Run("cat", "demo", "model.norm.weight", "--raw", raw=True)
    expect("cat --raw: little-endian bytes", run.out.hex() == "0000e03d00008e3f00000740", run)


def main():
    exits(0, "demo", "demo")
    check_closed_output()
    check_closed_streams_are_no_files()
    check_foreign_names()
    check_names_of_files()
    check_colour_and_progress()
    check_raw()
    _cli.finish()


if __name__ == "__main__":
    main()
