#!/usr/bin/env python3
"""Speed of `keel import` in MB of text for each second of wall time, journal by journal.

    bench/import/run.py [--rounds N] [--before KEEL] JOURNAL.parquet ...

`keel export` writes each journal as the Doom 3 blog's text, and that text is imported N times
(default 5). With --before another `keel` runs in turn with this one, and first in every other
round. Texts and output are in the folder for temporary files, which should be in memory. Every
import is stored under bench/runs/.
"""

import argparse
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import archive

COLUMNS = ["round", "journal", "binary", "text_bytes", "journal_bytes", "seconds", "user", "system"]


def run(keel, text, output):
    """Seconds of wall time, and of CPU time in user mode and in the kernel."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([keel, "import", text, "-o", output], check=True, **quiet)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--before", type=pathlib.Path)
    options.add_argument("journals", type=pathlib.Path, nargs="+")
    options = options.parse_args()
    keels = {"new": archive.PREFIX / "bin" / "keel"}
    if options.before:
        keels = {"old": options.before, **keels}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for journal in options.journals:
            text = folder / f"{journal.name.split('.')[0]}.txt"
            subprocess.run(
                [keels["new"], "export", journal, "--to", "doom3", "-o", text], check=True
            )
        for number in range(options.rounds):
            order = list(keels.items())
            for text in sorted(folder.glob("*.txt")):
                for name, keel in order if number % 2 == 0 else order[::-1]:
                    output = folder / "out.parquet"
                    took = run(keel, text, output)
                    sizes = (text.stat().st_size, output.stat().st_size)
                    rows.append((number, text.stem, name, *sizes, *took))
    archive.keep("import-speed", COLUMNS, rows)
    print(f"| journal | MB | {' | '.join(f'{name} MB/s | MB per CPU second' for name in keels)} |")
    print(f"| --- | ---: |{' ---: | ---: |' * len(keels)}")
    for journal in sorted({row[1] for row in rows}):
        cells = []
        for name in keels:
            mine = [row for row in rows if row[1] == journal and row[2] == name]
            megabytes = mine[0][3] / 1e6
            cells.append(f"{megabytes / statistics.median(row[5] for row in mine):.0f}")
            cells.append(f"{megabytes / statistics.median(row[6] + row[7] for row in mine):.0f}")
        print(f"| {journal} | {megabytes:.1f} | {' | '.join(cells)} |")


main()
