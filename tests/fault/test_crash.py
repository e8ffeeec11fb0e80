"""G1 and G2: the power is cut before each sync and each change of a name, and what was not synced is
kept, lost (with or without its names) or turned into garbage. A name is complete or as before; the
same command then completes. A cut right after success loses nothing."""
import os
import random

import _fault

MODES = ("keep", "drop", "data", "garble")
PAIRS = 200


def main():
    bench = _fault.Bench()
    commands = [command for command in bench.commands if command.writes]
    cases = [(command, (k,), mode) for command in commands for mode in MODES
             for k in range(1, command.counts["crash"] + 1)]
    cases += [(command, ("end",), mode) for command in commands for mode in MODES]
    # Killed again while it takes up where the killed run was.
    dice = random.Random(3)
    for command in commands:
        last = command.counts["crash"]
        cases += [(command, (dice.randint(1, last), dice.randint(1, last)), dice.choice(MODES))
                  for _ in range(PAIRS)]

    def run_one(case, slot):
        command, points, mode = case
        folder = bench.fresh(slot, command)
        dest = os.path.join(folder, "dest")
        for point in points:
            name = f"SW_FAULT_CRASH={point},{mode} of {points}"
            line = command.line(_fault.FAULT, bench.source, dest)
            result = _fault.Result(line, {"SW_FAULT_CRASH": f"{point},{mode}"})
            if result.code == 0:
                bench.check_success(command, dest, result, name)
                return
            if result.code != 137:
                bench.fail(command, name, "must die or succeed", result)
            if bench.check_name(command, dest, name, result) and not command.old:
                return
        bench.rerun(command, folder, f"SW_FAULT_CRASH={points},{mode}")

    bench.finish(bench.sweep(run_one, cases))


if __name__ == "__main__":
    main()
