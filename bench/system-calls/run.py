#!/usr/bin/env python3
"""Does a replay make the same system calls for memory as the program itself?

bench/system-calls/run.py [--no-archive] [-a ALLOCATORS]

Records programs of one thread, replays each journal at pace 1x, and counts the system calls of both
by kind with strace. The program itself runs with the allocator preloaded (other allocators than the
C library's and Keel through libkeel_bridge.so). Counted is, on both sides, what the program's
thread does between the loading of the libraries and the end; threads of the allocator are not
counted. ALLOCATOR:VARIABLE=VALUE sets a variable for the allocator. Prints a table, program /
replay + what the player does after the replay, and stores the counts in
bench/runs/<date>-<machine>/system-calls.csv. The exit code is 1 if a kind differs by more than 3
calls and 5 %, with and without the calls at the end.
"""

import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import PREFIX, keep, markdown
from one_thread import SQL

KEEL = PREFIX / "bin/keel"
BRIDGE = PREFIX / "lib/keel/libkeel_bridge.so"
KINDS = ["brk", "mmap", "munmap", "mremap", "madvise", "mprotect"]
# A few calls belong to the start of the allocator, which is before the replay's first call.
MOST_CALLS, MOST_SHARE = 3, 0.05
# Each is a program of one thread with the same allocations in every run.
PERL = (
    "my %h; my $s = 1;"
    "for my $i (1..200000) { $s = ($s * 1103515245 + 12345) % 2147483648;"
    " $h{$s % 30000} = 'x' x ($s % 700); delete $h{($s >> 8) % 30000};"
    " $l = 'y' x (200000 + $s % 300000) if $i % 2000 == 0 }"
)
LUA = (
    "local t = {} local s = 1 for i = 1, 300000 do s = (s * 1103515245 + 12345) % 2147483648 "
    "t[s % 20000] = string.rep('z', s % 900) .. i end"
)
PROGRAMS = {
    "perl": ["perl", "-e", PERL],
    "sqlite3": ["sqlite3", ":memory:", SQL],
    "lua": ["lua5.4", "-e", LUA],
}
# Allocators that give memory back after a delay make these calls at times that strace changes. So
# each has a row with its own settings, and one that never gives memory back.
ALLOCATORS = [
    "glibc",
    "keel",
    "keel:KEEL_KEEPER=off",
    "mimalloc",
    "mimalloc:MIMALLOC_PURGE_DELAY=-1",
    "mimalloc2",
    "mimalloc2:MIMALLOC_PURGE_DELAY=-1",
    "jemalloc",
    "jemalloc:_RJEM_MALLOC_CONF=dirty_decay_ms:-1",
    "snmalloc",
    "rpmalloc",
    "tlsf",
    "dlmalloc",
]
CALL = re.compile(r"^(\w+)\((.*)")


def environment(**more):
    return dict(os.environ, LC_ALL="C", PERL_HASH_SEED="0", PERL_PERTURB_KEYS="0", **more)


