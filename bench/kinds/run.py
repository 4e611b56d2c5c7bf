#!/usr/bin/env python3
"""Programs after kinds of real ones, on several allocators: time, faults, peak, memory at rest.

bench/kinds/run.py [--rounds N] [--rest SECONDS,...] [--beside NAME=LIBRARY]... [KIND...]

Runs each kind of kinds.c N times on the C library's malloc, on Keel, on Keel without its keeper,
and on each library of --beside, interleaved in random order, one process per run. Prints medians,
and the geometric means of their multiples of the best other maker's. Archives both with every run
in bench/runs/<date>-<machine>/kinds.*, unless --no-archive. Ctrl-C (or SIGTERM) prints what is
finished, and archives nothing.

The results of these programs were seen while the allocator's policy for memory was made
(docs/decisions/0012-warm-memory.md): they do not show how it does with unseen programs.
"""

import argparse
import json
import math
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

SOURCE = pathlib.Path(__file__).with_name("kinds.c")
LIMIT_SECONDS = 120


def allocators(beside):
    """Environment of each allocator by name."""
    found = {
        "keel": {"LD_PRELOAD": str(LIBKEEL)},
        "keel without keeper": {"LD_PRELOAD": str(LIBKEEL), "KEEL_KEEPER": "off"},
        "glibc": {},
    }
    return found | {name: {"LD_PRELOAD": library} for name, library in libraries(beside).items()}


def run_once(program, kind, rest, environment):
    """The figures of one run, or None if the program failed or took too long."""
    try:
        run = subprocess.run(
            [program, kind, *rest],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None
    return json.loads(run.stdout) if run.returncode == 0 else None


def measure(program, kinds, contestants, options):
    """Runs by kind and allocator."""
    runs = {kind: {name: [] for name in contestants} for kind in kinds}

    def measure_one(kind):
        print(f"{kind:16}", end="\r", file=sys.stderr)
        for _ in range(options.rounds):
            for name in random.sample(list(contestants), len(contestants)):
                figures = run_once(program, kind, options.rest, contestants[name])
                runs[kind][name].append(figures)

    return {kind: runs[kind] for kind in each_until_interrupted(kinds, measure_one)}


def median(figures, key):
    """Infinite if a run failed."""
    if any(run is None for run in figures):
        return math.inf
    return statistics.median(key(run) for run in figures)


def is_rival(name, other):
    return other != name and not (name.startswith("keel") and other.startswith("keel"))


def mean_multiple(runs, name, key, least):
    """Geometric mean over the kinds of this allocator's figure divided by the best rival's."""
    logs = []
    for by_name in runs.values():
        best = min(median(f, key) for other, f in by_name.items() if is_rival(name, other))
        logs.append(math.log(max(median(by_name[name], key), least) / max(best, least)))
    return math.exp(statistics.fmean(logs))


def cell(figures):
    if any(run is None for run in figures):
        return "failed"
    rest = "".join(
        f", {median(figures, lambda run, i=i: run['rest_kib'][i]) / 1024:.1f}"
        for i in range(len(figures[0]["rest_kib"]))
    )
    return (
        f"{median(figures, lambda run: run['cpu_ns']) / 1e6:.0f}, "
        f"{median(figures, lambda run: run['peak_kib']) / 1024:.1f}{rest}, "
        f"{median(figures, lambda run: run['faults']):.0f}"
    )


def report(runs, contestants, options):
    text = f"# Kinds of programs\n\n`{command_line()}`, kernel {os.uname().release}, "
    text += "load after: %.1f %.1f %.1f.\n\n" % os.getloadavg()
    text += f"{options.rounds} interleaved rounds. Multiples of the best other maker's allocator."
    text += "\n\n"
    means = [
        [
            name,
            f"{mean_multiple(runs, name, lambda run: run['cpu_ns'], 1):.2f}",
            f"{mean_multiple(runs, name, lambda run: run['peak_kib'], 1024):.2f}",
        ]
        for name in contestants
    ]
    text += markdown(["allocator", "CPU, geometric mean", "peak, geometric mean"], means)
    rest = "".join(f", at rest after {seconds} s" for seconds in options.rest)
    text += f"\nCPU time in ms, peak{rest} in MiB, page faults:\n\n"
    rows = [[kind, *(cell(by_name[n]) for n in contestants)] for kind, by_name in runs.items()]
    return text + markdown(["kind", *contestants], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_options(parser, rounds=3)
    parser.add_argument("--rest", default="1,10", help="seconds (default 1,10); empty: none")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="which to run (default: all)")
    options = parser.parse_args()
    options.rest = [seconds for seconds in options.rest.split(",") if seconds]
    contestants = allocators(options.beside)
    with tempfile.TemporaryDirectory() as folder:
        program = build(SOURCE, folder)
        listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
        names = [line.split("\t")[0] for line in listed.stdout.splitlines()]
        unknown = [kind for kind in options.kinds if kind not in names]
        if unknown:
            sys.exit(f"no such kind: {', '.join(unknown)}; there are {', '.join(names)}")
        chosen = options.kinds or names
        runs = measure(program, chosen, contestants, options)
    text = report(runs, contestants, options) if runs else ""
    print(text)
    if len(runs) < len(chosen):
        sys.exit(130)
    if not options.no_archive:
        keep_report("kinds", text, runs)


if __name__ == "__main__":
    main()
