#!/usr/bin/env python3
"""Mutation test of the allocator: applies each fault of mutations.txt to a copy of the sources and
runs the fast tests until one fails.

    tests/mutants/run.py            every mutation that has no result yet
    tests/mutants/run.py NAME...    these mutations, again
    tests/mutants/run.py --check    verify the table only: each old text is in its file once
    tests/mutants/run.py --thorough [NAME...]  also explore the long interleavings: these mutations,
                                    or those that have no result or survived the quick tests
    tests/mutants/run.py --again    forget all results first

Results are kept in build/mutants/results.tsv, so that a run can be interrupted (Ctrl-C) and
continued. A changed mutation runs again; after a change of the sources or the tests use --again.
KEEL_MUTANT_JOBS=2 is the number of mutations that are tested side by side.
"""
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutants"
RESULTS = WORK / "results.tsv"
COPIED = ["CMakeLists.txt", "cmake", "in_process", "journal", "samples/engine",
          "bench/CMakeLists.txt", "bench/synthetic", "bench/patterns", "tests"]
BUILD_SECONDS = 600
TEST_SECONDS = 60  # a test that takes longer counts as failed: a mutation may loop for ever

CHECKED = "{build}/tests/unit/allocator/libkeel_checked_shared.so"  # preloaded


def unit(names, variant="checked"):
    for name in names:
        if not (ROOT / "tests/unit/allocator" / f"{name}.c").exists():
            sys.exit(f"run.py names a test that is not in tests/unit/allocator: {name}")
    tests = [f"allocator_{t}_{variant}" if variant else f"allocator_{t}" for t in names]
    return tests, [("", f"{{build}}/tests/unit/allocator/{t}") for t in tests]


def counted(names):
    return unit(names, "counted")


def contract(names):
    return (["keel_checked_shared"] + [f"{t}-plain" for t in names],
            [(CHECKED, f"{{build}}/tests/{t}-plain") for t in names])


def api(names):
    return ([f"api-{t}-static" for t in names],
            [("", f"{{build}}/tests/api-{t}-static") for t in names])


def explored(names):
    return ([f"interleavings_{t}" for t in names],
            [("", f"{{build}}/tests/interleavings_{t}") for t in names])


GUARDED = ("guarded", (["guarded-blocks"],
                       [("", "python3 tests/guarded/run.py {build}/tests/guarded-blocks")]))

# Fastest first: (name, (targets, commands)). {build} is the folder of the build.
QUICK = [
    ("unit", unit(["modules", "packed", "scale", "slow_paths", "growth", "threads", "forked",
                   "keeper", "near_limit", "cold_pages", "fill", "policy", "refills", "held"])),
    ("page faults", unit(["faults"], None)),
    ("work bounds", counted(["modules", "threads"])),
    ("interleavings", explored(["lock", "remote_queue", "windows", "mappings", "arenas"])),
    ("contract", contract(["misuse", "aligned", "sizes", "contents", "large"])),
    ("api", api(["statistics", "arenas", "blocks", "heaps"])),
    ("api", (["api-address_space"], [("", "{build}/tests/api-address_space")])),
    ("unit", unit(["warm", "mappings", "headroom"])),
    ("stress", (["stress"],
                [(CHECKED, "{build}/tests/stress --seed 1 --threads 4 --operations 100000")])),
    ("contract", contract(["threads", "fork"])),
    ("api", (["api-one_thread", "api-giveback"],
             [("", "{build}/tests/api-one_thread"), ("", "{build}/tests/api-giveback")])),
    GUARDED,
    ("torture", (["torture-checked"],
                 [("", "{build}/tests/torture-checked --seconds 45 --seed 1")])),
]
THOROUGH = [  # minutes each
    ("work bounds", (["bounded"], [("", "{build}/tests/bounded")])),
    ("interleavings", explored(["heaps", "relief", "slices", "keeper"])),
]
stages = QUICK


SURVIVED = ("survived", "")


