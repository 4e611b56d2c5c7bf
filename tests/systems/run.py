#!/usr/bin/env python3
"""Runs contract suites and programs on Keel in systems of Debian, and prints a table.

    run.py LIBRARIES OUTPUT [--table FILE] [--quick] [SYSTEM ...]

LIBRARIES is the folder of libkeel.so, libkeel-secure.so and libkeel-debug.so; OUTPUT is an empty or
new folder for the logs. --quick: fewer suites and programs in virtual machines, as in `group`, for
emulation. Without names of systems, all of them:

    bullseye bookworm trixie testing    a root of that suite on this machine's kernel
    linux-SUITE                         a virtual machine with the kernel and the root of that suite
    huge-never huge-always overcommit group
                                        one with trixie's and a setting: transparent huge pages,
                                        vm.overcommit_memory=2, a control group of 64 MiB

The roots and kernels are made from Debian's packages and kept in the user's cache folder. Needs
root, mmdebstrap, 4 GB of disk and 4 GB of memory, for the machines qemu-system-x86 and
busybox-static, and about two hours if KVM does not work, of which the roots take ten minutes. The
exit status is 1 if a test failed.
"""
import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import machine
import roots

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
FLAVOURS = {"plain": "libkeel.so", "secure": "libkeel-secure.so", "debug": "libkeel-debug.so"}
SUITES = "sizes contents aligned loading threads fork large footprint misuse".split()
SETTINGS = {"huge-never": ["keel.huge=never"], "huge-always": ["keel.huge=always"],
            "overcommit": ["keel.overcommit=2"], "group": ["keel.group=67108864"]}
SETTINGS_SUITE = "trixie"
SECONDS = 5400  # of one system
# The larger bound of the suite `footprint` holds for all flavours.
FLAGS = ["-DKEEL_SECURE=1", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-fno-builtin", "-w", "-I",
         "/keel/source/support"]


def names_of_systems():
    return [*roots.SUITES, *("linux-" + suite for suite in roots.SUITES), *SETTINGS]


def compile_suites(tools):
    """With the oldest C library, so that every system can run them."""
    source = tools / "source"
    for folder in ("contract", "support"):
        shutil.copytree(TESTS / folder, source / folder)
    support = "/keel/source/support/"
    script = [f"gcc {' '.join(FLAGS)} -shared -fPIC /keel/source/contract/plugin.c "
              f"{support}memory.c -o /keel/plugin.so"]
    for name in SUITES:
        script.append(f"gcc {' '.join(FLAGS)} -DKEEL_TEST_PLUGIN='\"/keel/plugin.so\"' "
                      f"/keel/source/contract/{name}.c {support}check.c {support}check_run.c "
                      f"{support}memory.c -o /keel/{name} -rdynamic -lpthread -ldl -lm")
    shutil.copy(HERE / "late.c", source)
    script.append("gcc -O1 -w -DLIBRARY -shared -fPIC /keel/source/late.c -o /keel/liblate.so "
                  "-lpthread && gcc -O1 -w /keel/source/late.c -o /keel/late -ldl")
    done = roots.enter(roots.root(roots.SUITES[0]), tools,
                       ["bash", "-e", "-c", "\n".join(script)])
    if done.returncode != 0:
        sys.exit("run.py: cannot compile the suites:\n" + done.stdout)
    shutil.rmtree(source)


def run_system(name, tools, output, quick):
    """What the system printed."""
    log = output / f"{name}.log"
    if name in roots.SUITES:
        with log.open("w") as out:
            roots.enter(roots.root(name), tools, ["bash", "/keel/inside.sh", *FLAVOURS], out,
                        SECONDS)
        return log.read_text(errors="replace")
    if machine.missing():
        raise roots.Missing(machine.missing())
    suite = SETTINGS_SUITE if name in SETTINGS else name.removeprefix("linux-")
    machine.run(roots.kernel(suite), roots.root(suite), tools,
                [*SETTINGS.get(name, []), *(["keel.size=small"] if quick else []),
                 "keel.flavours=" + ",".join(FLAVOURS)], log, SECONDS)
    return log.read_text(errors="replace")


def row(name, text):
    """The cells of a system: its C library and kernel, and the counts of each flavour."""
    versions = re.search(r"^system (\S+) (\S+)", text, re.M)
    cells = [name, *(versions.groups() if versions else ("?", "?"))]
    count = re.search(r"^wanted (\d+)", text, re.M)
    wanted = int(count.group(1)) if count else 1  # a suite or program without result has failed
    failed = 0
    for flavour in FLAVOURS:
        found = re.findall(rf"^result {flavour} (\S+) (\d+) (\d+) (\d+)\s*$", text, re.M)
        counts = [sum(int(one[i]) for one in found) for i in (1, 2, 3)]
        lost = max(wanted - len(found), 0)
        failed += counts[1] + lost
        cell = f"{counts[0]} passed, {counts[1] + lost} failed"
        cells.append(cell + (f", {counts[2]} left out" if counts[2] else ""))
    return cells, failed


def table(rows):
    head = ["system", "glibc", "kernel", *FLAVOURS]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main():
    arguments = sys.argv[1:]
    file = None
    if "--table" in arguments:
        at = arguments.index("--table")
        file = Path(arguments[at + 1])
        del arguments[at:at + 2]
    quick = "--quick" in arguments
    if quick:
        arguments.remove("--quick")
    if len(arguments) < 2 or not Path(arguments[0], "libkeel.so").is_file():
        sys.exit(__doc__)
    if os.geteuid() != 0:
        sys.exit("run.py: only root can make and enter the systems")
    names = arguments[2:] or names_of_systems()
    for name in names:
        if name not in names_of_systems():
            sys.exit(f"run.py: there is no system {name}; there are: "
                     + " ".join(names_of_systems()))
    output = Path(arguments[1]).absolute()
    output.mkdir(parents=True, exist_ok=True)
    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        tools = Path(scratch)
        try:
            compile_suites(tools)
        except roots.Missing as why:
            sys.exit(f"run.py: {why}")
        for library in FLAVOURS.values():
            shutil.copy(Path(arguments[0], library), tools)
        for script in (HERE / "inside.sh", TESTS / "support" / "enter.sh",
                       TESTS / "support" / "programs.sh"):
            shutil.copy(script, tools)
        for name in names:
            start = datetime.datetime.now()
            try:
                cells, count = row(name, run_system(name, tools, output, quick))
            except (roots.Missing, subprocess.TimeoutExpired) as why:
                cells, count = [name, "-", "-", *[str(why)] * len(FLAVOURS)], 1
            minutes = (datetime.datetime.now() - start).seconds / 60
            print(f"{' | '.join(cells)} ({minutes:.1f} min)", flush=True)
            rows.append(cells)
            failed += count
    print("\n" + table(rows))
    if file:
        file.write_text(table(rows) + "\n")
    print(f"{len(rows)} systems, {failed} failed; logs: {output}")
    sys.exit(failed != 0)


main()
