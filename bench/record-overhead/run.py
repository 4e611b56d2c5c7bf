#!/usr/bin/env python3
"""Measures what recording adds to an operation: the same program without the recorder, recorded, and recorded with
call stacks, in turn.

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

# Name and options of `keel record`; None: not recorded.
WAYS = [("plain", None), ("recorded", []), ("with stacks", ["--stacks", "8"])]

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


def measure(program, case, options, folder):
    _, threads, pause, batches = case
    command = [program, str(threads), str(pause), str(batches)]
    if options is not None:
        journal = os.path.join(folder, "run.journal.parquet")
        command = [KEEL, "record", "--quiet", *options, "-o", journal, "--", *command]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(number) for number in output.split()]


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
                for way, options in WAYS[run % 3:] + WAYS[:run % 3]:
                    if way == "with stacks" and case[2] == 0:
                        continue  # flat out, the stacks alone would take a minute
                    rows.append((case[0], run, way, *measure(program, case, options, folder)))
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
        columns = ["median_ns_an_operation", "p999_ns_an_operation", "mean_ns_an_operation"]
        writer.writerow(["case", "run", "way", *columns])
        writer.writerows(rows)
    print(f"record-overhead: every run is in {path.relative_to(ROOT)}", file=sys.stderr)


def table(rows):
    print(f"{'':22} {'way':12} {'median':>8} {'added':>7} {'spread of added':>18} {'p99.9':>8} {'mean':>8}")
    for case, *_ in CASES:
        pick = lambda way, at: [row[at] for row in rows if row[0] == case and row[2] == way]
        for way in (way for way, _ in WAYS if pick(way, 3)):
            added = [one - without for without, one in zip(pick("plain", 3), pick(way, 3))]
            spread = f"{min(added):.1f} .. {max(added):.1f}"
            print(f"{case:22} {way:12} {statistics.median(pick(way, 3)):8.2f} {statistics.median(added):7.2f} "
                  f"{spread:>18} {statistics.median(pick(way, 4)):8.2f} {statistics.median(pick(way, 5)):8.2f}")
    print("ns an operation over batches of 2000: median and p99.9 of the batches, and mean, which has all waits in it")


if __name__ == "__main__":
    main()