def traced(command, folder, env):
    """The lines of each process's own log."""
    folder.mkdir()
    kinds = ",".join([*KINDS, "openat", "getppid", "execve"])
    strace = ["strace", "-ff", "-qq", "-s", "4096", "-e", f"trace={kinds}"]
    strace += ["-e", "signal=none", "-o", folder / "log"]
    done = subprocess.run(
        [*strace, *command], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    return [log.read_text(errors="replace").splitlines() for log in sorted(folder.iterdir())]


def counted(lines):
    kinds = (match.group(1) for line in lines if (match := CALL.match(line)))
    return collections.Counter(kind for kind in kinds if kind in KINDS)


def of_program(command, allocator, marks, folder):
    """Between the two marks of the program. strace sets the variables in its child only."""
    preloaded, more = [marks], []
    allocator, *settings = allocator.split(":", 1)
    if allocator == "keel":
        preloaded.append(PREFIX / "lib/libkeel.so")
    elif allocator != "glibc":
        preloaded.append(BRIDGE)
        more = ["-E", f"KEEL_BRIDGE=peer:{PREFIX}/lib/keel/peers/{allocator}.so"]
        # As for a player: the thread variables of jemalloc need more room.
        more += ["-E", "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536"]
    preload = ":".join(map(str, preloaded))
    more += [word for setting in settings for word in ("-E", setting)]
    logs = traced(["-E", f"LD_PRELOAD={preload}", *more, *command], folder, environment())
    marked = [[at for at, line in enumerate(log) if line.startswith("getppid(")] for log in logs]
    [[log, [first, last]]] = [pair for pair in zip(logs, marked) if pair[1]]
    return counted(log[first:last])


def of_replay(journal, allocator, folder):
    """What the player does between the two readings of its resident memory, before and after the
    replay; and what it does from there to its end, when an allocator may give memory back."""
    command = [KEEL, "compare", journal, "--allocator", allocator, "--pace", "1x", "--runs", "1"]
    command += ["--no-usable-size", "--raw", "none", "--force", "-o", folder / "results"]
    for lines in traced(command, folder / "logs", environment()):
        starts = " ".join(line for line in lines if line.startswith("execve("))
        player = "keel-player" in starts and '"null"]' not in starts
        resets = [at for at, line in enumerate(lines) if "/proc/self/clear_refs" in line]
        if player and resets:
            after = lines[resets[-1] :]
            readings = [at for at, line in enumerate(after) if "/proc/self/status" in line]
            first, last = readings[0], readings[1]
            return counted(after[first:last]), counted(after[last:])
    sys.exit(f"no run of {allocator} in {folder}")


def agree(program, replay, end):
    """Some allocators' work at the end is within the program's marks (destructors of the thread),
    that of others is after them (destructors of the process)."""
    near = lambda replay: abs(program - replay) <= max(
        MOST_CALLS, MOST_SHARE * max(program, replay)
    )
    return near(replay) or near(replay + end)


def rows(arguments, folder):
    marks = folder / "marks.so"
    source = pathlib.Path(__file__).with_name("marks.c")
    subprocess.run(
        [os.environ.get("CC", "cc"), "-O2", "-fPIC", "-shared", "-o", marks, source], check=True
    )
    for name, command in PROGRAMS.items():
        if shutil.which(command[0]) is None:
            print(f"{command[0]} is missing: left out", file=sys.stderr)
            continue
        journal = folder / f"{name}.journal.parquet"
        subprocess.run(
            [KEEL, "record", "-o", journal, "--", *command],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        for allocator in arguments.allocators.split(","):
            place = folder / f"{name}-{allocator.replace(':', '-')}"
            place.mkdir()
            program = of_program(command, allocator, marks, place / "program")
            replay = of_replay(journal, allocator, place)
            yield name, allocator, program, replay


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-a", "--allocators", default=",".join(ALLOCATORS))
    parser.add_argument("--no-archive", action="store_true", help="print only")
    arguments = parser.parse_args()
    for needed in [KEEL, BRIDGE]:
        if not needed.is_file():
            sys.exit(f"{needed} is missing: run `make build` first")
    if shutil.which("strace") is None:
        sys.exit("strace is missing: install it (apt-get install strace)")
    table, kept, differ = [], [], 0
    with tempfile.TemporaryDirectory(prefix="keel-system-calls-") as name:
        for program, allocator, own, replay in rows(arguments, pathlib.Path(name)):
            cells = []
            for kind in KINDS:
                during, end = replay[0][kind], replay[1][kind]
                same = agree(own[kind], during, end)
                differ += not same
                more = f" + {end}" if end else ""
                cells.append(f"{own[kind]} / {during}{more}" + ("" if same else " (differ)"))
                kept.append([program, allocator, kind, own[kind], during, end, same])
            table.append([program, allocator, *cells])
            print(*table[-1], file=sys.stderr)
    print(markdown(["program", "allocator", *KINDS], table))
    if not arguments.no_archive:
        columns = ["program", "allocator", "kind", "own", "replay", "end", "agree"]
        keep("system-calls", columns, kept)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