class Mutation:
    def __init__(self, header, lines):
        self.name, self.file = header.split()
        self.old = self.new = None
        self.reason = ""
        for line in lines:
            mark, text = line[0], line[2:]
            if mark == "-":
                self.old = text
            elif mark == "+":
                self.new = text
            elif mark == "=":
                self.reason += (" " if self.reason else "") + text
            else:
                sys.exit(f"mutations.txt: {self.name}: a line begins with none of - + =: {line}")
        if not self.old or not self.new or self.old == self.new:
            sys.exit(f"mutations.txt: {self.name}: needs an old and a different new text")

    def key(self):
        """Identifies the mutation in the results; changes with its text."""
        return f"{self.name} {self.file} {self.old} -> {self.new}"


def read_table():
    mutations = []
    text = (Path(__file__).parent / "mutations.txt").read_text()
    for paragraph in text.split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line and not line.startswith("#")]
        if lines:
            mutations.append(Mutation(lines[0], lines[1:]))
    return mutations


def faults_of_table(mutations):
    faults = []
    names = set()
    for m in mutations:
        path = ROOT / "in_process" / m.file
        count = path.read_text().count(m.old) if path.exists() else 0
        if count != 1:
            faults.append(f"{m.name}: the old text is in in_process/{m.file} {count} times, "
                          f"not once: {m.old}")
        if m.name in names:
            faults.append(f"{m.name}: two mutations have this name")
        names.add(m.name)
    return faults


def read_results():
    results = {}
    if RESULTS.exists():
        for line in RESULTS.read_text().splitlines():
            key, verdict, detail, seconds = line.split("\t")
            results[key] = (verdict, detail, float(seconds))
    return results


running = set()
stopping = threading.Event()
guard = threading.Lock()


def run(command, log, seconds, cwd=None, environment=None):
    """Exit code of the command, or None after the time limit. Ends all its processes."""
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                   cwd=cwd, env=environment, start_new_session=True)
        with guard:
            running.add(process)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            with guard:
                running.discard(process)


class Tree:
    """A copy of the sources with a build of its own."""

    def __init__(self, number):
        self.folder = WORK / f"tree-{number}"
        self.build = WORK / f"cmake-{number}"
        self.log = WORK / f"log-{number}"

    def prepare(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in COPIED:  # only what has changed, so that little is compiled again
            source, target = ROOT / name, self.folder / name
            for file in [source] if source.is_file() else sorted(source.rglob("*")):
                copy = target if source.is_file() else target / file.relative_to(source)
                if file.is_dir():
                    copy.mkdir(parents=True, exist_ok=True)
                elif not copy.exists() or copy.read_bytes() != file.read_bytes():
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, copy)
                    shutil.copymode(file, copy)
        return run(["cmake", "-S", self.folder, "-B", self.build, "-G", "Ninja",
                    f"-DKEEL_OUTPUT_DIR={self.build}/out", "-DCMAKE_C_FLAGS_RELEASE=-O1 -w"],
                   self.log, BUILD_SECONDS)

    def examine(self, file=""):
        """(verdict, detail) of the sources as they are now: the first test that fails. `file` is
        the one that was changed: tests of its folder alone come first."""
        first = [GUARDED] if file.startswith("allocator/guarded/") else []
        for stage, (targets, commands) in first + [each for each in stages if each not in first]:
            code = run(["ninja", "-C", self.build, "-j", "2", *targets], self.log, BUILD_SECONDS)
            if stopping.is_set():
                return None
            if code != 0:
                return "broken", f"does not compile; see {self.log.relative_to(ROOT)}"
            for preload, command in commands:
                words = command.format(build=self.build).split()
                environment = dict(os.environ, CHECK_SECONDS=str(TEST_SECONDS))
                if preload:
                    environment["LD_PRELOAD"] = preload.format(build=self.build)
                    environment["CHECK_MALLOC_IN"] = "libkeel_checked_shared.so"
                code = run(words, self.log, TEST_SECONDS, self.folder, environment)
                if stopping.is_set():
                    return None
                if code != 0:
                    how = ("time limit" if code is None
                           else f"signal {-code}" if code < 0 else "failed")
                    return "killed", f"{stage}: {Path(words[0]).name} ({how})"
        return SURVIVED

    def test(self, mutation):
        path = self.folder / "in_process" / mutation.file
        original = path.read_text()
        try:
            path.write_text(original.replace(mutation.old, mutation.new))
            return self.examine(mutation.file)
        finally:
            path.write_text(original)


