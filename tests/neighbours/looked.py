#!/usr/bin/env python3
"""Checks that Keel learns behind a filter of system calls how far a program fills its blocks, as it
does without one: it then has few page faults more.

    looked.py PROGRAM FILTER LIBRARY

PROGRAM is looked.c, FILTER filter.c. Containers usually have such a filter.
"""
import statistics
import subprocess
import sys

program, filtered, library = sys.argv[1:]
NONE = "999"  # no system call has this number
ALLOWED = 300  # page faults of the reading itself, of its first calls, and by chance


def faults(*before):
    run = subprocess.run([*before, "env", f"LD_PRELOAD={library}", program], check=True,
                         capture_output=True, text=True, timeout=100)
    return int(run.stdout)


def median(*before):
    return statistics.median(faults(*before) for _ in range(5))


free = median()
behind = median(filtered, "deny", "EPERM", NONE)
passed = behind <= 1.25 * free + ALLOWED
print(f"page faults: {free} without a filter, {behind} behind one")
print(f"{int(passed)} passed, {int(not passed)} failed, 0 skipped")
sys.exit(not passed)
