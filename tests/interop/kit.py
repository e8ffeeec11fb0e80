"""Counts checks, runs the command, and keeps what a failed check needs to be understood."""

import json
import os
import re
import shlex
import subprocess
import sys
import traceback

TIMEOUT_S = 120


class Result:
    def __init__(self, command, code, out=b"", err=b""):
        self.command, self.code, self.raw = command, code, out
        self.out, self.err = out.decode(errors="replace"), err.decode(errors="replace")

    @property
    def text(self):
        return self.out + self.err

    def has(self, *words):
        return all(word in self.text for word in words)

    def json(self):
        try:
            return json.loads(self.out)
        except ValueError:
            return None

    def numbers(self):
        """Every number in the output, decimal or 0x."""
        return {int(n, 0) for n in re.findall(r"0x[0-9a-fA-F]+|(?<![\w.])(?:0|[1-9][0-9]*)(?![\w])",
                                              self.text)}

    def __str__(self):
        out, err = self.out[-1500:], self.err[-1500:]
        return f"    $ {self.command}\n    exit {self.code}\n    out: {out!r}\n    err: {err!r}"


class Kit:
    def __init__(self, binary, work, only=None):
        self.binary = os.path.abspath(binary)
        self.work = os.path.abspath(work)
        self.only = only
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.current = None

    def path(self, *parts):
        return os.path.join(self.work, *parts)

    def run(self, *arguments):
        command = [self.binary, *arguments]
        shown = shlex.join(["shardwright", *arguments])
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return Result(shown, "timeout")
        return Result(shown, done.returncode, done.stdout, done.stderr)

    def check(self, name, good, detail=""):
        """One line per check; `detail` (anything printable) is shown when it failed."""
        good = bool(good)
        self.counts["passed" if good else "failed"] += 1
        print(f"{'ok' if good else 'FAILED'}: {name}", flush=True)
        if not good and str(detail):
            print(str(detail), flush=True)
        return good

    def expect(self, name, result, code, *words):
        """The exit code (or one of a tuple) and every word in stdout + stderr."""
        codes = code if isinstance(code, tuple) else (code,)
        lacking = [w for w in words if w not in result.text]
        detail = f"    expected exit {code}, lacking {lacking}\n{result}"
        return self.check(name, result.code in codes and not lacking, detail)

    def guarded(self, name, function, *arguments):
        """Runs a group of checks; what it raises is one more failed check, not the end."""
        try:
            function(self, *arguments)
        except Exception:
            self.check(f"{name}: ran to its end", False, traceback.format_exc(limit=4))

    def skip(self, name, why):
        self.counts["skipped"] += 1
        print(f"skipped: {name}: {why}", flush=True)

    def finish(self):
        c = self.counts
        print(f"{c['passed']} passed, {c['failed']} failed, {c['skipped']} skipped")
        sys.stdout.flush()
        strict = os.environ.get("SW_INTEROP_STRICT") == "1" and c["skipped"]
        return 1 if c["failed"] or strict else 0
