#!/usr/bin/env python3
"""Does the lab find differences that exist, and only those?

bench/blind/run.py [--comparisons N] [--operations N] [--runs RUNS] [--log FILE] [JOURNAL]

Makes N comparisons of each of two kinds with `keel compare`, in turn:

- same: one library under two names. A difference that is called significant is a false alarm; with
  95 % confidence there may be one in twenty.
- slower: the same library, once with more work in each allocation (about 3 % of the median malloc).
  It should be found in nine of ten comparisons.

The journal is an excerpt of JOURNAL (`keel slice`): its second 100,000 operations, or as many as
--operations says. Without JOURNAL it is an excerpt of a program that is made up: one thread, small
blocks of random sizes and lifetimes. A journal of one thread is best, because only there a
neighbour on the core is recognized. The rounds end when the figures are precise, as for every user,
unless --runs says how many there are.

Each comparison is added to the log when it is finished. The same command continues an interrupted
series. On a machine without other work, 200 comparisons take about 20 minutes.

Prints for each kind and metric how many comparisons called the two significantly different: false
alarms of the first kind, found differences of the second. Prints the median of the measured ratios,
too. Stores every ratio in bench/runs/<date>-<machine>/blind.csv.
"""

import argparse
import csv
import fcntl
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import PREFIX, keep

KEEL = PREFIX / "bin/keel"
# Empty steps before each allocation: the first makes the library's own variation small, the second
# adds about 3 % of the time of a malloc. A malloc takes about 1.1 µs, because the counters of some
# virtual machines move in steps of 10 ns: a percentile of 140 ns cannot show 3 % there.
STEPS = {"same": (4000, 4000), "slower": (4000, 4124)}
# What the counts of each kind are, and how many there should be.
WANTED = {
    "same": "false alarms (at most 5 % wanted)",
    "slower": "differences of 3 % that were found (at least 90 % wanted)",
}
METRICS = [("malloc", "p50"), ("malloc", "mean"), ("malloc", "p99.9"), ("run", "throughput")]
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
    "seconds",
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


def keel(*arguments):
    """Runs a command that has to succeed."""
    run = subprocess.run([KEEL, *map(str, arguments)], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"keel {arguments[0]} {arguments[1]} failed:\n{run.stderr}")


def made_up(operations, folder):
    """A journal of one thread with three times as many operations, always the same."""
    chance = random.Random(1)
    live, lines = [], []
    for step in range(3 * operations):
        if len(live) > 5000 or (live and chance.random() < 0.49):
            place = chance.randrange(len(live))
            live[place], live[-1] = live[-1], live[place]
            lines.append(f"f {live.pop():x} 0 {100 * step}\n")
        else:
            # Half of the blocks are smaller than 64 bytes, one in a hundred has some KiB.
            size = int(chance.lognormvariate(4.2, 1.6)) + 1
            lines.append(f"a {size} {step + 1:x} 0 {100 * step}\n")
            live.append(step + 1)
    trace, journal = folder / "trace.txt", folder / "trace.journal.parquet"
    trace.write_text("".join(lines))
    keel("import", trace, "-o", journal)
    return journal


def excerpt(arguments, folder):
    """The part of the journal that is replayed: the second of the parts, or the only one."""
    journal = arguments.journal or made_up(arguments.operations, folder)
    keel("slice", journal, "--every", arguments.operations, "-o", folder / "parts")
    parts = sorted((folder / "parts").iterdir())
    return parts[min(1, len(parts) - 1)]


def compare(library, steps, journal, runs, folder):
    """The results of one comparison of the library with itself."""
    command = [KEEL, "compare", journal, "--json", "--raw", "none", "--no-usable-size"]
    command += ["--force", "-o", folder / "results"]
    command += ["--runs", runs] if runs else []
    for label, count in zip(["one", "two"], steps):
        command += ["--allocator", f"{label}={library}:SPIN={count}"]
    run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"keel compare {journal} failed:\n{run.stderr}")
    return json.loads((folder / "results" / "results.json").read_text())


class Log:
    """The finished comparisons of a series, in a file that a later start continues."""

    def __init__(self, path, settings):
        self.path = path
        self.rows = []
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{settings}\n")
        # Two series at a time would disturb each other and add their comparisons twice.
        self.lock = path.open("a")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another series is writing {path}: wait for its end, or use another --log")
        lines = path.read_text().splitlines()
        if not lines or lines[0] != settings:
            sys.exit(
                f"{path} is the log of another series ({lines[:1]}, not {settings}): "
                "remove it, or choose another one with --log"
            )
        for row in csv.reader(lines[1:]):
            # An interrupted start may have left a part of a line.
            if len(row) == len(COLUMNS):
                types = (int, str, str, str, int, float, float, float, str, float, int, int, float)
                self.rows.append([of(value) for of, value in zip(types, row)])
        self.done = {(row[0], row[1]) for row in self.rows}

    def add(self, rows):
        """Writes all rows of a comparison at once."""
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        self.rows += rows


def rows_of(number, kind, results, seconds):
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
                round(seconds, 1),
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
    disturbed = {(row[0], row[1]): row[COLUMNS.index("disturbed")] for row in rows}
    print(f"median load {load:.1f}; disturbed runs that count: {sum(disturbed.values())}")


def series(arguments, log, folder):
    """Makes the comparisons that the log does not have yet."""
    library = build(folder)
    journal = excerpt(arguments, folder)
    wanted = [(n, kind) for n in range(1, arguments.comparisons + 1) for kind in STEPS]
    missing = [one for one in wanted if one not in log.done]
    begun = time.monotonic()
    for count, (number, kind) in enumerate(missing, 1):
        start = time.monotonic()
        results = compare(library, STEPS[kind], journal, arguments.runs, folder)
        now = time.monotonic()
        log.add(list(rows_of(number, kind, results, now - start)))
        left = (now - begun) / count * (len(missing) - count) / 60
        done = len(wanted) - len(missing) + count
        print(f"{done} of {len(wanted)} comparisons, {left:.0f} min left", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--comparisons", type=int, default=100, help="comparisons of each kind (default 100)"
    )
    parser.add_argument(
        "--operations", type=int, default=100_000, help="of the excerpt (default 100,000)"
    )
    parser.add_argument("--runs", default="", help="as keel compare takes it (default: its own)")
    parser.add_argument("--log", type=pathlib.Path, help="default: build/blind-NAME.csv")
    parser.add_argument("--no-archive", action="store_true", help="print only")
    parser.add_argument("journal", type=pathlib.Path, metavar="JOURNAL", nargs="?")
    arguments = parser.parse_args()
    if not KEEL.is_file():
        sys.exit(f"{KEEL} is missing: run `make build` first")
    name = arguments.journal.name.split(".")[0] if arguments.journal else "made-up"
    runs = arguments.runs or "auto"
    settings = f"{name}, {arguments.operations} operations, runs {runs}, {STEPS}"
    log = Log(arguments.log or PREFIX / f"blind-{name}.csv", settings)
    with tempfile.TemporaryDirectory(prefix="keel-blind-") as folder:
        try:
            series(arguments, log, pathlib.Path(folder))
        except KeyboardInterrupt:
            print(f"interrupted; the same command continues {log.path}", file=sys.stderr)
            sys.exit(130)
    rows = [row for row in log.rows if row[0] <= arguments.comparisons]
    table(rows)
    if not arguments.no_archive:
        keep("blind", COLUMNS, rows)


if __name__ == "__main__":
    main()
