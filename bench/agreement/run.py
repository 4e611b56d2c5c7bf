#!/usr/bin/env python3
"""Do two comparisons of the same journal on the same machine agree?

bench/agreement/run.py [--pairs N] [--runs RUNS] JOURNAL...

Compares each journal twice in turn, --pairs times, on every allocator, with `keel compare` and its
defaults. Prints for each journal how many medians (malloc and free of each allocator and of the
floor) agree within 3 %, and how many intervals of p99.9 overlap. Stores every figure in
bench/runs/<date>-<machine>/agreement.csv. Also reports the state of the machine: discarded runs,
counted runs with interference, the load.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import PREFIX, keep

KEEL = PREFIX / "bin/keel"
AGREEMENT = 0.03
OPERATIONS = ["malloc", "free"]
COLUMNS = [
    "journal",
    "pair",
    "allocator",
    "operation",
    "runs_first",
    "runs_second",
    "p50_first",
    "p50_second",
    "p999_first_low",
    "p999_first_high",
    "p999_second_low",
    "p999_second_high",
    "discarded_first",
    "discarded_second",
    "interference_first",
    "interference_second",
]


def compare(journal, arguments):
    """The figures of one comparison, by allocator."""
    with tempfile.TemporaryDirectory(prefix="keel-agreement-") as folder:
        command = [
            KEEL,
            "compare",
            journal,
            "--json",
            "--raw",
            "none",
            "--no-usable-size",
            "-o",
            f"{folder}/results",
        ]
        command += ["--runs", arguments.runs] if arguments.runs else []
        command += ["--allocators", arguments.allocators] if arguments.allocators else []
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if run.returncode != 0:
            sys.exit(f"keel compare {journal} failed:\n{run.stderr}")
    figures = json.loads(run.stdout)
    return {one["name"]: one for one in figures["allocators"] if one["runs"]}


def rows_of(name, pair, first, second):
    for allocator in first:
        if allocator not in second:
            continue
        both = [first[allocator], second[allocator]]
        for operation in OPERATIONS:
            if not all(operation in one["latency_ns"] for one in both):
                continue
            medians = [round(one["latency_ns"][operation]["p50"]["all_runs"], 2) for one in both]
            intervals = [one["intervals"].get(operation, {}).get("p99.9") for one in both]
            ends = [
                round(interval[end], 1) if interval else ""
                for interval in intervals
                for end in ("low", "high")
            ]
            yield [
                name,
                pair,
                allocator,
                operation,
                *(one["runs"] for one in both),
                *medians,
                *ends,
                *(len(one["discarded"]) for one in both),
                *(sum(map(bool, one["interference"])) for one in both),
            ]


def table(rows):
    """Prints one line for each journal, and one for each pair of medians that disagrees."""
    print(
        f"{'journal':24} {'medians within 3 %':>20} {'worst':>8} {'p99.9 overlap':>14} "
        f"{'discarded':>10} "
        f"{'interference':>10}"
    )
    for journal in [*dict.fromkeys(row[0] for row in rows), ""]:
        part = [dict(zip(COLUMNS, row)) for row in rows if journal in ("", row[0])]
        difference = [abs(row["p50_second"] / row["p50_first"] - 1) for row in part]
        ends = [row for row in part if row["p999_first_low"] != "" and row["p999_second_low"] != ""]
        meet = sum(
            row["p999_first_low"] <= row["p999_second_high"]
            and row["p999_second_low"] <= row["p999_first_high"]
            for row in ends
        )
        of_malloc = [row for row in part if row["operation"] == OPERATIONS[0]]
        aside, disturbed = (
            sum(row[f"{what}_first"] + row[f"{what}_second"] for row in of_malloc)
            for what in ("discarded", "interference")
        )
        within = sum(one <= AGREEMENT for one in difference)
        print(
            f"{journal or 'all':24} {f'{within} of {len(part)}':>20} {max(difference):>8.1%} "
            f"{f'{meet} of {len(ends)}':>14} "
            f"{aside:>10} {disturbed:>10}"
        )
    for row in (dict(zip(COLUMNS, row)) for row in rows):
        difference = row["p50_second"] / row["p50_first"] - 1
        if abs(difference) > AGREEMENT:
            print(
                f"  {row['journal']} {row['allocator']} {row['operation']}: {row['p50_first']} and "
                f"{row['p50_second']} ns ({difference:+.1%}) of {row['runs_first']} and "
                f"{row['runs_second']} runs"
            )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pairs", type=int, default=1, help="pairs of comparisons of each journal (default 1)"
    )
    parser.add_argument("--runs", default="", help="as keel compare takes it (default: its own)")
    parser.add_argument("--allocators", default="", help="names with commas (default: all)")
    parser.add_argument("--no-archive", action="store_true", help="print only")
    parser.add_argument("journals", nargs="+", type=pathlib.Path, metavar="JOURNAL")
    arguments = parser.parse_args()
    if not KEEL.is_file():
        sys.exit(f"{KEEL} is missing: run `make build` first")
    rows = []
    for pair in range(1, arguments.pairs + 1):
        # All first comparisons, then all second ones: the two of a journal are minutes apart.
        first = {journal: compare(journal, arguments) for journal in arguments.journals}
        for journal in arguments.journals:
            rows += rows_of(
                journal.name.split(".")[0], pair, first[journal], compare(journal, arguments)
            )
        print(f"pair {pair} of {arguments.pairs}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    table(rows)
    if not arguments.no_archive:
        keep("agreement", COLUMNS, rows)


if __name__ == "__main__":
    main()
