#!/usr/bin/env python3
"""Measures which share of a program's instructions is executed inside malloc and its family.

    bench/share/run.py NAME=COMMAND ...                 one line for each command
    bench/share/run.py --originals FOLDER [ONLY ...]    the synthetic workloads beside the programs
                                                        whose shape they have

valgrind's callgrind counts the instructions of all threads in user mode, of the whole process. The
share is that of the calls of malloc, free, calloc, realloc and the aligned forms (with all that
they call), from outside of these functions. Both sides use the C library's malloc. FOLDER holds
built programs under the names in the table below. The counts hardly vary, whatever the load of the
machine; time in the kernel and cache misses are not in them.

--json FILE also writes the counts. --jobs N runs N commands at the same time.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALLOCATOR = {
    "malloc", "free", "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc",
    "posix_memalign", "cfree",
}
# Our workload, its scale under callgrind, the original program with its arguments.
PAIRS = [
    ("larson", 0.1, "larson 1 8 1000 5000 100 4141 2"),
    ("larson-sized", 0.1, "larson-sized 1 8 1000 5000 100 4141 2"),
    ("mstress", 0.1, "mstress 2 50 4"),
    ("rptest", 0.1, "rptest 2 0 1 2 500 1000 100 8 16000"),
    ("xmalloc", 0.1, "xmalloc-test -w 2 -t 1 -s 64"),
    ("alloc-test", 0.2, "alloc-test 1"),
    ("alloc-test-threads", 0.2, "alloc-test 2"),
    ("sh6", 0.05, "sh6bench 2"),
    ("sh8", 0.05, "sh8bench 2"),
    ("simple", 0.05, "glibc-simple"),
    ("simple-threads", 0.05, "glibc-thread 2"),
    ("malloc-large", 0.05, "malloc-large"),
    ("mleak", 0.1, "mleak 1"),
    ("cache-scratch", 0.05, "cache-scratch 2 100 1 2000000 2"),
    ("cache-thrash", 0.05, "cache-thrash 2 100 1 2000000 2"),
    ("bignum", 0.05, "cfrac 175451865205073170563711388363274837927895"),
    ("boolean", 0.05, "espresso largest.espresso"),
    ("barnes-hut", 0.2, "barnes"),
]


def is_allocator(function):
    """The names that a C library gives to these functions."""
    name = function.split("@")[0].split("'")[0]
    return re.sub(r"^(__libc_|__GI_|__)", "", name) in ALLOCATOR


def counts_of(text):
    """(all instructions, those inside the allocator's functions) of callgrind's output."""
    total = inside = 0
    caller = callee = ""
    expect_cost = False
    for line in text.splitlines():
        if line.startswith("fn="):
            caller = line[3:]
        elif line.startswith("cfn="):
            callee = line[4:]
        elif line.startswith("calls="):
            expect_cost = True
        elif line.startswith("totals:"):
            total = int(line.split()[1])
        elif expect_cost:
            expect_cost = False
            if is_allocator(callee) and not is_allocator(caller):
                inside += int(line.split()[1])
    return total, inside


def measure(command, folder):
    """Runs a command under callgrind."""
    with tempfile.TemporaryDirectory() as place:
        result = Path(place) / "result"
        words = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={result}",
                 "--compress-strings=no", "--fair-sched=yes", *command]
        done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace")
        if not result.exists():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise SystemExit(f"share: {shlex.join(command)} failed: {last}")
        return counts_of(result.read_text())


def share(counts):
    total, inside = counts
    return 100 * inside / total if total else 0.0


def pairs(options):
    """(label, command, folder) of the originals that exist and of our workloads."""
    jobs = []
    program = str(ROOT / "build/lib/keel/keel-synthetic")
    for name, scale, original in PAIRS:
        path, *words = shlex.split(original)
        file = Path(options.originals).resolve() / path
        if options.words and name not in options.words:
            continue
        if not file.exists():
            print(f"share: {file} is missing: {name} is left out", file=sys.stderr)
            continue
        if not options.ours:
            jobs.append((name, "original", [str(file), *words], file.parent))
        ours = [program, name, "--scale", str(scale), "--threads", "2"]
        jobs.append((name, "ours", ours, None))
    return jobs


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="NAME=COMMAND")
    parser.add_argument("--originals", metavar="FOLDER")
    parser.add_argument("--ours", action="store_true", help="leave out the originals")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    options = parser.parse_args()
    if options.originals:
        jobs = pairs(options)
    else:
        jobs = []
        for word in options.words:
            name, _, command = word.partition("=")
            if not command:
                parser.error(f"{word}: NAME=COMMAND is expected")
            jobs.append((name, "command", shlex.split(command), None))
    if not jobs:
        parser.error("nothing to measure: give NAME=COMMAND or --originals FOLDER")
    found = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(measure, job[2], job[3]): job for job in jobs}
        for future in concurrent.futures.as_completed(futures):
            name, kind, command, _ = futures[future]
            found.setdefault(name, {})[kind] = future.result()
            print(f"share: {name}, {kind}: {share(future.result()):.1f} %", file=sys.stderr)
    show(found, [name for name, *_ in PAIRS] if options.originals else list(found))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


def show(found, names):
    """The table as Markdown."""
    kinds = [kind for kind in ("original", "ours", "command")
             if any(kind in one for one in found.values())]
    print("| program | " + " | ".join(f"{kind}, %" for kind in kinds) + " |")
    print("|---|" + "---:|" * len(kinds))
    for name in names:
        if name in found:
            cells = [f"{share(found[name][kind]):.1f}" if kind in found[name] else "–"
                     for kind in kinds]
            print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
