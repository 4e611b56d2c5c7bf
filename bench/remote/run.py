#!/usr/bin/env python3
"""What frees by other threads cost, on several allocators: time and instructions.

bench/remote/run.py [--rounds N] [--beside NAME=LIBRARY]... [--counted] [CASE...]

A case is ORDER:THREADS, for example random:4; without cases: in order and in random order, by one
and by four threads. Runs remote_frees.c N times for each case on the C library's malloc, on Keel
and on each library of --beside, interleaved in random order. With --counted it also runs each once
under callgrind, which counts the instructions of both phases, all threads, and simulates the caches
of one processor. Prints tables and archives them with every run in
bench/runs/<date>-<machine>/remote.*.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import command_line, keep_report, markdown
from preloaded import LIBKEEL, add_options, build, libraries

SOURCE = pathlib.Path(__file__).with_name("remote_frees.c")
CASES = ["in-order:1", "random:1", "in-order:4", "random:4"]
BLOCKS = 200000
FIGURES = ["free_ns", "malloc_ns", "total_ns", "worst_ns"]
COUNTED_ROUNDS = 2  # both are counted, and no call is timed in them


def environment(library):
    return os.environ if library is None else {**os.environ, "LD_PRELOAD": library}


def run_once(program, case, library):
    order, threads = case.split(":")
    run = subprocess.run(
        [program, order, threads, str(BLOCKS)],
        env=environment(library),
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(run.stdout)


def count(program, case, library):
    """Instructions and simulated misses of the first and the last level for each block."""
    order, threads = case.split(":")
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--cache-sim=yes", "--collect-atstart=no"]
        command += ["--toggle-collect=phase_free", "--toggle-collect=phase_malloc"]
        command += [f"--callgrind-out-file={folder}/out"]
        command += [program, order, threads, str(BLOCKS), "16", "256", str(COUNTED_ROUNDS)]
        env = environment(library)
        run = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    events = re.search(r"Events\s*:\s*(.*)", run.stderr).group(1).split()
    values = re.search(r"Collected\s*:\s*(.*)", run.stderr).group(1).split()
    total = dict(zip(events, map(int, values)))
    each = BLOCKS * COUNTED_ROUNDS
    return {
        "instructions": total["Ir"] / each,
        "first_level": (total["D1mr"] + total["D1mw"]) / each,
        "last_level": (total["DLmr"] + total["DLmw"]) / each,
    }


def measure(program, cases, contestants, rounds):
    runs = {case: {name: [] for name in contestants} for case in cases}
    for case in cases:
        for _ in range(rounds):
            for name in random.sample(list(contestants), len(contestants)):
                runs[case][name].append(run_once(program, case, contestants[name]))
        print(f"measured {case}", file=sys.stderr)
    return runs


def report(runs, counts, rounds):
    load = "%.1f %.1f %.1f" % os.getloadavg()
    text = "# Frees by other threads\n\n"
    text += f"`{command_line()}`, kernel {os.uname().release}, load after: {load}.\n\n"
    text += f"{BLOCKS} blocks of 16 to 256 bytes. Least of {rounds} interleaved runs, ns for each "
    text += "block: frees by all threads, as many mallocs by the first one, both, and the slowest "
    text += "malloc of a round (ns).\n"
    for case, by_name in runs.items():
        least = {n: [min(run[f] for run in r) for f in FIGURES] for n, r in by_name.items()}
        rows = [[n, *least[n]] for n in sorted(least, key=lambda name: least[name][2])]
        text += f"\n{case}\n\n" + markdown(["allocator", *FIGURES], rows)
        if case in counts:
            rows = [[n, *(f"{v:.2f}" for v in c.values())] for n, c in counts[case].items()]
            head = ["allocator", "instructions", "first-level misses", "last-level misses"]
            text += "\nCounted, for each block:\n\n" + markdown(head, rows)
    return text


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, rounds=5)
    parser.add_argument("--counted", action="store_true", help="also run under callgrind")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all four")
    arguments = parser.parse_args()
    # Without a library: the C library's malloc.
    contestants = {"keel": str(LIBKEEL), "glibc": None, **libraries(arguments.beside)}
    cases = arguments.cases or CASES
    with tempfile.TemporaryDirectory() as folder:
        program = build(SOURCE, folder)
        runs = measure(program, cases, contestants, arguments.rounds)
        counts = {}
        if arguments.counted:
            counts = {
                case: {name: count(program, case, lib) for name, lib in contestants.items()}
                for case in cases
            }
    text = report(runs, counts, arguments.rounds)
    print(text)
    if not arguments.no_archive:
        keep_report("remote", text, {"command": command_line(), "runs": runs, "counts": counts})


if __name__ == "__main__":
    main()
