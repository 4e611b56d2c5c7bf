#!/usr/bin/env python3
"""Runs checked.c under valgrind's memcheck, or compiled for AddressSanitizer.

    run.py VALGRIND|asan PROGRAM debug|other

The debug flavour makes blocks known, so each error must be reported. With every flavour, a correct
program must run without a report.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from functions import run_tests

CHECKER, PROGRAM, FLAVOUR = sys.argv[1:]
ASAN = CHECKER == "asan"
# valgrind must not replace malloc.
COMMAND = [] if ASAN else [CHECKER, "--soname-synonyms=somalloc=nouserintercepts"]
REPORT = ("ERROR: AddressSanitizer: use-after-poison" if ASAN
          else "== Invalid (read|write) of size 1")


def run(mode, *options):
    return subprocess.run([*COMMAND, *options, PROGRAM, mode], capture_output=True, text=True,
                          timeout=600)


def an_error_is_reported(mode, place, functions):
    err = run(mode).stderr
    assert re.search(REPORT, err), (mode, err)
    if not ASAN:
        assert re.search(place, err), (mode, place, err)
        names = iter(re.findall(r"(?:by|at) 0x\w+: (\w+) \(", err))
        assert all(name in names for name in functions), (mode, functions, err)


def errors_are_reported():
    for mode, place, functions in (
            ("read-behind", "is 0 bytes after a block of size 100 alloc'd",
             ["read_behind", "allocates_here", "read_behind"]),
            ("write-before", "is 1 bytes before a block of size 100 alloc'd",
             ["write_before", "allocates_here"]),
            ("read-freed", "is 50 bytes inside a block of size 100 free'd",
             ["read_freed", "frees_here", "read_freed", "allocates_here", "read_freed"]),
            ("read-freed-large", "bytes inside a block of size 3,000,000 free'd", ["frees_here"]),
            ("read-behind-shrunk", "is 0 bytes after a block of size 60 alloc'd", []),
            ("read-behind-grown", "is 0 bytes after a block of size 111,000 alloc'd", []),
            ("read-in-destroyed-heap", "is 0 bytes after a block of size 100 alloc'd", [])):
        an_error_is_reported(mode, place, functions)


def uninitialised_bytes_are_known():
    for mode in "use-uninitialised", "use-uninitialised-grown":
        err = run(mode).stderr
        assert "Conditional jump or move depends on uninitialised value" in err, (mode, err)


def leaks_are_known():
    err = run("leak", "--leak-check=full").stderr
    lost = re.search(r"4,321 bytes in 1 blocks are definitely lost.*\n(?:.*\n)*.*: (\w+) \(", err)
    assert lost and "allocates_here" in err, err


def a_correct_program_has_no_report():
    done = run("correct")
    assert (done.returncode, done.stdout) == (0, "wrong 0\n"), done
    assert ASAN or "ERROR SUMMARY: 0 errors" in done.stderr, done.stderr


def main():
    tests = [a_correct_program_has_no_report]
    if FLAVOUR == "debug":
        tests.append(errors_are_reported)
        if not ASAN:
            tests += [uninitialised_bytes_are_known, leaks_are_known]
    return run_tests(tests)


if __name__ == "__main__":
    sys.exit(main())
