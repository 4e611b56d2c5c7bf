#!/usr/bin/env python3
"""Runs Keel's own collection of attacks (attack.c), and compares the verdicts with a table.

    own.py PROGRAM FLAVOUR[=LIBRARY]... [--write]

FLAVOUR=LIBRARY preloads the library; FLAVOUR alone runs PROGRAM as it is. Each attack runs three
times. The verdicts are those of run.py: caught, sometimes, stopped, not caught. A line of own.txt
is `attack size | FLAVOUR verdict | ..`. With --write, own.txt is made.
"""
import os
import subprocess
import sys
from pathlib import Path

TABLE = Path(__file__).with_name("own.txt")
RUNS = 3
STOPPED = 3  # of attack.c


def outcome(program, attack, size, environment):
    done = subprocess.run([program, attack, size], env={**os.environ, **environment}, timeout=60,
                          stdin=subprocess.DEVNULL, capture_output=True, errors="replace")
    if done.returncode == -6 and "keel: " not in done.stderr and "keel" in str(environment):
        return "aborted without a message"
    if done.returncode < 0:
        return "caught"
    return {0: "not caught", STOPPED: "stopped"}.get(done.returncode, done.stderr.strip())


def verdict(program, attack, size, environment):
    seen = {outcome(program, attack, size, environment) for _ in range(RUNS)}
    if len(seen) == 1:
        return seen.pop()
    return "sometimes" if seen <= {"caught", "not caught", "stopped"} else ", ".join(sorted(seen))


def read_table():
    table = {}
    for line in TABLE.read_text().splitlines():
        attack, *cells = line.split(" | ")
        table[attack] = dict(cell.split(" ", 1) for cell in cells)
    return table


def main():
    arguments = [each for each in sys.argv[1:] if each != "--write"]
    program, *flavours = arguments
    listing = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    attacks = [(line.split()[0], size) for line in listing.splitlines()
               for size in line.split()[1:]]
    found = {f"{attack} {size}": {} for attack, size in attacks}
    for flavour in flavours:
        name, _, library = flavour.partition("=")
        environment = {"LD_PRELOAD": str(Path(library).resolve())} if library else {}
        for attack, size in attacks:
            found[f"{attack} {size}"][name] = verdict(program, attack, size, environment)
        mine = [row[name] for row in found.values()]
        print(f"{name}: " + ", ".join(f"{mine.count(each)} {each}" for each in sorted(set(mine))))
    if "--write" in sys.argv:
        TABLE.write_text("".join(
            " | ".join([attack, *(f"{name} {each}" for name, each in row.items())]) + "\n"
            for attack, row in found.items()))
        return 0
    table = read_table()
    wrong = [(attack, name, each, table.get(attack, {}).get(name)) for attack, row in found.items()
             for name, each in row.items()
             if table.get(attack, {}).get(name) not in (each, "sometimes")]
    for attack, name, each, expected in wrong:
        print(f"FAIL {attack} ({name}): {each}, not {expected}")
    print(f"{len(found) * len(flavours) - len(wrong)} passed, {len(wrong)} failed, 0 skipped")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
