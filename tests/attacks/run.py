#!/usr/bin/env python3
"""Runs attacks on the heap that other projects wrote, on several allocators, and prints a table.

    run.py ALLOCATOR=LIBRARY[,VARIABLE=VALUE]... SUITE=FOLDER... [--check FILE | --write FILE]

    secure=libkeel-secure.so, debug=libkeel-debug.so, guarded=libkeel.so,KEEL_GUARD_RATE=1, ..:
                              preloaded, with this environment; the C library is always run too
    hardened_malloc=FOLDER    its test/*.c and *.cc that misuse the heap
    isoalloc=FOLDER           its tests/*.c that misuse the heap
    how2heap=FOLDER           the techniques of the folder for the C library that is installed
    mset=FOLDER               Fraunhofer's test_cases: those that an allocator can notice

Nothing of these projects is part of the repository, and nothing is fetched. Each attack runs three
times. Its verdict is

    caught      a signal ended the program: a message of the allocator, or a memory fault
    sometimes   not in each run
    stopped     the program found that its own attack had no effect
    not caught  the program reached its end

With --check, verdicts that differ from those in FILE are failures; with --write, FILE is made.
Needs a C and a C++ compiler.
"""
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUITES = ("hardened_malloc", "isoalloc", "how2heap", "mset")
RUNS = 3
PRECONDITION, SUCCESS = 77, 0  # of mset
FLAGS = ["-w", "-O0", "-g", "-fno-builtin", "-U_FORTIFY_SOURCE", "-D_GNU_SOURCE"]
# They need the functions or the metadata of isoalloc, or do not misuse the heap.
ISOALLOC = ("big_double_free double_free heap_overflow heap_underflow sized_free unaligned_free "
            "incorrect_chunk_size_multiple wild_free zero_alloc").split()
MSET = re.compile(r"(double_free|misuse_of_free|use_after_star_freed_memory_heap|"
                  r"linear_ooba_heap_heap_(inter|non)_object)\w*?(?<!validation)_\d+$")


def compile_to(program, sources, *flags):
    cxx = str(sources[0]).endswith(".cc")
    compiler = os.environ.get("CXX" if cxx else "CC", "c++" if cxx else "cc")
    standard = ["-std=c++17", "-fsized-deallocation"] if cxx else ["-std=gnu17"]
    done = subprocess.run([compiler, *standard, *FLAGS, *flags, *map(str, sources), "-o",
                           str(program), "-lpthread", "-ldl"], capture_output=True, text=True)
    return done.returncode == 0


def hardened_malloc(folder, place):
    """Those for which its own test expects a signal."""
    test = (folder / "test" / "test_smc.py").read_text()
    run = r'run_test\(\s*"(\w+)"\)\s+self\.assertEqual\(returncode, (-?\d+)'
    for name, status in re.findall(run, test):
        source = next((folder / "test").glob(f"{name}.c*"))
        if int(status) < 0 and "object_size" not in source.read_text():
            yield name, [(source, [])]


def isoalloc(folder, place):
    for name in ISOALLOC:
        yield name, [(folder / "tests" / f"{name}.c", ["-I", str(HERE / "isoalloc")])]


def how2heap(folder, place):
    version = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    for source in sorted((folder / f"glibc_{version}").glob("*.c")):
        yield source.stem, [(source, [])]


def mset(folder, place):
    groups = {}
    for source in sorted((folder / "test_cases").glob("*.c")):
        if MSET.match(source.stem) and "_validation_" not in source.stem:
            groups.setdefault(source.stem.rpartition("_")[0], []).append(source)
    flags = [f"-DPRECONDITIONS_FAILED_VALUE={PRECONDITION}",
             f"-DTEST_CASE_SUCCESSFUL_VALUE={SUCCESS}"]
    for name, sources in groups.items():
        yield name, [(source, flags) for source in sources]


