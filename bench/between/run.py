#!/usr/bin/env python3
"""Are the calls of a replay with `--between evict=auto` as slow as in the program?

bench/between/run.py [--rounds N] [--no-archive] [PROGRAM...]

Records programs of one thread. Then, in each round, times every call of the allocator in the
program itself (libkeel_bridge.so), and in three replays at pace 1x: without eviction, with
evict=auto, and with evict=1M. All on the C library's allocator, with --touch none, because the
program touches its blocks outside of the calls. Prints the medians of the rounds: p50, p99 and
p99.9 of all calls, less the cost of the measurement. Stores all rounds in
bench/runs/<date>-<machine>/between.csv.
"""

import argparse
import csv
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import PREFIX, keep, markdown
from one_thread import SQL

KEEL = PREFIX / "bin/keel"
BRIDGE = PREFIX / "lib/keel/libkeel_bridge.so"
FIGURES = ["p50", "p99", "p99.9"]
SHARES = [0.5, 0.99, 0.999]
WAYS = {"replay": [], "auto": ["--between", "evict=auto"], "1M": ["--between", "evict=1M"]}
# Each makes the same calls in every run. Between them: interpreters' work on much memory, on little
# memory, and a numerical loop over an array.
PERL = (
    "my %h; my $s = 1;"
    "for my $i (1..200000) { $s = ($s * 1103515245 + 12345) % 2147483648;"
    " $h{$s % 30000} = 'x' x ($s % 700); delete $h{($s >> 8) % 30000} }"
)
ARRAY = (
    "a = list(range(200000)); s = 1; kept = []\n"
    "for i in range(20000):\n"
    "    s = (s * 1103515245 + 12345) % 2147483648\n"
    "    kept.append(bytearray(600 + s % 900)); t = sum(a[s % 100000:s % 100000 + 2000])\n"
    "    if i % 3: kept.pop(s % len(kept))\n"
)
PROGRAMS = {
    "perl": ["perl", "-e", PERL],
    "python": ["python3", "-S", "-c", ARRAY],
    "sqlite3": ["sqlite3", ":memory:", SQL],
}


def run(command, **more):
    env = dict(os.environ, LC_ALL="C", PERL_HASH_SEED="0", PYTHONHASHSEED="0", **more)
    done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr.decode()}")


def in_program(command, folder):
    """The times of the calls in the program itself, ns."""
    file = folder / "times.json"
    run(command, LD_PRELOAD=str(BRIDGE), KEEL_BRIDGE="next", KEEL_BRIDGE_TIMES=str(file))
    times = json.loads(file.read_text())
    return [times[key] - times["pair_ns"] for key in ("p50_ns", "p99_ns", "p999_ns")]


def in_replay(journal, options, folder):
    """The same in a replay, less the median call of the null allocator."""
    results = folder / "results"
    command = [KEEL, "compare", journal, "-a", "glibc", "--pace", "1x", "--runs", "1"]
    command += ["--touch", "none", "--no-usable-size", "--force", *options, "-o", results]
    run(command)
    floor = percentile(calls_of(results, "null", folder), 0.5)
    times = calls_of(results, "glibc", folder)
    return [percentile(times, share) - floor for share in SHARES]


def calls_of(results, allocator, folder):
    """The times of all calls, sorted, ns."""
    table = folder / "calls.csv"
    table.unlink(missing_ok=True)
    run([KEEL, "export", results, "--to", "csv", "-a", allocator, "-o", table])
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    times = (row[column] for row in rows for column in ("allocTime", "freeTime"))
    return sorted(float(time) for time in times if time)


def percentile(times, share):
    return times[min(int(len(times) * share), len(times) - 1)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-archive", action="store_true", help="print only")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="of: " + ", ".join(PROGRAMS))
    arguments = parser.parse_args()
    kept, table = [], []
    with tempfile.TemporaryDirectory(prefix="keel-between-") as name:
        folder = pathlib.Path(name)
        for program in arguments.programs or PROGRAMS:
            if shutil.which(PROGRAMS[program][0]) is None:
                print(f"{program} is missing: left out", file=sys.stderr)
                continue
            journal = folder / f"{program}.journal.parquet"
            run([KEEL, "record", "-o", journal, "--", *PROGRAMS[program]])
            of_program = []
            for number in range(arguments.rounds):
                print(f"{program}: round {number + 1}", file=sys.stderr)
                own = in_program(PROGRAMS[program], folder)
                of_program.append([program, number, "program", *own])
                for way, options in WAYS.items():
                    of_program.append([program, number, way, *in_replay(journal, options, folder)])
            kept += of_program
            for way in ["program", *WAYS]:
                columns = zip(*(row[3:] for row in of_program if row[2] == way))
                table.append([program, way, *(f"{statistics.median(one):.0f}" for one in columns)])
    print(markdown(["program", "calls", *(f"{figure}, ns" for figure in FIGURES)], table))
    if not arguments.no_archive:
        keep("between", ["program", "round", "calls", *FIGURES], kept)


if __name__ == "__main__":
    main()
