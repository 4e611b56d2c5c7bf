#!/usr/bin/env python3
"""Does an independent program measure the same floor as the lab?

bench/floor/run.py [--rounds N] JOURNAL

Runs N times in turn: floor.c beside this file, which shares no code with the lab, and `keel compare
JOURNAL -a null --touch none`. Prints the smallest median of both over the rounds, because another
guest on the host slows some rounds and not others. Stores every round in
bench/runs/<date>-<machine>/floor.csv. A free of the null allocator does nothing; its malloc bumps a
pointer up to an end. Both agree when they differ by less than one step of the processor's clock,
the resolution of a single reading.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import PREFIX, keep

KEEL = PREFIX / "bin/keel"
SOURCE = pathlib.Path(__file__).with_name("floor.c")
CALLS = "3000000"
SAME = {"free": "nothing", "malloc": "bump"}


def independent(program):
    """Medians by the name of the call, ns, and the clock's step."""
    text = subprocess.run([program, CALLS], check=True, capture_output=True, text=True).stdout
    medians = {
        name: float(median)
        for name, median in re.findall(r"^(\w+) +p50 ([0-9.]+) ns", text, re.MULTILINE)
    }
    return medians, float(re.search(r"a step of ([0-9.]+) ns", text).group(1))


def of_the_lab(journal, folder):
    """Medians by operation, ns, and how many of the runs had interference."""
    command = [
        KEEL,
        "compare",
        journal,
        "-a",
        "null",
        "--touch",
        "none",
        "-r",
        "5",
        "--json",
        "-o",
        folder / "results",
    ]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"keel compare {journal} failed:\n{run.stderr}")
    null = json.loads(run.stdout)["allocators"][0]
    medians = {name: figures["p50"]["all_runs"] for name, figures in null["latency_ns"].items()}
    return medians, sum(map(bool, null["interference"]))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often in turn (default 5)")
    parser.add_argument("--no-archive", action="store_true", help="print only")
    parser.add_argument("journal", type=pathlib.Path, metavar="JOURNAL")
    arguments = parser.parse_args()
    if not KEEL.is_file():
        sys.exit(f"{KEEL} is missing: run `make build` first")
    rows = []
    with tempfile.TemporaryDirectory(prefix="keel-floor-") as name:
        program = pathlib.Path(name) / "floor"
        subprocess.run(["cc", "-O2", "-o", program, SOURCE], check=True)
        for number in range(1, arguments.rounds + 1):
            own, step = independent(program)
            with tempfile.TemporaryDirectory(dir=name) as folder:
                lab, disturbed = of_the_lab(arguments.journal, pathlib.Path(folder))
            rows += [
                [number, operation, round(lab[operation], 2), own[call], step, disturbed]
                for operation, call in SAME.items()
                if operation in lab
            ]
    for operation in dict.fromkeys(row[1] for row in rows):
        lab, own = (min(row[column] for row in rows if row[1] == operation) for column in (2, 3))
        verdict = "agree" if abs(lab - own) < rows[0][4] else "DIFFER"
        print(
            f"{operation}: the lab's floor {lab:.2f} ns, measured without it {own:.2f} ns, one "
            "step of the clock "
            f"{rows[0][4]:.2f} ns: they {verdict}"
        )
    if not arguments.no_archive:
        keep(
            "floor",
            ["round", "operation", "lab_p50", "independent_p50", "clock_step", "interference_runs"],
            rows,
        )


if __name__ == "__main__":
    main()
