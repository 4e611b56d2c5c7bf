#!/usr/bin/env python3
"""Times the building and the opening of reports: bench/report/run.py [--times N] FOLDER... > table.csv

Each FOLDER is one that `keel compare` wrote. Per folder: operations, allocators, the page's size, the median and
the range of N builds, and of N openings in a headless browser (from the navigation to the last panel drawn). Needs
`make build` and `cargo build --release -p keel-report --example opening`.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = "journal,operations,allocators,calls_drawn,page_bytes,build_s_median,build_s_least,build_s_most," \
    "open_ms_median,open_ms_least,open_ms_most"


def build(folder, page, times):
    """Seconds of each build."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        command = [ROOT / "build/bin/keel", "report", folder, "-o", page]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        took.append(time.perf_counter() - begin)
    return took


def opening(page, times):
    """Milliseconds of each opening."""
    command = [ROOT / "target/release/examples/opening", str(times), page]
    line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(word) for word in line.split()[1:]]


def spread(values, digits):
    """Median, least, most."""
    return [f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    print(COLUMNS)
    for folder in arguments.folders:
        results = json.loads((folder / "results.json").read_text())
        operations = sum(results["journal"]["operations"].values())
        drawn = sum(any(run["raw"] for run in one["runs"]) for one in results["allocators"])
        with tempfile.TemporaryDirectory() as place:
            page = pathlib.Path(place) / "report.html"
            builds = build(folder, page, arguments.times)
            opened = opening(page, arguments.times)
            row = [folder.name, operations, len(results["allocators"]), operations * drawn, page.stat().st_size]
            print(*row, *spread(builds, 2), *spread(opened, 0), sep=",", flush=True)


if __name__ == "__main__":
    sys.exit(main())