def work_off(number, todo, outcomes):
    tree = Tree(number)
    if tree.prepare() != 0:
        outcomes.put((None, f"cmake failed; see {tree.log}", 0))
        return
    baseline = tree.examine() if number == 0 else SURVIVED
    if baseline != SURVIVED:
        if not stopping.is_set():
            outcomes.put((None, f"without any mutation: {baseline[1]}", 0))
        return
    while not stopping.is_set():
        try:
            mutation = todo.get_nowait()
        except queue.Empty:
            return
        begun = time.monotonic()
        outcome = tree.test(mutation)
        if outcome is not None:
            outcomes.put((mutation, outcome, time.monotonic() - begun))


def stop(*_):
    stopping.set()
    with guard:
        for process in running:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def run_all(wanted):
    todo, outcomes = queue.Queue(), queue.Queue()
    for mutation in wanted:
        todo.put(mutation)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    jobs = int(os.environ.get("KEEL_MUTANT_JOBS", "2"))
    threads = [threading.Thread(target=work_off, args=(n, todo, outcomes))
               for n in range(min(jobs, len(wanted)))]
    for thread in threads:
        thread.start()
    done, fault = 0, None
    while any(t.is_alive() for t in threads) or not outcomes.empty():
        try:
            mutation, outcome, seconds = outcomes.get(timeout=0.5)
        except queue.Empty:
            continue
        if mutation is None:
            fault = outcome
            stop()
            continue
        done += 1
        verdict, detail = outcome
        with open(RESULTS, "a") as results:
            results.write(f"{mutation.key()}\t{verdict}\t{detail}\t{seconds:.0f}\n")
        print(f"{done}/{len(wanted)} {mutation.name}: {verdict} {detail} ({seconds:.0f} s)",
              file=sys.stderr, flush=True)
    if fault:
        sys.exit(f"mutants: {fault}")


def report(mutations):
    results = read_results()
    counts = {}
    for m in mutations:
        verdict, detail = ("equivalent", m.reason) if m.reason else \
            results.get(m.key(), ("not run", "", 0))[:2]
        counts[verdict] = counts.get(verdict, 0) + 1
        print(f"{m.name:26} {verdict:10} {detail}")
    print(f"\n{len(mutations)} mutations: " + ", ".join(f"{n} {v}" for v, n in counts.items()))
    return set(counts) <= {"killed", "equivalent"}


def main():
    mutations = read_table()
    faults = faults_of_table(mutations)
    if faults:
        sys.exit("\n".join(faults))
    arguments = sys.argv[1:]
    if arguments == ["--check"]:
        print(f"{len(mutations)} mutations, each old text is in its file once")
        return
    WORK.mkdir(parents=True, exist_ok=True)
    if arguments == ["--again"]:
        RESULTS.unlink(missing_ok=True)
        arguments = []
    retried = set()
    if "--thorough" in arguments:
        global stages, TEST_SECONDS
        stages, TEST_SECONDS = QUICK + THOROUGH, 1200
        arguments.remove("--thorough")
        retried = {key for key, result in read_results().items() if result[0] == "survived"}
    unknown = set(arguments) - {m.name for m in mutations}
    if unknown:
        sys.exit(f"mutants: no mutation is named {', '.join(sorted(unknown))}")
    results = read_results()
    wanted = [m for m in mutations if not m.reason
              and (m.name in arguments if arguments
                   else m.key() not in results or m.key() in retried)]
    if wanted:
        run_all(wanted)
    sys.exit(0 if report(mutations) else 1)


main()
