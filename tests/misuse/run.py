#!/usr/bin/env python3
"""Misuses the heap in every way of the table, and compares what is printed with the table.

    run.py PROGRAM FLAVOUR [--document faults.md] [MISUSE...]

PROGRAM is misuse.c, linked to the library of FLAVOUR (plain, secure or debug; zero is the secure
one with KEEL_ZERO_ON_FREE=1). A line of cases.txt is

    misuse | flavour | places | verdict

The verdict is the first line that Keel must print on stderr before it aborts the program, with
{address}, {bytes} and so on for what the program has printed; or `SIGSEGV`: the access ends the
program; or `not caught`: Keel prints nothing, whatever else happens. With --document, the table in
that file must be the one that follows from cases.txt.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).with_name("cases.txt")
SOURCE = Path(__file__).with_name("misuse.c")
NOT_CAUGHT = "not caught"
SEGMENTATION_FAULT = "SIGSEGV"
FLAVOURS = ("plain", "secure", "debug")


def read_cases():
    cases = {}
    for number, line in enumerate(CASES.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        misuse, flavour, places, verdict = (part.strip() for part in line.split("|", 3))
        for place in places.split():
            key = misuse, flavour, place
            assert key not in cases, f"cases.txt:{number}: {key} stands there twice"
            cases[key] = verdict
    return cases


def names_in_source():
    text = SOURCE.read_text()
    places = re.findall(r'^    \{"([\w-]+)", [\d* MIB]+, \w+\},$', text, re.M)
    misuses = re.findall(r'^    \{"([\w-]+)", \w+\},$', text, re.M)
    return misuses, places


def outcome(program, flavour, misuse, place, environment):
    """The verdict of one run, with the names of the numbers that the program printed."""
    run = subprocess.run([program, misuse, place], capture_output=True, text=True, timeout=120,
                         errors="replace", env={**os.environ, **environment})
    facts = dict(re.findall(r"(\w+)=([\w-]+)", run.stdout.partition("\n")[0]))
    line = next((line for line in run.stderr.splitlines() if line.startswith("keel: ")), None)
    if run.returncode == 2:
        return run.stderr.strip()
    if line is None:
        return SEGMENTATION_FAULT if run.returncode == -11 else NOT_CAUGHT
    if run.returncode != -6:
        return f"{line} (but it ended with {run.returncode})"
    if "survived" in run.stdout:
        return f"{line} (but it went on)"
    if flavour == "debug" and (missing := missing_stack(line, run.stderr, program)):
        return f"{line} (but without the stack `{missing}`)"
    return line, facts


def missing_stack(line, report, program):
    """The first call stack that a report of the debug flavour should have, and does not have with
    an address in the program."""
    wanted = ["found"]
    if "block bytes" in line:
        wanted.append("allocated")
    if "double free" in line or "a free block" in line:
        wanted.append("freed")
    for name in wanted:
        stack = re.search(rf"^  {name} by thread \d+:\n((?:    0x.*\n)+)", report, re.M)
        if stack is None or f"{program}+0x" not in stack.group(1):
            return name
    return None


def expected_line(verdict, facts):
    for name, value in facts.items():
        verdict = verdict.replace("{" + name + "}", value)
    return verdict


def table(cases):
    """The rows of faults.md: for each misuse, in which places each flavour catches it."""
    rows = ["| misuse | plain | secure | debug |", "| --- | --- | --- | --- |"]
    for misuse in dict.fromkeys(key[0] for key in cases):
        cells = []
        for flavour in FLAVOURS:
            mine = {place: verdict for (one, other, place), verdict in cases.items()
                    if (one, other) == (misuse, flavour)}
            caught = [place for place, verdict in mine.items() if verdict != NOT_CAUGHT]
            if len(caught) == len(mine):
                cells.append("caught")
            elif not caught:
                cells.append(NOT_CAUGHT)
            elif len(caught) * 2 <= len(mine):
                cells.append("caught: " + ", ".join(caught))
            else:
                cells.append("caught, but not: " +
                             ", ".join(place for place in mine if place not in caught))
        rows.append(f"| {misuse} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main():
    arguments = sys.argv[1:]
    document = None
    if "--document" in arguments:
        at = arguments.index("--document")
        document = Path(arguments[at + 1])
        del arguments[at:at + 2]
    program, flavour, *chosen = arguments
    environment = {"KEEL_ZERO_ON_FREE": "1"} if flavour == "zero" else {}
    cases = read_cases()
    passed = failed = 0
    misuses, places = names_in_source()
    for misuse in misuses:
        for place in places:
            verdict = cases.get((misuse, flavour, place))
            if verdict is None and misuse == "after-destroy" and "heap" not in place:
                continue  # only heaps can be destroyed
            if chosen and misuse not in chosen:
                continue
            found = outcome(program, flavour, misuse, place, environment)
            if isinstance(found, tuple):
                line, facts = found
                good = verdict is not None and line == expected_line(verdict, facts)
                found = line
            else:
                good = found == verdict or (verdict, found) == (NOT_CAUGHT, SEGMENTATION_FAULT)
            passed, failed = passed + good, failed + (not good)
            if not good:
                print(f"FAIL {misuse} {place}: {found}\n     expected: {verdict}")
    if document is not None:
        good = table(cases) in document.read_text()
        passed, failed = passed + good, failed + (not good)
        if not good:
            print(f"FAIL {document} does not have this table:\n{table(cases)}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
