"""Every read and write moves fewer bytes than asked, and some are interrupted: same result."""
import os

import _fault


def main():
    bench = _fault.Bench()

    def run_one(case, slot):
        command, name = case
        folder = bench.fresh(slot, command)
        dest = os.path.join(folder, "dest")
        line = command.line(_fault.FAULT, bench.source, dest)
        bench.check_success(command, dest, _fault.Result(line, {"SW_FAULT_SHORT": "1"}), name)

    cases = [(command, f"short transfers {i}") for command in bench.commands for i in range(3)]
    bench.finish(bench.sweep(run_one, cases))


if __name__ == "__main__":
    main()
