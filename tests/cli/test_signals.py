"""Long conversions. SIGINT and SIGTERM: what is finished is kept, the code is 128 + the signal, and the
same command takes it up. Progress is shown on a terminal, and only there."""
import glob
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import _cli
from _cli import BINARY, Run, expect, write_st

# A fast disk is done before most signals come.
ATTEMPTS = 300
ARGV = ["convert", "source", "out", "--to", "hf:shard=4MB", "--threads", "1"]


def finished_files():
    lines = 0
    for journal in glob.glob("out.partial-*/.journal"):
        try:
            with open(journal, "rb") as file:
                lines = file.read().count(b"\n")
        except FileNotFoundError:
            pass
    return max(lines - 1, 0)


def interrupted(number):
    """A run that got the signal when a file was finished; None: it was done before."""
    process = subprocess.Popen([BINARY, *ARGV], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while process.poll() is None and finished_files() == 0 and time.monotonic() < until:
        pass
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    if process.returncode == 0:
        shutil.rmtree("out")
        return None
    return process.returncode, out.decode(), err.decode()


def check_signal(number, want):
    for _ in range(ATTEMPTS):
        result = interrupted(number)
        if result is not None:
            break
    if not expect(f"{number.name}: a run was caught", result is not None):
        return
    code, out, err = result
    expect(f"{number.name}: exit {128 + number}", code == 128 + number, str(code))
    expect(f"{number.name}: it is said", "stopped" in err and out == "", err)
    expect(f"{number.name}: nothing under the name", not os.path.exists("out"))
    expect(f"{number.name}: the work is kept", len(glob.glob("out.partial-*")) == 1)
    # as a plan it moves nothing and leaves the work alone
    Run("plan", *ARGV[1:2], *ARGV[3:])
    expect(f"{number.name}: the work is kept by a plan", len(glob.glob("out.partial-*")) == 1)
    run = Run(*ARGV, "--json")
    document = json.loads(run.raw_out)
    expect(f"{number.name}: the next run completes", run.code == 0, run)
    expect(f"{number.name}: and takes it up", document["resumed_files"] > 0, run)
    expect(f"{number.name}: nothing is left", not glob.glob("out.partial-*"))
    names = sorted(os.listdir("out"))
    expect(f"{number.name}: the same files", names == sorted(want))
    for name in names:
        with open(os.path.join("out", name), "rb") as file:
            expect(f"{number.name}: {name} is the same", file.read() == want[name])
    shutil.rmtree("out")


def on_terminal():
    """What a run writes to a terminal on standard error; it is held up so that it takes its time."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([BINARY, *ARGV], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=follower)
    os.close(follower)
    until = time.monotonic() + 60
    while process.poll() is None and finished_files() == 0 and time.monotonic() < until:
        pass
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.6)
    process.send_signal(signal.SIGCONT)
    out = process.communicate(timeout=60)[0].decode()
    said = b""
    try:
        while part := os.read(leader, 65536):
            said += part
    except OSError:  # the other side is closed
        pass
    os.close(leader)
    shutil.rmtree("out")
    return process.returncode, out, said.decode()


def check_progress():
    for _ in range(ATTEMPTS):
        code, out, said = on_terminal()
        expect("a run on a terminal", code == 0 and out.endswith("done: out\n"), out)
        if said:
            break
    lines = said.split("\r")
    if not expect("progress is shown at all", len(lines) > 2, repr(said)):
        return
    expect("progress is shown", re.fullmatch(r" *\d+ %  [\d.]+ .?B of 83.9 MB, [\d.]+ .?B/s *", lines[1]),
           repr(said))
    expect("and wiped", lines[-1] == "" and lines[-2].strip() == "", repr(said))
    expect("without colours", "\x1b" not in said, repr(said))


def main():
    os.mkdir("source")
    block = os.urandom(1 << 20)
    write_st("source/model.safetensors",
             {f"layers.{i}.w": ("F32", [1024, 1024], block[i:] + block[:i] + 3 * block)
              for i in range(20)})
    run = Run(*ARGV)
    expect("a run that nobody disturbs", run.code == 0, run)
    want = {}
    for name in os.listdir("out"):
        with open(os.path.join("out", name), "rb") as file:
            want[name] = file.read()
    expect("21 files", len(want) == 21)
    shutil.rmtree("out")
    check_signal(signal.SIGINT, want)
    check_signal(signal.SIGTERM, want)
    check_progress()
    _cli.finish()


if __name__ == "__main__":
    main()
