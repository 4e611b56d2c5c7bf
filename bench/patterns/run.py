#!/usr/bin/env python3
"""Patterns of use on several allocators: time, faults, peak memory, as multiples of the best.

bench/patterns/run.py [--rounds N] [--back MIB] [--random N] [--beside NAME=LIBRARY]... [PATTERN...]

Runs each pattern of patterns.c N times on the C library's malloc, on Keel, on Keel without its
keeper, and on each library of --beside, interleaved in random order, one process per run. Prints a
table of medians and archives it with every run in bench/runs/<date>-<machine>/patterns.*.

An allocator's multiple of a pattern is its CPU time (all threads of the process) divided by the
least of the *other* makers' allocators; Keel's two rows are not compared with each other.

Ctrl-C (or SIGTERM) prints what is finished, and archives nothing.

With --random N, the patterns are N programs that a seed chooses (random.h): how an allocator does
where nobody has tuned it.

In a virtual machine, the first access to memory that the host has not yet provided can take 40
times as long as later ones (2 MiB: 4 ms instead of 0.1), and the host may take free memory back
within seconds. --back MIB touches that much memory before each run, so that the run finds memory
which the host provides. 1024 is enough for all patterns.
"""

import argparse
import json
import math
import mmap
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import command_line, keep_report, markdown
from preloaded import LIBKEEL, add_options, build, each_until_interrupted, libraries

SOURCE = pathlib.Path(__file__).with_name("patterns.c")
LIMIT_SECONDS = 120
MADV_HUGEPAGE, MADV_POPULATE_WRITE = 14, 23  # Python's mmap does not name the second


def allocators(beside):
    """Environment of each allocator by name."""
    found = {
        "keel": {"LD_PRELOAD": str(LIBKEEL)},
        "keel without keeper": {"LD_PRELOAD": str(LIBKEEL), "KEEL_KEEPER": "off"},
        "glibc": {},
    }
    return found | {name: {"LD_PRELOAD": library} for name, library in libraries(beside).items()}


def back_memory(mib):
    """Touches so much memory and gives it back to the kernel."""
    if mib == 0:
        return
    with mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(MADV_HUGEPAGE)
        memory.madvise(MADV_POPULATE_WRITE)


def run_once(program, pattern, environment):
    """The figures of one run, or None if the program failed or took too long."""
    try:
        run = subprocess.run(
            [program, pattern],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None
    return json.loads(run.stdout) if run.returncode == 0 else None


def measure(program, patterns, contestants, rounds, back_mib):
    """Runs by pattern and allocator."""
    runs = {pattern: {name: [] for name in contestants} for pattern in patterns}

    def measure_one(pattern):
        number = patterns.index(pattern) + 1
        print(f"\r{number} of {len(patterns)}: {pattern:24}", end="", file=sys.stderr)
        for _ in range(rounds):
            for name in random.sample(list(contestants), len(contestants)):
                back_memory(back_mib)
                figures = run_once(program, pattern, contestants[name])
                runs[pattern][name].append(figures)

    finished = each_until_interrupted(patterns, measure_one)
    print(file=sys.stderr)
    return {pattern: runs[pattern] for pattern in finished}


def median(figures, key):
    """Infinite if a run failed."""
    if any(run is None for run in figures):
        return math.inf
    return statistics.median(run[key] for run in figures)


def is_rival(name, other):
    return other != name and not (name.startswith("keel") and other.startswith("keel"))


def multiples(runs, name, key, least=1, without=None):
    """By pattern: this allocator's figure divided by that of the best rival but `without`."""
    result = {}
    for pattern, by_name in runs.items():
        rivals = [
            median(figures, key)
            for other, figures in by_name.items()
            if is_rival(name, other) and other != without
        ]
        own = median(by_name[name], key)
        if rivals:
            result[pattern] = max(own, least) / max(min(rivals), least)
    return result


def mean(multiples_by_pattern):
    finite = [value for value in multiples_by_pattern.values() if math.isfinite(value)]
    return f"{math.exp(statistics.fmean(map(math.log, finite))):.2f}" if finite else "-"


def summary_rows(runs, contestants):
    for name in contestants:
        time = multiples(runs, name, "cpu_ns")
        worst = max(time, key=time.get)
        yield [
            name,
            mean(time),
            f"{sum(value > 1.25 for value in time.values())} of {len(time)}",
            sum(value > 2 for value in time.values()),
            f"{time[worst]:.1f} ({worst})",
            mean(multiples(runs, name, "peak_kib", least=1024)),
            mean(multiples(runs, name, "peak_kib", least=1024, without="glibc")),
        ]


def cell(figures):
    if any(run is None for run in figures):
        return "failed"
    times = [run["cpu_ns"] / 1e6 for run in figures]
    spread = f" ({min(times):.0f}-{max(times):.0f})" if len(times) > 1 else ""
    peak = median(figures, "peak_kib") / 1024
    faults = median(figures, "faults") / 1000
    return f"{statistics.median(times):.1f}{spread}, {peak:.0f}, {faults:.1f}"


def report(runs, contestants, rounds):
    head = ["allocator", "time, geometric mean", "above 1.25", "above 2", "worst", "peak memory"]
    head.append("over the leanest but glibc")
    load = "%.1f %.1f %.1f" % os.getloadavg()
    text = "# Patterns of use\n\n"
    text += f"`{command_line()}`, kernel {os.uname().release}, load after: {load}.\n\n"
    text += f"{rounds} interleaved rounds, default settings. Multiples of the best other allocator."
    text += "\n\n"
    text += markdown(head, summary_rows(runs, contestants))
    text += "\nCPU time in ms (lowest-highest), peak memory in MiB, thousands of page faults:\n\n"
    rows = [[p, *(cell(by_name[n]) for n in contestants)] for p, by_name in runs.items()]
    return text + markdown(["pattern", *contestants], rows)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, rounds=3)
    parser.add_argument("--back", type=int, default=0, metavar="MIB", help="see above")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="see above")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="default: all")
    arguments = parser.parse_args()
    contestants = allocators(arguments.beside)
    with tempfile.TemporaryDirectory() as folder:
        program = build(SOURCE, folder)
        listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True)
        known = [line.split("\t")[0] for line in listed.stdout.splitlines()]
        unknown = set(arguments.patterns) - set(known)
        if unknown:
            sys.exit(f"no such pattern: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
        made_up = [f"random-{number + 1}" for number in range(arguments.random)]
        chosen = arguments.patterns or made_up or known
        runs = measure(program, chosen, contestants, arguments.rounds, arguments.back)
    text = report(runs, contestants, arguments.rounds) if runs else ""
    print(text)
    if len(runs) < len(chosen):
        sys.exit(130)
    if not arguments.no_archive:
        name = "random-programs" if arguments.random > 0 else "patterns"
        keep_report(name, text, {"command": command_line(), "runs": runs})


if __name__ == "__main__":
    main()
