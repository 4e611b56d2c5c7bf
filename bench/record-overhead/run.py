#!/usr/bin/env python3
"""Measures what recording adds to an operation.

Runs the same program without the recorder, recorded, and recorded with call stacks, in turn.

    bench/record-overhead/run.py [--runs N] [--beside PREFIX]

Needs `make build`. Prints a table and stores every run in
bench/runs/<date>-<machine>/record-overhead.csv.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import archive

KEEL = archive.PREFIX / "bin" / "keel"

# Name and options of `keel record`; None: not recorded.
WAYS = [("plain", None), ("recorded", []), ("with stacks", ["--stacks", "16"])]
BESIDE = [("recorded, beside", []), ("stacks, beside", ["--stacks", "16"])]

# Name, threads, pause in µs between batches of 2000 operations, batches a thread, KIND of pairs.
# A sized delete passes the recorder twice: as operator delete, which stores the size for the free
# that it calls.
CASES = [
    ("1 thread, paced", 1, 1000, 1000, "free"),
    ("2 threads, paced", 2, 1000, 1000, "free"),
    ("1 thread, paced, sized deletes", 1, 1000, 1000, "delete"),
    ("1 thread, paced, below 16 calls", 1, 1000, 1000, "deep"),
    ("2 threads, paced, sized deletes", 2, 1000, 1000, "delete"),
    ("1 thread, full speed", 1, 0, 5000, "free"),
    ("2 threads, full speed", 2, 0, 2500, "free"),
    ("2 threads, full speed, sized deletes", 2, 0, 2500, "delete"),
]


def measure(keel, program, case, options, folder):
    _, threads, pause, batches, kind = case
    command = [program, str(threads), str(pause), str(batches), kind]
    if options is not None:
        journal = os.path.join(folder, "run.journal.parquet")
        command = [keel, "record", "--quiet", *options, "-o", journal, "--", *command]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(number) for number in output.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=11, help="runs of each kind (default 11)")
    parser.add_argument(
        "--beside",
        type=pathlib.Path,
        metavar="PREFIX",
        help="also measure another build, with bin/keel in this folder",
    )
    arguments = parser.parse_args()
    runs, ways = arguments.runs, list(WAYS)
    if arguments.beside:
        ways.extend(BESIDE)
    if not KEEL.is_file():
        sys.exit(f"{KEEL} is missing: run `make build` first")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "pairs")
        source = pathlib.Path(__file__).with_name("pairs.cpp")
        subprocess.run(
            ["c++", "-O2", "-fno-builtin", "-pthread", "-o", program, source], check=True
        )
        for run in range(runs):
            for case in CASES:
                for way, options in ways[run % len(ways) :] + ways[: run % len(ways)]:
                    is_beside = way in dict(BESIDE)
                    keel = arguments.beside / "bin" / "keel" if is_beside else KEEL
                    rows.append((case[0], run, way, *measure(keel, program, case, options, folder)))
            print(f"record-overhead: run {run + 1} of {runs}", file=sys.stderr)
    columns = ["median_ns_an_operation", "p999_ns_an_operation", "mean_ns_an_operation"]
    archive.keep("record-overhead", ["case", "run", "way", *columns], rows)
    table(rows)


def table(rows):
    print(
        f"{'':34} {'way':16} {'median':>8} {'added':>7} {'spread of added':>18} {'p99.9':>8} "
        f"{'mean':>8}"
    )
    for case, *_ in CASES:
        pick = lambda way, at: [row[at] for row in rows if row[0] == case and row[2] == way]
        for way in (way for way in dict(WAYS + BESIDE) if pick(way, 3)):
            added = [one - without for without, one in zip(pick("plain", 3), pick(way, 3))]
            spread = f"{min(added):.1f} .. {max(added):.1f}"
            print(
                f"{case:34} {way:16} {statistics.median(pick(way, 3)):8.2f} "
                f"{statistics.median(added):7.2f} "
                f"{spread:>18} {statistics.median(pick(way, 4)):8.2f} "
                f"{statistics.median(pick(way, 5)):8.2f}"
            )
    print(
        "ns an operation over batches of 2000: median and p99.9 of the batches; the mean includes "
        "all waits"
    )


if __name__ == "__main__":
    main()
