#!/usr/bin/env python3
"""Runs programs with Keel and another library in LD_PRELOAD, in both orders.

    run.py [--table FILE] [--programs NAME,...] [--jobs N] LIBRARY ... [-- NEIGHBOUR ...]
    run.py --install               installs the packages of all neighbours, as root

LIBRARY is libkeel.so or another flavour. Output and exit status must be the same as with the other
library alone. The neighbours are those of neighbours.py, and `generated`, a library that replaces
every function that LIBRARY imports (wrap.py); without names, all. One whose package is not
installed is skipped. A program that fails or gives different outputs with the neighbour alone is
left out. The programs: small and large, of one and of several threads (tests/support/programs.sh).
Neighbours run at the same time, by default as many as the machine has processors.
The last line is `N passed, N failed, N skipped`.
"""
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from neighbours import NEIGHBOURS

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "support" / "programs.sh"
NAMES = ["date", "sort", "git", "python3", "apt"]
ORDERS = {"before": "{keel}${{LD_PRELOAD:+:$LD_PRELOAD}}",
          "after": "${{LD_PRELOAD:+$LD_PRELOAD:}}{keel}"}
SECONDS = 600


class Run:
    """A program's result: its status, output and errors."""

    def __init__(self, prefix, program, folder, preload=None):
        place = Path(tempfile.mkdtemp(dir=folder))
        words = [word.replace("{folder}", str(place)) for word in prefix]
        (place / "at").mkdir()
        # The neighbour's command has set LD_PRELOAD; Keel is put before or behind it.
        inner = 'exec bash "$@"' if preload is None else f'LD_PRELOAD="{preload}" exec bash "$@"'
        command = [*words, "sh", "-c", inner, "sh", str(PROGRAMS), program]
        process = subprocess.Popen(command, cwd=place / "at", stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        try:
            out, err = process.communicate(timeout=SECONDS)
            self.status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            self.status = f"no end after {SECONDS} s"
        self.out, self.err = out, err.decode(errors="replace")
        shutil.rmtree(place, ignore_errors=True)

    def difference(self, reference):
        """Why this run is not like the reference, or None."""
        if "cannot be preloaded" in self.err:
            return self.err.strip().splitlines()[0]
        if self.status != reference.status:
            last = (self.err.strip().splitlines() or [""])[-1]
            return f"status {self.status}, not {reference.status}: {last[:160]}"
        if self.out != reference.out:
            return f"other output: {self.out[:80]!r}, not {reference.out[:80]!r}"
        return None


class Counts:
    """What all threads found."""

    def __init__(self, names):
        self.passed = self.failed = self.skipped = 0
        self.rows = {name: {} for name in names}
        self.lock = threading.Lock()

    def skip(self, name, why):
        print(f"SKIP {name}: {why}", flush=True)
        with self.lock:
            self.skipped += 1

    def add(self, name, library, order, program, why):
        with self.lock:
            cell = self.rows[name].setdefault((library, order), [0, 0])
            cell[why is not None] += 1
            self.failed += why is not None
            self.passed += why is None
        if why:
            print(f"FAIL {name}, {library} {order} it, {program}: {why}", flush=True)


def flavour(library):
    return {"libkeel-secure": "secure", "libkeel-debug": "debug"}.get(
        Path(library).name.partition(".")[0], "plain")


def installed(package):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package],
                          capture_output=True, text=True)
    return done.stdout == "installed"


def compare(name, prefix, programs, libraries, folder, counts):
    for program in programs:
        reference, again = Run(prefix, program, folder), Run(prefix, program, folder)
        if reference.status != 0 or again.difference(reference):
            why = again.difference(reference) or f"status {reference.status}"
            print(f"left out: {name}, {program}: without Keel {why}", flush=True)
            continue
        for library in libraries:
            for order, form in ORDERS.items():
                run = Run(prefix, program, folder, form.format(keel=library))
                counts.add(name, flavour(library), order, program, run.difference(reference))


def generated(programs, libraries, folder, counts):
    for library in libraries:
        wrapper = Path(folder, f"wrap-{flavour(library)}.so")
        done = subprocess.run([HERE / "wrap.py", library, wrapper], capture_output=True, text=True)
        if done.returncode != 0:
            why = done.stderr.strip()[-200:]
            counts.add("generated", flavour(library), "before", "wrap.py", why)
            continue
        report = Path(folder, f"calls-{flavour(library)}")
        prefix = ["env", f"WRAP_REPORT={report}", f"LD_PRELOAD={wrapper}"]
        compare("generated", prefix, programs, [library], folder, counts)
        calls = sum(map(int, report.read_text().split())) if report.exists() else 0
        print(f"generated, {flavour(library)}: {len(done.stdout.split())} functions, {calls} calls")
        if calls == 0:
            counts.add("generated", flavour(library), "before", "all", "no call was seen")


def table(rows):
    rows = {name: row for name, row in rows.items() if row}
    libraries = list(dict.fromkeys(key for row in rows.values() for key in row))
    head = ["neighbour", "package"] + [f"{library}, {order} it" for library, order in libraries]
    lines = [head, ["---"] * len(head)]
    for name, row in rows.items():
        cells = [row.get(key, (0, 0)) for key in libraries]
        lines.append([name, NEIGHBOURS.get(name, ("(made by wrap.py)",))[0],
                      *(f"{cell[0]} of {sum(cell)}" for cell in cells)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def neighbour(name, programs, libraries, folder, counts):
    if name == "generated":
        generated(programs, libraries, folder, counts)
        return
    package, command, only = NEIGHBOURS[name]
    if not installed(package):
        counts.skip(name, f"apt-get install {package}")
        return
    wanted = [program for program in programs if only is None or program in only]
    compare(name, shlex.split(command), wanted, libraries, folder, counts)


def options(arguments):
    """The options, the libraries and the neighbours."""
    chosen = {"--table": None, "--programs": ",".join(NAMES), "--jobs": os.cpu_count()}
    while arguments and arguments[0] in chosen:
        chosen[arguments[0]] = arguments[1]
        arguments = arguments[2:]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    libraries = [str(Path(library).resolve()) for library in arguments[:at]]
    names = arguments[at + 1:] or ["generated", *NEIGHBOURS]
    if not libraries or not all(map(os.path.isfile, libraries)):
        sys.exit(__doc__)
    for name in names:
        if name != "generated" and name not in NEIGHBOURS:
            sys.exit(f"run.py: there is no neighbour {name}; there are: {' '.join(NEIGHBOURS)}")
    return chosen, libraries, names


def main():
    if sys.argv[1:] == ["--install"]:
        packages = sorted({package for package, _, _ in NEIGHBOURS.values()})
        sys.exit(subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *packages],
                                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}).returncode)
    chosen, libraries, names = options(sys.argv[1:])
    programs = chosen["--programs"].split(",")
    counts = Counts(names)
    with (tempfile.TemporaryDirectory() as folder,
          ThreadPoolExecutor(int(chosen["--jobs"])) as workers):
        os.chmod(folder, 0o777)
        runs = [workers.submit(neighbour, name, programs, libraries, folder, counts)
                for name in names]
        for run in runs:
            run.result()
    if chosen["--table"]:
        Path(chosen["--table"]).write_text(table(counts.rows))
    print(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    sys.exit(counts.failed != 0)


main()
