#!/usr/bin/env python3
"""Do rounds run on the workers of a scheduler, and do the queries of the guide work?

bench/rounds/run.py [--workers N] [--rounds N] [-a ALLOCATORS] [--work FOLDER] JOURNAL...

Plans a comparison for each journal, runs each round as a task of Dask (workers are processes of
this machine), merges, and runs every SQL query of docs/guide/rounds.md with DuckDB on the tables of
all plans. Prints what was run and the results of the queries. The exit code is 1 if a round is
missing from the tables or a query returns no row. Workers side by side disturb each other: this
shows that rounds can be spread, and does not compare allocators.

Needs `make build`, and the packages distributed and duckdb (pip install distributed duckdb).
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import duckdb
from distributed import Client, LocalCluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEEL = pathlib.Path(os.environ.get("KEEL_PREFIX", ROOT / "build")) / "bin/keel"
ALL = "keel,keel-no-keeper,glibc,mimalloc,mimalloc2,jemalloc,snmalloc,rpmalloc,dlmalloc,tlsf"


def keel(*arguments):
    done = subprocess.run([KEEL, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"keel {' '.join(map(str, arguments))}:\n{done.stderr[-2000:]}")


def round_of(plan, number):
    """A task: one complete round. Returns the process that ran it, and its seconds."""
    started = time.monotonic()
    keel("compare", "run", plan, "--round", str(number))
    return os.getpid(), time.monotonic() - started


def spread(plans, rounds, workers):
    """Runs all rounds on the workers; prints how many each had."""
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            tasks = [(str(plan), number) for plan in plans for number in range(rounds)]
            started = time.monotonic()
            done = client.gather(client.map(lambda task: round_of(*task), tasks))
            elapsed = time.monotonic() - started
    per_worker = sorted(collections.Counter(pid for pid, _ in done).values())
    print(f"{len(tasks)} rounds in {elapsed:.0f} s on {len(per_worker)} workers: {per_worker} each")


def queries():
    """The queries of the guide, for the tables of all plans."""
    text = (ROOT / "docs/guide/rounds.md").read_text()
    found = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    return [query.replace("'plan/tables/", "'plan-*/tables/") for query in found]


def queried(folder):
    os.chdir(folder)
    good = True
    for query in queries():
        result = duckdb.sql(query)
        print(query.strip().splitlines()[0], "...", f"{len(result)} rows")
        result.show(max_rows=8, max_width=140)
        good &= len(result) > 0
    return good


def missing(expected):
    counted = duckdb.sql(
        "SELECT count(*) FROM (SELECT DISTINCT journal, allocator, round FROM"
        " read_parquet('plan-*/tables/runs/**/*.parquet', hive_partitioning = true)"
        " WHERE allocator <> 'null')"
    )
    found = counted.fetchall()[0][0]
    print(f"{found} runs of {expected} in the tables")
    return expected - found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("-a", "--allocators", default=ALL)
    parser.add_argument("--work", type=pathlib.Path, help="keep the plans in this folder")
    parser.add_argument("journals", nargs="+", type=pathlib.Path, metavar="JOURNAL")
    arguments = parser.parse_args()
    if not KEEL.is_file():
        sys.exit(f"{KEEL} is missing: run `make build` first")
    with tempfile.TemporaryDirectory(prefix="keel-rounds-") as temporary:
        folder = (arguments.work or pathlib.Path(temporary)).absolute()
        plans = []
        for journal in arguments.journals:
            plan = folder / f"plan-{journal.name.removesuffix('.journal.parquet')}"
            keel("compare", "plan", journal.absolute(), "-a", arguments.allocators, "-r",
                 str(arguments.rounds), "-o", plan)
            plans.append(plan)
        spread(plans, arguments.rounds, arguments.workers)
        for plan in plans:
            keel("compare", "merge", plan)
        good = queried(folder)
        allocators = len(arguments.allocators.split(","))
        if missing(len(plans) * allocators * arguments.rounds) != 0 or not good:
            sys.exit("something is missing: see above")


if __name__ == "__main__":
    main()
