#!/usr/bin/env python3
"""Runs a program on Keel behind filters that permit only the calls of
docs/reference/system-calls.md, and end the process at any other.

    listed.py PROGRAM LIBRARY [none]

PROGRAM is listed.c, compiled. With `none` the program runs without the library, to show that its
own calls are enough.
"""
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "system-calls.md"
# What the C library makes for the program: its start, threads, fork, sleep, output and end.
OWN = """execve brk access openat read close fstat newfstatat stat pread64 arch_prctl
    set_tid_address set_robust_list rseq prlimit64 getrandom statx readlink clone clone3
    rt_sigprocmask rt_sigaction wait4 clock_nanosleep nanosleep restart_syscall write
    exit exit_group mmap munmap mprotect madvise futex""".split()
# What the loader of a program has made before Keel runs, and a program needs no longer.
START = """execve access openat read close fstat newfstatat stat pread64 arch_prctl prlimit64
    brk""".split()


def rows():
    """The calls of each row of the page's first table."""
    found = {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("| ") and line.count("|") == 3:
            when, calls = (cell.strip() for cell in line.strip("|").split("|"))
            found[when] = re.findall(r"`([a-z0-9_]+)`", calls)
    return found


def numbers(names):
    text = subprocess.run([os.environ.get("CC", "cc"), "-E", "-dM", "-include", "sys/syscall.h",
                           "-x", "c", "/dev/null"], capture_output=True, text=True,
                          check=True).stdout
    known = dict(re.findall(r"^#define __NR_(\w+) (\d+)$", text, re.M))
    return ",".join(sorted({known[name] for name in names if name in known}, key=int))


def main():
    program, library = sys.argv[1], Path(sys.argv[2]).resolve()
    page = rows()
    of_malloc = page["malloc and free"] + page["once for each process"]
    unseen = page["behind a filter that Keel cannot see"]
    failed = 0
    for mode in ("exec", "first", "prctl", "syscall", "raw"):
        own = OWN if mode == "exec" else [name for name in OWN if name not in START]
        if sys.argv[3:] == ["none"]:
            own = own + ["brk", "mremap", "prlimit64", "openat", "read", "close"]
        keel = of_malloc + (unseen if mode == "raw" else [])
        environment = {**os.environ, "KEEL_KEEPER": "on", "KEEL_PURGE_DELAY_MS": "20"}
        if sys.argv[3:] != ["none"]:
            environment["LD_PRELOAD"] = str(library)
        done = subprocess.run([program, mode, numbers(keel), numbers(own)], env=environment,
                              capture_output=True, text=True, timeout=600)
        wanted = "allocated\n" * (1 if mode in ("exec", "first") else 2)
        if done.returncode == 0 and done.stdout == wanted:
            print(f"ok   {mode}")
            continue
        failed += 1
        how = (signal.Signals(-done.returncode).name if done.returncode < 0
               else f"status {done.returncode}")
        print(f"FAIL {mode}: {how}: {(done.stdout + done.stderr).strip()}")
    print(f"{5 - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
