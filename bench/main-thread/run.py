#!/usr/bin/env python3
"""What changes if the program's main thread is not the main thread of the replay?

bench/main-thread/run.py [--rounds N] [-a ALLOCATORS] [--no-archive] JOURNAL...

glibc grows the memory of the main thread by brk and that of others by mprotect, and takes shortcuts
in a process of one thread. Until 2026-11-23 the player ran every thread of a journal as a second
thread. This does the same with a copy of each journal: an additional first thread, with one malloc
and one free, takes the main thread. Both are replayed at pace max, in turn, ROUNDS times. Prints
medians, copy / journal, and stores every run in bench/runs/<date>-<machine>/main-thread.csv.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import PREFIX, keep, markdown

KEEL = PREFIX / "bin/keel"
FIGURES = ["malloc p50, ns", "malloc p99, ns", "malloc p99.9, ns", "free p99.9, ns", "in calls, ms"]
FIGURES += ["peak, MiB", "faults"]
# Above all addresses and thread numbers of an export.
ADDRESS, THREAD = "7ffffffff000", "99999"


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    return done.stdout


def with_first_thread(journal, folder):
    """The copy."""
    text, copy = folder / "copy.txt", folder / "copy.journal.parquet"
    run([KEEL, "export", journal, "--to", "doom3", "-o", text])
    both = folder / "both.txt"
    with open(both, "w") as to, open(text) as rest:
        to.write(f"a 16 {ADDRESS} {THREAD} 0\nf {ADDRESS} {THREAD} 0\n")
        for line in rest:
            to.write(line)
    command = [KEEL, "import", both, "-o", copy]
    info = json.loads(run([KEEL, "info", "--json", journal]))
    if info.get("prologue"):
        print(f"{journal}: its prologue becomes calls", file=sys.stderr)
    run(command)
    text.unlink()
    both.unlink()
    return copy


def measured(journal, allocators, folder):
    """The figures of one run, by allocator."""
    results = folder / "results"
    command = [KEEL, "compare", journal, "-a", allocators, "-r", "1", "--no-throughput", "--force"]
    run([*command, "--no-usable-size", "--raw", "none", "--no-repeat", "-o", results])
    found = json.loads(run([KEEL, "export", results, "--to", "json"]))
    figures = {}
    for one in found["allocators"]:
        at = lambda operation, label: (
            one["operations"].get(operation, {}).get("latency_ns", {}).get(label, {}).get("median")
        )
        total = sum(operation["total_ns"]["median"] for operation in one["operations"].values())
        figures[one["name"]] = [
            *(at("malloc", label) for label in ("p50", "p99", "p999")),
            at("free", "p999"),
            total / 1e6,
            one["peak_rss_bytes"]["median"] / 2**20,
            one["page_faults"]["median"],
        ]
    return figures


def ratio_of(rows, allocator, column):
    """The medians of the copy and of the journal, and their ratio."""
    of = lambda kind: statistics.median(
        row[4 + column] for row in rows if row[1] == kind and row[3] == allocator
    )
    copy, own = of("second"), of("main")
    return f"{copy:.3g} / {own:.3g}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-a", "--allocators", default="glibc,keel")
    parser.add_argument("--no-archive", action="store_true", help="print only")
    parser.add_argument("journals", nargs="+", type=pathlib.Path, metavar="JOURNAL")
    arguments = parser.parse_args()
    kept, table = [], []
    for journal in arguments.journals:
        name, rows = journal.name.split(".")[0], []
        with tempfile.TemporaryDirectory(prefix="keel-main-thread-") as place:
            folder = pathlib.Path(place)
            kinds = {"main": journal, "second": with_first_thread(journal, folder)}
            for number in range(arguments.rounds):
                print(f"{name}: round {number + 1}", file=sys.stderr)
                for kind, path in kinds.items():
                    for allocator, figures in measured(path, arguments.allocators, folder).items():
                        rows.append([name, kind, number, allocator, *figures])
        kept += rows
        for allocator in arguments.allocators.split(","):
            known = [row for row in rows if row[3] == allocator and None not in row]
            if known:
                cells = [ratio_of(known, allocator, column) for column in range(len(FIGURES))]
                table.append([name, allocator, *cells])
    print(markdown(["journal", "allocator", *FIGURES], table))
    if not arguments.no_archive:
        keep("main-thread", ["journal", "thread", "round", "allocator", *FIGURES], kept)


if __name__ == "__main__":
    main()
