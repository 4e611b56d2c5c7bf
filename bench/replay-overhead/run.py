#!/usr/bin/env python3
"""Measures what a replay without a clock around each call adds to an operation.

Runs a program that only allocates and frees, and a replay of exactly its operations, in turn.

    bench/replay-overhead/run.py [--runs N] [--operations N]

Needs `make build`. Prints a table and stores every run in
bench/runs/<date>-<machine>/replay-overhead.csv.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import archive

KEEL = archive.PREFIX / "bin" / "keel"
CASES = ["in-turn", "random", "random-large", "random-2-threads"]
# Name, and whether it is the library beside this file; else the C library's malloc.
ALLOCATORS = [("counter", True), ("glibc", False)]


def compiled(name, folder, *options):
    source = pathlib.Path(__file__).with_name(f"{name}.c")
    output = folder / (f"lib{name}.so" if "-shared" in options else name)
    subprocess.run(
        ["cc", "-O2", "-fno-builtin", "-pthread", *options, "-o", output, source], check=True
    )
    return output


def direct(program, case, operations, library):
    arguments = [library, "counter_"] if library else ["", ""]
    command = [program, case, str(operations), *arguments]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def replayed(journal, library, folder):
    results = folder / "results"
    by_name = ["-a", library, "--symbols", "counter_"] if library else ["-a", "glibc"]
    command = [
        KEEL,
        "compare",
        journal,
        *by_name,
        "--runs",
        "1",
        "--touch",
        "none",
        "--raw",
        "none",
    ]
    command += ["--no-usable-size", "--force", "-o", results]
    subprocess.run(command, check=True, capture_output=True)
    outcome = json.loads((results / "results.json").read_text())["allocators"][0]
    run = outcome["throughput"][0]
    return run["elapsed_ns"] / run["operations"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=7, help="runs of each (default 7)")
    parser.add_argument(
        "--operations", type=int, default=4_000_000, help="in a run (default 4 million)"
    )
    options = parser.parse_args()
    if not KEEL.is_file():
        sys.exit(f"{KEEL} is missing: run `make build` first")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program, counter = compiled("direct", folder), compiled(
            "counter", folder, "-shared", "-fPIC"
        )
        for case in CASES:
            journal, text = folder / f"{case}.parquet", folder / "journal.txt"
            with text.open("w") as file:
                subprocess.run(
                    [program, case, str(options.operations), "journal"], check=True, stdout=file
                )
            subprocess.run([KEEL, "import", text, "-o", journal], check=True, capture_output=True)
            for run in range(options.runs):
                for name, is_counter in ALLOCATORS:
                    library = counter if is_counter else None
                    ways = [
                        lambda: direct(program, case, options.operations, library),
                        lambda: replayed(journal, library, folder),
                    ]
                    first = run % 2  # in turn, so that neither is always second
                    pair = {way: ways[way]() for way in (first, 1 - first)}
                    rows.append((case, name, run, pair[0], pair[1]))
            print(f"replay-overhead: {case} is done", file=sys.stderr)
    columns = ["case", "allocator", "run", "direct_ns_an_operation", "replayed_ns_an_operation"]
    archive.keep("replay-overhead", columns, rows)
    table(rows)


def table(rows):
    print(
        f"{'':18} {'allocator':10} {'direct':>8} {'replayed':>9} {'added':>7} "
        f"{'spread of added':>18}"
    )
    for case in CASES:
        for name, _ in ALLOCATORS:
            pairs = [row[3:] for row in rows if row[:2] == (case, name)]
            added = [replay - direct for direct, replay in pairs]
            one, two = (statistics.median(column) for column in zip(*pairs))
            spread = f"{min(added):.2f} .. {max(added):.2f}"
            print(
                f"{case:18} {name:10} {one:8.2f} {two:9.2f} {statistics.median(added):7.2f} "
                f"{spread:>18}"
            )
    print("ns an operation; medians of the runs; added: the median of the differences within a run")


if __name__ == "__main__":
    main()
