#!/usr/bin/env python3
"""Frees a block of each allocating function by each freeing function (mismatched.cpp).

    mismatched.py PROGRAM

The debug flavour must report each pair that does not belong together, and no other one; with
mismatch=2 it ends the process.
"""
import os
import re
import subprocess
import sys

PROGRAM = sys.argv[1]
TEXT = {"new": "operator new", "new[]": "operator new[]", "malloc": "malloc",
        "new-aligned": "operator new(std::align_val_t)",
        "new[]-aligned": "operator new[](std::align_val_t)"}


# Sizes are another matter: a text of 5 bytes is freed with another size by the sized forms.
def run(*arguments, debug=""):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "KEEL_DEBUG": debug, "KEEL_SIZED_FREE": "off"})


def freed_by(kind):
    text = TEXT[kind].replace("new", "delete")
    return "free or realloc" if text == "malloc" else text


def check(allocation, kind, free, wanted):
    """An error, or None."""
    done = run(allocation, free)
    if kind == wanted:
        return None if (done.returncode, done.stderr) == (0, "") else done.stderr
    line = (r"keel: free by a function for blocks of another kind: 0x\w+; block bytes \d+; "
            rf"allocated by {re.escape(TEXT[kind])}; freed by {re.escape(freed_by(wanted))}\n"
            r"  allocated by thread \d+:\n(    0x.*\n)+  found by thread")
    if done.returncode != 0 or not re.match(line, done.stderr):
        return f"status {done.returncode}: {done.stderr}"
    ended = run(allocation, free, debug="mismatch=2")
    if ended.returncode != -6 or not re.match(line, ended.stderr):
        return f"mismatch=2, status {ended.returncode}: {ended.stderr}"
    allowed = run(allocation, free, debug="mismatch=0")
    return allowed.stderr if "another kind" in allowed.stderr else None


def main():
    lists = {"allocation": [], "free": []}
    for line in run().stdout.splitlines():
        what, name, kind = line.split()
        lists[what].append((name, kind))
    failed = passed = 0
    for allocation, kind in lists["allocation"]:
        for free, wanted in lists["free"]:
            error = check(allocation, kind, free, wanted)
            failed += error is not None
            passed += error is None
            if error is not None:
                print(f"FAIL {allocation}, {free}: {error}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0 or passed < 200


if __name__ == "__main__":
    sys.exit(main())
