"""G1 with real signals: SIGKILL, SIGTERM and SIGINT at random times, several times in a row, then a
run to the end. And several processes that convert to one name at once."""
import os
import random
import signal
import subprocess
import time

import _fault

ROUNDS = 60
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def start(command, source, dest):
    return subprocess.Popen(command.line(_fault.PLAIN, source, dest), stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def run_time(bench, command):
    times = []
    for _ in range(5):
        folder = bench.fresh("timing", command)
        began = time.monotonic()
        bench.must(*command.line(_fault.PLAIN, bench.source, os.path.join(folder, "dest")))
        times.append(time.monotonic() - began)
    return sorted(times)[2]


def kill_one(bench, command, slot, case, dice, seconds):
    folder = bench.fresh(slot, command)
    dest = os.path.join(folder, "dest")
    for _ in range(3):
        number = dice.choice(SIGNALS)
        process = start(command, bench.source, dest)
        time.sleep(dice.uniform(0, 1.3 * seconds))
        process.send_signal(number)
        err = process.communicate(timeout=_fault.TIMEOUT_S)[1].decode("utf-8", "replace")
        name = f"{case} {number.name}"
        if process.returncode not in (0, -number, 128 + number):
            bench.fail(command, name, f"ended with {process.returncode}: {err}")
        complete = bench.check_name(command, dest, name)
        if process.returncode == 0 and not complete:
            bench.fail(command, name, "said that it was done")
        if complete and not command.old:
            return
    bench.rerun(command, folder, case)


def race_one(bench, command, slot, case):
    """Four at once: somebody completes, nobody harms it, the others are refused in words."""
    folder = bench.fresh(slot, command)
    dest = os.path.join(folder, "dest")
    processes = [start(command, bench.source, dest) for _ in range(4)]
    errors = [p.communicate(timeout=_fault.TIMEOUT_S)[1].decode() for p in processes]
    codes = [p.returncode for p in processes]
    if 0 not in codes or any(code not in (0, 5) for code in codes):
        bench.fail(command, case, f"exit codes {codes}: {errors}")
    if not bench.check_name(command, dest, case):
        bench.fail(command, case, f"no result; exit codes {codes}: {errors}")
    if sorted(os.listdir(folder)) != command.makes:
        bench.fail(command, case, f"left {sorted(os.listdir(folder))}")


def main():
    bench = _fault.Bench()
    dice = random.Random(5)
    commands = [command for command in bench.commands if command.writes]
    seconds = {command.name: run_time(bench, command) for command in commands}
    cases = [(command, f"round {i}", dice.random()) for command in commands for i in range(ROUNDS)]

    def run_one(case, slot):
        command, name, seed = case
        kill_one(bench, command, slot, name, random.Random(seed), seconds[command.name])

    done = bench.sweep(run_one, cases)
    races = [(command, f"race {i}") for command in commands if not command.old for i in range(15)]
    done += bench.sweep(lambda case, slot: race_one(bench, case[0], slot, case[1]), races)
    bench.finish(done)


if __name__ == "__main__":
    main()
