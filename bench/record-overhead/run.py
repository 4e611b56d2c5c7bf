#!/usr/bin/env python3
"""Measures what recording adds to an operation: the same program with and without the recorder, in turn.

    bench/record-overhead/run.py [--runs N]

Needs `make build`. Prints a table and keeps every run under bench/runs/<date>-<machine>/record-overhead.csv.
"""

import argparse
import csv
import datetime
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEEL = pathlib.Path(os.environ.get("KEEL_PREFIX", ROOT / "build")) / "bin" / "keel"

# Name, threads, pause between batches of 2000 operations in us, batches a thread.
CASES = [
    ("1 thread, paced", 1, 1000, 1000),
    ("2 threads, paced", 2, 1000, 1000),
    ("1 thread, flat out", 1, 0, 5000),
    ("2 threads, flat out", 2, 0, 2500),
]


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.*)", text)
    words = re.findall(r"[a-z0-9]+", model.group(1).lower()) if model else ["unknown"]
    skipped = {"amd", "intel", "r", "tm", "cpu", "processor", "core"}
    name = "-".join([word for word in words if word not in skipped][:2]) or "unknown"
    virtual = "-vm" if " hypervisor" in text else ""
    return f"{name}-{os.cpu_count()}core{virtual}"


def measure(program, case, recorded, folder):
    _, threads, pause, batches = case
    command = [program, str(threads), str(pause), str(batches)]
    if recorded:
        command = [KEEL, "record", "--quiet", "-o", os.path.join(folder, "run.journal.parquet"), "--", *command]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    median, mean = map(float, output.split())
    return median, mean


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=11, help="runs of each kind (default 11)")
    runs = parser.parse_args().runs
    if not KEEL.is_file():
        sys.exit(f"{KEEL} is missing: run `make build` first")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "pairs")
        source = pathlib.Path(__file__).with_name("pairs.c")
        subprocess.run(["cc", "-O2", "-fno-builtin", "-pthread", "-o", program, source], check=True)
        for run in range(runs):
            for case in CASES:
                for recorded in (False, True) if run % 2 == 0 else (True, False):
                    rows.append((case[0], run, recorded, *measure(program, case, recorded, folder)))
            print(f"record-overhead: run {run + 1} of {runs}", file=sys.stderr)
    keep(rows)
    table(rows)


def keep(rows):
    folder = ROOT / "bench" / "runs" / f"{datetime.date.today()}-{machine()}"
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    while (path := folder / f"record-overhead{'' if number == 1 else f'-{number}'}.csv").exists():
        number += 1
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["# command", " ".join(["bench/record-overhead/run.py", *sys.argv[1:]])])
        writer.writerow(["# kernel", os.uname().release, "load before", "%.1f %.1f %.1f" % os.getloadavg()])
        writer.writerow(["case", "run", "recorded", "median_ns_an_operation", "mean_ns_an_operation"])
        writer.writerows([case, run, int(recorded), median, mean] for case, run, recorded, median, mean in rows)
    print(f"record-overhead: every run is in {path.relative_to(ROOT)}", file=sys.stderr)


def table(rows):
    print(f"{'':22} {'without':>9} {'recorded':>9} {'added':>7} {'spread of added':>17} {'added, mean':>12}")
    for case, *_ in CASES:
        pick = lambda recorded, at: [row[at] for row in rows if row[0] == case and row[2] == recorded]
        plain, recorded = pick(False, 3), pick(True, 3)
        added = [with_recorder - without for without, with_recorder in zip(plain, recorded)]
        means = statistics.median(pick(True, 4)) - statistics.median(pick(False, 4))
        spread = f"{min(added):.1f} .. {max(added):.1f}"
        print(f"{case:22} {statistics.median(plain):9.2f} {statistics.median(recorded):9.2f} "
              f"{statistics.median(added):7.2f} {spread:>17} {means:12.2f}")
    print("ns an operation; medians of batches of 2000 operations; the mean includes waits for the recorder")


if __name__ == "__main__":
    main()
