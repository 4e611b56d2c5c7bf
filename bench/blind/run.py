#!/usr/bin/env python3
"""Does the lab find differences that exist, and only those?

bench/blind/run.py [--comparisons N] [--runs RUNS] JOURNAL

Makes N comparisons of each of two kinds with `keel compare`, in turn:

- same: one library under two names. A difference that is called significant is a false alarm; with
  95 % confidence there may be one in twenty.
- slower: the same library, once with more work in each allocation (about 3 % of the median malloc).
  It should be found in nine of ten comparisons.

Prints for each kind and metric how many comparisons called the two significantly different: false
alarms of the first kind, found differences of the second. Prints the median of the measured ratios,
too. Stores every ratio in bench/runs/<date>-<machine>/blind.csv.
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
from archive import PREFIX, keep

KEEL = PREFIX / "bin/keel"
# Empty steps before each allocation: the first makes the library's own variation small, the second
# adds about 3 % of the time of a malloc, which includes the instrument's own 20 ns.
STEPS = {"same": (400, 400), "slower": (400, 414)}
# What the counts of each kind are, and how many there should be.
WANTED = {
    "same": "false alarms (at most 5 % wanted)",
    "slower": "differences of 3 % that were found (at least 90 % wanted)",
}
METRICS = [("malloc", "p50"), ("malloc", "p99.9"), ("run", "throughput")]
COLUMNS = [
    "comparison",
    "kind",
    "operation",
    "metric",
    "rounds",
    "ratio",
    "low",
    "high",
    "lower",
    "discarded",
    "disturbed",
    "load",
]


def build(folder):
    """The library whose cost is set by its environment."""
    library = folder / "libspin.so"
    source = pathlib.Path(__file__).with_name("spin.c")
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-O2", "-fPIC", "-shared", "-fno-builtin", "-o", library, source]
    subprocess.run(command, check=True)
    return library


def compare(library, steps, arguments, folder):
    """The results of one comparison of the library with itself."""
    command = [KEEL, "compare", arguments.journal, "--json", "--raw", "none", "--no-usable-size"]
    command += ["--force", "-o", folder / "results"]
    command += ["--runs", arguments.runs] if arguments.runs else []
    for label, count in zip(["one", "two"], steps):
        command += ["--allocator", f"{label}={library}:SPIN={count}"]
    run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"keel compare {arguments.journal} failed:\n{run.stderr}")
    return json.loads((folder / "results" / "results.json").read_text())


def rows_of(number, kind, results):
    allocators = results["allocators"]
    discarded = sum(len(one["discarded"]) for one in allocators)
    disturbed = sum(bool(run["interference"]) for one in allocators for run in one["runs"])
    for pair in results["paired"]:
        if (pair["operation"], pair["figure"]) in METRICS:
            ends = [round(pair["ratio"][end], 5) for end in ("value", "low", "high")]
            yield [
                number,
                kind,
                pair["operation"],
                pair["figure"],
                pair["rounds"],
                *ends,
                pair["lower"],
                discarded,
                disturbed,
                round(os.getloadavg()[0], 1),
            ]


def table(rows):
    shares = {}
    print(f"{'kind':8} {'metric':14} {'different':>12} {'median ratio':>13} {'rounds':>7}")
    for kind in STEPS:
        for operation, metric in METRICS:
            part = [dict(zip(COLUMNS, row)) for row in rows]
            part = [one for one in part if (one["kind"], one["metric"]) == (kind, metric)]
            if not part:
                continue
            # Only the right direction counts as found.
            wanted = ("a", "b") if kind == "same" else ("a",)
            different = sum(one["lower"] in wanted for one in part)
            ratio = statistics.median(one["ratio"] for one in part)
            rounds = statistics.mean(one["rounds"] for one in part)
            name, found = f"{operation} {metric}", f"{different} of {len(part)}"
            print(f"{kind:8} {name:14} {found:>12} {ratio:>13.4f} {rounds:>7.1f}")
            shares.setdefault(kind, []).append((different, len(part), name))
    for kind, what in WANTED.items():
        counts = ", ".join(f"{found} of {all} ({name})" for found, all, name in shares[kind])
        print(f"{what}: {counts}")
    load = statistics.median(row[COLUMNS.index("load")] for row in rows)
    disturbed = sum(row[COLUMNS.index("disturbed")] for row in rows[:: len(METRICS)])
    print(f"median load {load}; disturbed runs that count: {disturbed}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--comparisons", type=int, default=100, help="comparisons of each kind (default 100)"
    )
    parser.add_argument("--runs", default="", help="as keel compare takes it (default: its own)")
    parser.add_argument("--no-archive", action="store_true", help="print only")
    parser.add_argument("journal", type=pathlib.Path, metavar="JOURNAL")
    arguments = parser.parse_args()
    if not KEEL.is_file():
        sys.exit(f"{KEEL} is missing: run `make build` first")
    rows = []
    with tempfile.TemporaryDirectory(prefix="keel-blind-") as name:
        folder = pathlib.Path(name)
        library = build(folder)
        for number in range(1, arguments.comparisons + 1):
            for kind, steps in STEPS.items():
                rows += rows_of(number, kind, compare(library, steps, arguments, folder))
            print(f"{number} of {arguments.comparisons}", file=sys.stderr)
    table(rows)
    if not arguments.no_archive:
        keep("blind", COLUMNS, rows)


if __name__ == "__main__":
    main()
