#!/usr/bin/env python3
"""Overhead of recording on a real program: its time with and without the recorder.

bench/record-overhead/programs.py [--pairs N] [--stacks DEPTH] -- PROGRAM [ARGUMENT...]
bench/record-overhead/programs.py --usual [--pairs N] [--stacks DEPTH]
bench/record-overhead/programs.py -- /usr/games/openttd -v null:ticks=40000 -s null -m null -g -G 1

With --usual, runs five programs in each round: scene.cpp (C++), index.rs (Rust), json_objects.py
(Python, with PYTHONMALLOC=malloc, so that each object is an operation), table.sql (SQLite), and
OpenTTD, if they are installed. Otherwise it runs the given program.

Runs the program in turn alone, under `keel record` and, with --stacks, under `keel record
--stacks DEPTH`, N times each, and prints the median ratio of its elapsed times and of its CPU
times. Both are the program's own, from its start to its end: `keel
record` runs beside it, on another processor if there is one, and continues to write for a moment
after the end. Stores every run in bench/runs/<date>-<machine>/record-programs.csv. The ratio is
most useful for a program that computes a fixed number of frames or ticks as fast as possible: then
it is the ratio of frame rates.
"""

import argparse
import json
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import PREFIX, keep

KEEL = PREFIX / "bin/keel"
HERE = pathlib.Path(__file__).resolve().parent


# The shell measures the program alone: its times include only the part of the recorder inside it.
TIMED = ["bash", "-c", 'TIMEFORMAT="%R %U %S"; time "$@" >/dev/null 2>&1', "bash"]


def usual(folder):
    """The programs of --usual: name and command."""
    subprocess.run(
        ["c++", "-std=c++17", "-O2", "-g", "-o", folder / "scene", HERE / "scene.cpp"], check=True
    )
    programs = [("scene (C++)", [folder / "scene"])]
    if shutil.which("rustc"):
        subprocess.run(["rustc", "-O", "-g", "-o", folder / "index", HERE / "index.rs"], check=True)
        programs.append(("index (Rust)", [folder / "index"]))
    python = ["env", "PYTHONMALLOC=malloc", sys.executable, HERE / "json_objects.py", "8"]
    programs.append(("json_objects (Python)", python))
    if shutil.which("sqlite3"):
        programs.append(("table (SQLite)", ["sqlite3", ":memory:", f".read {HERE / 'table.sql'}"]))
    game = shutil.which("openttd") or "/usr/games/openttd"
    if pathlib.Path(game).exists():
        settings = ["-v", "null:ticks=20000", "-s", "null", "-m", "null", "-g", "-G", "1"]
        programs.append(("OpenTTD (game)", [game, *settings]))
    return programs


def timed(command):
    """Elapsed seconds of the program, and its CPU seconds."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    run = subprocess.run(command, **streams, text=True)
    if run.returncode != 0:
        sys.exit(
            f"{shlex.join(map(str, command))} ended with {run.returncode}:\n{run.stderr[-2000:]}"
        )
    elapsed, user, system = map(float, run.stderr.splitlines()[-1].split())
    return elapsed, user + system


def operations_of(folder):
    """Operations of the largest journal; the shell has one too."""
    infos = [
        subprocess.run(
            [KEEL, "info", "--json", journal], check=True, capture_output=True, text=True
        ).stdout
        for journal in folder.glob("*.journal.parquet")
    ]
    return max(json.loads(text)["facts"]["operations"] for text in infos)


def kinds_of(folder, stacks):
    """The kinds of runs: a name, and the command before the program's."""
    record = [KEEL, "record", "--quiet", "--follow-children", "-o", folder / "x.journal.parquet"]
    kinds = [("alone", []), ("recorded", [*record, "--"])]
    if stacks:
        kinds.append(("with stacks", [*record, "--stacks", str(stacks), "--"]))
    return kinds


def print_table(rows, names):
    """Medians of the times, and of the ratios to the run alone of the same pair."""
    for label, column in (("elapsed", 3), ("processor", 4)):
        times = {name: [row[column] for row in rows if row[2] == name] for name in names}
        for name in names:
            ratios = sorted(time / alone for alone, time in zip(times["alone"], times[name]))
            print(
                f"{label}: {name} {statistics.median(times[name]):.3f} s, ratio of the pairs "
                f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} .. {ratios[-1]:.3f})"
            )
    alone = statistics.median(row[4] for row in rows if row[2] == "alone")
    for name in names[1:]:
        of_kind = [row for row in rows if row[2] == name]
        operations = statistics.median(row[5] for row in of_kind)
        added = statistics.median(row[4] for row in of_kind) - alone
        print(
            f"operations, {name}: {operations:,.0f}; added processor time an operation "
            f"{added / operations * 1e9:.0f} ns"
        )


def run_round(program, pair, kinds, folder):
    """One run of each kind, in an order that alternates."""
    name, command = program
    rows = []
    for kind, before in kinds if pair % 2 else reversed(kinds):
        elapsed, processor = timed([*before, *TIMED, *command])
        operations = operations_of(folder) if before else ""
        rows.append([name, pair, kind, elapsed, round(processor, 3), operations])
        for journal in folder.glob("*.journal.parquet"):
            journal.unlink()
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pairs", type=int, default=7, help="runs with and without, in turn (default 7)"
    )
    parser.add_argument("--stacks", type=int, help="also record with call stacks of this depth")
    parser.add_argument("--no-archive", action="store_true", help="print only")
    parser.add_argument("--usual", action="store_true", help="run the five usual programs")
    parser.add_argument("program", nargs="*", metavar="PROGRAM")
    arguments = parser.parse_args()
    if not KEEL.is_file():
        sys.exit(f"{KEEL} is missing: run `make build` first")
    if arguments.usual == bool(arguments.program):
        parser.error("give a program, or --usual")
    rows = []
    with tempfile.TemporaryDirectory(prefix="keel-record-") as name:
        folder = pathlib.Path(name)
        programs = [(pathlib.Path((arguments.program or ["-"])[0]).name, arguments.program)]
        if arguments.usual:
            programs = usual(folder)
        kinds = kinds_of(folder, arguments.stacks)
        for pair in range(1, arguments.pairs + 1):
            for program in programs:
                rows += run_round(program, pair, kinds, folder)
            print(f"pair {pair} of {arguments.pairs}", file=sys.stderr)
    for program, _ in programs:
        print(f"{program}:" if arguments.usual else "", end="\n" if arguments.usual else "")
        print_table([row for row in rows if row[0] == program], [kind for kind, _ in kinds])
    if not arguments.no_archive:
        keep(
            "record-programs",
            ["program", "pair", "kind", "elapsed_s", "processor_s", "operations"],
            rows,
        )


if __name__ == "__main__":
    main()