def outcome(program, environment, place):
    """caught, stopped, not caught; None: the program's preconditions do not hold."""
    environment = {**os.environ, **environment}
    try:
        done = subprocess.run([str(program)], env=environment, cwd=place, timeout=30,
                              stdin=subprocess.DEVNULL, capture_output=True, errors="replace")
    except subprocess.TimeoutExpired:
        return "no end"
    if done.returncode == PRECONDITION:
        return None
    if done.returncode < 0:
        own = "Assertion" in done.stderr and "keel: " not in done.stderr
        return "stopped" if own else "caught"
    return "not caught" if done.returncode == 0 else "stopped"


def verdict(programs, environment, place):
    seen = {outcome(program, environment, place) for program in programs for _ in range(RUNS)}
    seen.discard(None)
    if not seen:
        return "does not apply"
    if len(seen) == 1:
        return seen.pop()
    return "sometimes" if "caught" in seen else "not caught"


def attacks(suite, folder, place):
    for name, variants in globals()[suite](folder, place):
        programs = []
        for index, (source, flags) in enumerate(variants):
            program = place / f"{suite}-{name}-{index}"
            if compile_to(program, [source], *flags):
                programs.append(program)
        yield name, programs


def read_verdicts(path):
    """The first line has the names of the allocators."""
    head, *rows = (line.split(" | ") for line in path.read_text().splitlines())
    return {(*row[:2], name): verdict for row in rows for name, verdict in zip(head[2:], row[2:])}


def write_verdicts(path, libraries, found):
    lines = [" | ".join(["suite", "attack", *libraries])]
    for suite, attack in dict.fromkeys(key[:2] for key in found):
        lines.append(" | ".join([suite, attack,
                                 *(found[suite, attack, name] for name in libraries)]))
    path.write_text("\n".join(lines) + "\n")


def print_table(suite, names, results):
    print(f"\n## {suite}\n\n| attack | {' | '.join(names)} |\n|{' --- |' * (len(names) + 1)}")
    for attack, row in results.items():
        print(f"| {attack} | {' | '.join(row)} |")
    caught = [sum(row[i] == "caught" for row in results.values()) for i in range(len(names))]
    print(f"| caught, of {len(results)} | {' | '.join(map(str, caught))} |", flush=True)


def environment_of(argument, value):
    path, *variables = value.split(",")
    if not Path(path).is_file():
        sys.exit(f"run.py: {argument}: there is no such library; give NAME=LIBRARY")
    return {"LD_PRELOAD": str(Path(path).resolve()),
            **dict(variable.split("=", 1) for variable in variables)}


def main():
    libraries, folders, files = {"C library": {}}, {}, {}
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument in ("--check", "--write"):
            files[argument] = Path(next(arguments))
            continue
        name, _, value = argument.partition("=")
        if name not in SUITES:
            libraries[name] = environment_of(argument, value)
        elif Path(value).is_dir():
            folders[name] = Path(value).resolve()
        else:
            sys.exit(f"run.py: {argument}: there is no such folder; give SUITE=FOLDER")
    found = {}
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(3) as pool:
        place = Path(scratch)
        for suite, folder in folders.items():
            results = {}
            for attack, programs in attacks(suite, folder, place):
                if not programs:
                    print(f"note: {suite} {attack} cannot be compiled here", file=sys.stderr)
                    continue
                row = list(pool.map(lambda each: verdict(programs, each, place),
                                    libraries.values()))
                results[attack] = row
                found.update({(suite, attack, name): each
                              for name, each in zip(libraries, row) if name != "C library"})
            print_table(suite, list(libraries), results)
    if "--write" in files:
        write_verdicts(files["--write"], [name for name in libraries if name != "C library"], found)
    if "--check" in files:
        known = read_verdicts(files["--check"])
        wrong = {key: value for key, value in found.items()
                 if key in known and known[key] not in (value, "sometimes")}
        for key, value in wrong.items():
            print(f"FAIL {' '.join(key)}: {value}, not {known[key]}")
        print(f"{len(found) - len(wrong)} passed, {len(wrong)} failed, 0 skipped")
        sys.exit(bool(wrong))


main()
