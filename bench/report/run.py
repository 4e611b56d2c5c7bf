#!/usr/bin/env python3
"""Times the building, the opening and the panning of reports.

bench/report/run.py [--times N] FOLDER... > table.csv

Each FOLDER is one that `keel compare` wrote. Per folder: operations, allocators, the page's size;
the median and the range of N builds, and of N openings in a headless browser (from the navigation
to the last panel drawn); while its calls are panned and zoomed, median and 95th percentile of the
time between two frames, and the work for each. Needs `make build` and `cargo build --release -p
keel-report --example opening --example panning`.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from browser import followed, opened

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = (
    "journal,operations,allocators,calls_drawn,page_bytes,"
    "build_s_median,build_s_least,build_s_most,"
    "open_ms_median,open_ms_least,open_ms_most,"
    "pan_ms_median,pan_ms_p95,pan_ms_worked,zoom_ms_median,zoom_ms_p95,zoom_ms_worked"
)
SECONDS = 5


def build(folder, page, times):
    """Seconds of each build."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        command = [ROOT / "build/bin/keel", "report", folder, "-o", page]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        took.append(time.perf_counter() - begin)
    return took


def spread(values, digits):
    """Median, least, most."""
    return [
        f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values))
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
            openings = opened(page, arguments.times)
            if not openings:
                sys.exit("no browser, or its tools are not built: see --help")
            moved = followed(page, SECONDS)
            moves = [
                moved[what][name]
                for what in ("pan", "zoom")
                for name in ("median", "p95", "worked")
            ]
            row = [
                folder.name,
                operations,
                len(results["allocators"]),
                operations * drawn,
                page.stat().st_size,
            ]
            print(*row, *spread(builds, 2), *spread(openings, 0), *moves, sep=",", flush=True)


if __name__ == "__main__":
    sys.exit(main())
