"""Where benchmarks keep their runs: bench/runs/<date>-<machine>/, of which nothing is ever overwritten."""

import csv
import datetime
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PREFIX = pathlib.Path(os.environ.get("KEEL_PREFIX", ROOT / "build"))


def machine():
    """Two words of the processor's name, its processors, and whether it is virtual."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.*)", text)
    words = re.findall(r"[a-z0-9]+", model.group(1).lower()) if model else ["unknown"]
    skipped = {"amd", "intel", "r", "tm", "cpu", "processor", "core"}
    name = "-".join([word for word in words if word not in skipped][:2]) or "unknown"
    virtual = "-vm" if " hypervisor" in text else ""
    return f"{name}-{os.cpu_count()}core{virtual}"


def keep(benchmark, columns, rows):
    """Writes the rows into a file of their own, under the command that made them."""
    folder = ROOT / "bench" / "runs" / f"{datetime.date.today()}-{machine()}"
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    while (path := folder / f"{benchmark}{'' if number == 1 else f'-{number}'}.csv").exists():
        number += 1
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        program = pathlib.Path(sys.argv[0]).resolve()
        own = program.relative_to(ROOT) if program.is_relative_to(ROOT) else program
        writer.writerow(["# command", " ".join([str(own), *sys.argv[1:]])])
        writer.writerow(["# kernel", os.uname().release, "load before", "%.1f %.1f %.1f" % os.getloadavg()])
        writer.writerow(columns)
        writer.writerows(rows)
    print(f"{benchmark}: every run is in {path.relative_to(ROOT)}", file=sys.stderr)
