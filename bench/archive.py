"""The archive of benchmark runs: bench/runs/<date>-<machine>/.

A run never overwrites an earlier one. Raw results (JSON, CSV) are compressed, as NAME.json.zst and
NAME.csv.zst. Numbers with a fraction have six digits, which halves the files. Tables are Markdown.
"""

import csv
import datetime
import io
import json
import os
import pathlib
import re
import subprocess
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


def write_raw(path, text):
    """Writes raw results to `path`, which ends in .zst, through the command zstd."""
    subprocess.run(["zstd", "-q", "-19", "-f", "-o", path], input=text.encode(), check=True)


def rounded(value):
    """A JSON value whose numbers with a fraction have six digits."""
    match value:
        case float():
            return float(f"{value:.6g}")
        case dict():
            return {name: rounded(one) for name, one in value.items()}
        case list():
            return [rounded(one) for one in value]
        case _:
            return value


def write_json(path, value):
    """Writes a JSON value as raw results."""
    write_raw(path, json.dumps(rounded(value), separators=(",", ":")) + "\n")


def read_raw(path):
    """Reads raw results, compressed or not."""
    if path.suffix != ".zst":
        return path.read_text()
    command = ["zstd", "-q", "-d", "-c", path]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()


def raw_name(path):
    """The name of a raw file without its endings: sqlite-sql for sqlite-sql.json.zst."""
    return path.name.removesuffix(".zst").rsplit(".", 1)[0]


def free_name(folder, name):
    """The first of `name`, `name-2`, ... for which `folder` has no file."""
    number = 1
    while True:
        free = name if number == 1 else f"{name}-{number}"
        if not any(folder.glob(f"{free}.*")):
            return free
        number += 1


def markdown(head, rows):
    """A table in Markdown."""
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows]) + "\n"


def new_entry(benchmark):
    """The folder of today's runs, and a free name in it."""
    folder = ROOT / "bench" / "runs" / f"{datetime.date.today()}-{machine()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder, free_name(folder, benchmark)


def command_line():
    """The command that makes this run, from the root of the repository."""
    program = pathlib.Path(sys.argv[0]).resolve()
    own = program.relative_to(ROOT) if program.is_relative_to(ROOT) else program
    return " ".join([str(own), *sys.argv[1:]])


def keep(benchmark, columns, rows):
    """Writes the rows, and the command that made them, to a new raw file and a Markdown table."""
    folder, name = new_entry(benchmark)
    command = command_line()
    load = "%.1f %.1f %.1f" % os.getloadavg()
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["# command", command])
    writer.writerow(["# kernel", os.uname().release, "load before", load])
    writer.writerow(columns)
    writer.writerows(rows)
    write_raw(folder / f"{name}.csv.zst", text.getvalue())
    head = f"# {name}\n\n`{command}`, kernel {os.uname().release}, load before: {load}.\n\n"
    (folder / f"{name}.md").write_text(head + markdown(columns, rows))
    print(f"{benchmark}: every run is in {(folder / name).relative_to(ROOT)}.md", file=sys.stderr)


def keep_report(benchmark, text, raw):
    """Archives a benchmark's report, and `raw` as JSON."""
    folder, name = new_entry(benchmark)
    write_json(folder / f"{name}.json.zst", raw)
    (folder / f"{name}.md").write_text(text)
    print(f"{benchmark}: archived as {folder / name}.md", file=sys.stderr)
