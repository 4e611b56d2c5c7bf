#!/usr/bin/env python3
"""What an allocator adds to a process that starts, allocates once and ends.

bench/start/run.py [--rounds N] [--starts N] [--beside NAME=LIBRARY]...

Starts the program of start.c many times on the C library's malloc, on Keel and on each library of
--beside, preloaded, interleaved in random order. Prints the median time of the process, the
difference from the C library's malloc, and the median time of the first malloc, and archives all
times in bench/runs/<date>-<machine>/start.*.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import command_line, keep_report, markdown
from preloaded import LIBKEEL, add_options, build, libraries

SOURCE = pathlib.Path(__file__).with_name("start.c")


def measure(program, contestants, rounds, starts):
    """By name: the times of all processes, and of their first malloc, by round."""
    times = {name: [] for name in contestants}
    for done in range(rounds):
        print(f"\rround {done + 1} of {rounds}", end="", file=sys.stderr)
        for name in random.sample(list(contestants), len(contestants)):
            command = [program, "launch", str(starts), *contestants[name]]
            run = subprocess.run(command, check=True, capture_output=True, text=True)
            times[name].append(json.loads(run.stdout))
    print(file=sys.stderr)
    return times


def us(rounds, key):
    """The median over the rounds' medians, their least and their most, in microseconds."""
    medians = [statistics.median(of_round[key]) / 1000 for of_round in rounds]
    return statistics.median(medians), min(medians), max(medians)


def rows(times):
    base = us(times["glibc"], "process_ns")[0]
    for name, rounds in times.items():
        middle, least, most = us(rounds, "process_ns")
        first, first_least, first_most = us(rounds, "malloc_ns")
        yield [
            name,
            f"{middle:.0f} ({least:.0f}-{most:.0f})",
            f"{middle - base:+.0f}",
            f"{first:.1f} ({first_least:.1f}-{first_most:.1f})",
        ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, rounds=9)
    parser.add_argument("--starts", type=int, default=200, help="processes a round (default 200)")
    arguments = parser.parse_args()
    contestants = {"glibc": [], "keel": [str(LIBKEEL)]}
    contestants |= {name: [library] for name, library in libraries(arguments.beside).items()}
    with tempfile.TemporaryDirectory() as folder:
        program = build(SOURCE, folder)
        times = measure(program, contestants, arguments.rounds, arguments.starts)
    load = "%.1f %.1f %.1f" % os.getloadavg()
    text = "# A process that starts, allocates once and ends\n\n"
    text += f"`{command_line()}`, kernel {os.uname().release}, load after: {load}.\n\n"
    text += f"{arguments.rounds} interleaved rounds of {arguments.starts} processes. Microseconds: "
    text += "the median of the rounds' medians (lowest-highest).\n\n"
    head = ["allocator", "process", "more than glibc", "first malloc"]
    text += markdown(head, rows(times))
    print(text)
    if not arguments.no_archive:
        medians = {n: [us([r], "process_ns")[0] for r in rounds] for n, rounds in times.items()}
        keep_report("start", text, {"command": command_line(), "process_us_by_round": medians})


if __name__ == "__main__":
    main()
