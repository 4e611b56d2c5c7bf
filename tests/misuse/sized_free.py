#!/usr/bin/env python3
"""Frees a block with a wrong size, and checks what each value of KEEL_SIZED_FREE does.

    sized_free.py PROGRAM FLAVOUR     PROGRAM is misuse.c with the library of FLAVOUR
"""
import os
import subprocess
import sys

PROGRAM, FLAVOUR = sys.argv[1:]
MESSAGE = "keel: free with a size that is not the block's: 0x"


def outcome(misuse, place, **environment):
    """How often the message was printed, and whether the program went on."""
    run = subprocess.run([PROGRAM, misuse, place], capture_output=True, text=True, timeout=120,
                         env={**os.environ, **environment})
    lines = [line for line in run.stderr.splitlines() if line.startswith("keel: ")]
    assert all(line.startswith(MESSAGE) for line in lines), run.stderr
    survived = "survived" in run.stdout and run.returncode == 0
    assert survived or run.returncode == -6, f"it ended with {run.returncode}: {run.stderr}"
    assert not lines or FLAVOUR != "debug" or "  allocated by thread " in run.stderr, run.stderr
    return len(lines), survived


def main():
    verifies = FLAVOUR != "plain"
    ends, reports, ignores = (1, False), (1, True), (0, True)
    failed = passed = 0
    for misuse in ("size-too-large", "size-too-small"):
        for place in ("small", "medium", "large", "heap", "thread"):
            for environment, expected in (
                    ({}, ends), ({"KEEL_SIZED_FREE": "abort"}, ends),
                    ({"KEEL_SIZED_FREE": "report"}, reports), ({"KEEL_SIZED_FREE": "off"}, ignores),
                    ({"KEEL_SIZED_FREE": "report", "KEEL_MAX_ERRORS": "0"}, ignores)):
                expected = expected if verifies else ignores
                found = outcome(misuse, place, **environment)
                passed, failed = passed + (found == expected), failed + (found != expected)
                if found != expected:
                    print(f"FAIL {misuse} {place} {environment}: {found}, not {expected}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
