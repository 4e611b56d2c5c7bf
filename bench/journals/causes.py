#!/usr/bin/env python3
"""Causes of the slowest 0.1 % of the calls on every allocator, for each journal and for all.

bench/journals/causes.py FOLDER [--renew [PAGE]]

FOLDER is the output of run.py, with NAME.json.zst for each journal. The script adds
`causes.csv.zst` (a row for each journal, allocator and cause: calls, their time, the longest),
`journals.csv.zst` (a row for each journal and allocator, with percentiles) and `causes.md` (tables
of both). --renew also replaces the tables between the marks in docs/concepts/why-calls-are-slow.md.
The text of that page stays as it is: check it against the new numbers.
"""

import argparse
import collections
import csv
import io
import json
import math
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import ROOT, markdown, raw_name, read_raw, write_raw

PAGE = ROOT / "docs/concepts/why-calls-are-slow.md"
FLOOR = "null"
CAUSES = [
    "preempted",
    "interrupt",
    "slept",
    "system call and page fault",
    "system call",
    "page fault",
    "unknown",
    "own work",
]
Cell = collections.namedtuple("Cell", "calls ns worst_ns")


class Journals:
    """The figures of all journals of a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.figures = {
            raw_name(path): json.loads(read_raw(path)) for path in sorted(folder.glob("*.json.zst"))
        }
        if not self.figures:
            sys.exit(
                f"{folder} has no figures (NAME.json.zst): they come from bench/journals/run.py"
            )
        names = dict.fromkeys(
            one["name"] for figures in self.figures.values() for one in figures["allocators"]
        )
        # The floor comes last.
        self.allocators = [name for name in names if name != FLOOR] + [
            name for name in names if name == FLOOR
        ]

    def of(self, journal, allocator):
        """The figures of this allocator in this journal; None without runs."""
        found = (one for one in self.figures[journal]["allocators"] if one["name"] == allocator)
        return next((one for one in found if one["runs"]), None)

    def cell(self, allocator, cause, journals=None):
        """The slow calls of this cause in these journals, all if none are named."""
        runs = (
            run.get(cause)
            for journal in journals or self.figures
            for run in (self.of(journal, allocator) or {"slow_causes": []})["slow_causes"]
        )
        found = [run for run in runs if run]
        return Cell(
            sum(run["calls"] for run in found),
            sum(run["ns"] for run in found),
            max((run["worst_ns"] for run in found), default=0),
        )

    def mean(self, allocator, value):
        """The geometric mean of a figure over the journals; None if no journal has it."""
        found = [value(one) for journal in self.figures if (one := self.of(journal, allocator))]
        found = [one for one in found if one]
        return math.exp(statistics.fmean(map(math.log, found))) if found else None


def percentile(operation, name):
    return lambda one: one["latency_ns"].get(operation, {}).get(name, {}).get("all_runs")


def unclocked(one):
    """Throughput: ns an operation in the median run that does not time each call."""
    runs = sorted(
        run["elapsed_ns"] / max(run["operations"], 1) for run in one.get("throughput") or []
    )
    return runs[len(runs) // 2] if runs else None


def duration(ns):
    if ns is None:
        return ""
    for unit, factor in ("ns", 1), ("µs", 1e3), ("ms", 1e6), ("s", 1e9):
        if ns < 1000 * factor or unit == "s":
            value = ns / factor
            digits = (
                max(0, 2 - int(math.floor(math.log10(value)))) if value >= 1 and unit != "ns" else 0
            )
            return f"{value:.{digits}f} {unit}"


def tenth(ns):
    """A duration; short ones with one decimal."""
    return duration(ns) if ns is None or ns >= 99.95 else f"{ns:.1f} ns"


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if part and whole else ""


def label(allocator):
    # Archived results of older versions call glibc "system".
    return "glibc" if allocator == "system" else allocator


def frequent_causes(journals, among=None):
    """The causes of at least a thousandth of the slow calls of some allocator, or of their time: a
    few calls that slept can take most of it."""

    def is_frequent(allocator, cause):
        cells = {one: journals.cell(allocator, one, among) for one in CAUSES}
        own = cells[cause]
        calls = sum(cell.calls for cell in cells.values())
        time = sum(cell.ns for cell in cells.values())
        return own.calls >= max(1, calls / 1000) or own.ns >= max(1, time / 1000)

    names = journals.allocators
    return [cause for cause in CAUSES if any(is_frequent(name, cause) for name in names)]


def by_calls(journals):
    causes = frequent_causes(journals)
    rows = []
    for allocator in journals.allocators:
        cells = {cause: journals.cell(allocator, cause).calls for cause in CAUSES}
        mean = [
            tenth(journals.mean(allocator, percentile("malloc", "p50"))),
            duration(journals.mean(allocator, percentile("malloc", "p99.9"))),
            duration(journals.mean(allocator, percentile("free", "p99.9"))),
            duration(journals.mean(allocator, unclocked)),
        ]
        rows.append(
            [
                label(allocator),
                *mean,
                *(share(cells[cause], sum(cells.values())) for cause in causes),
            ]
        )
    return markdown(["", "malloc p50", "malloc p99.9", "free p99.9", "throughput", *causes], rows)


def by_time(journals):
    causes = frequent_causes(journals)
    rows = []
    for allocator in journals.allocators:
        cells = {cause: journals.cell(allocator, cause).ns for cause in CAUSES}
        whole = sum(cells.values())
        rows.append(
            [
                label(allocator),
                *(share(cells[cause], whole) for cause in causes),
                f"{whole / 1e6:.0f} ms",
            ]
        )
    return markdown(["", *causes, "all"], rows)


def by_program(journals):
    value = percentile("malloc", "p99.9")
    rows = [
        [
            journal,
            *(
                duration(value(one)) if (one := journals.of(journal, allocator)) else ""
                for allocator in journals.allocators
            ),
        ]
        for journal in journals.figures
    ]
    return markdown(["malloc p99.9", *map(label, journals.allocators)], rows)


def of_journal(journals, journal):
    """Calls and time by cause in one journal."""
    causes = frequent_causes(journals, [journal])
    rows = []
    for allocator in journals.allocators:
        if (one := journals.of(journal, allocator)) is None:
            continue
        cells = {cause: journals.cell(allocator, cause, [journal]) for cause in CAUSES}
        calls, ns = sum(cell.calls for cell in cells.values()), sum(
            cell.ns for cell in cells.values()
        )
        parts = (
            f"{share(cell.calls, calls)} / {share(cell.ns, ns)}" if cell.calls else ""
            for cell in map(cells.get, causes)
        )
        rows.append(
            [label(allocator), str(one["runs"]), f"{calls:,}", duration(ns) if ns else "", *parts]
        )
    return markdown(["", "runs", "calls", "time", *causes], rows)


def about(journals):
    """The number of journals and runs, and the settings."""
    settings = [figures["settings"] for figures in journals.figures.values()]
    runs = [
        len(one["slow_causes"])
        for figures in journals.figures.values()
        for one in figures["allocators"]
        if one["runs"]
    ]
    aside = sum(
        len(one.get("discarded", []))
        for figures in journals.figures.values()
        for one in figures["allocators"]
    )
    disturbed = sum(
        bool(run)
        for figures in journals.figures.values()
        for one in figures["allocators"]
        for run in one.get("interference", [])
    )
    paces = ", ".join(sorted({one["pace"] for one in settings}))
    touches = ", ".join(sorted({one["touch"] for one in settings}))
    each = str(min(runs)) if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"
    return (
        f"{len(settings)} journals, {sum(runs)} runs ({each} of each allocator, including the null "
        f"allocator, on each journal), pace {paces}, touch {touches}. {aside} disturbed runs were "
        f"repeated and do not count; {disturbed} disturbed runs count."
    )


def write_tables(folder):
    """All tables of the folder, as CSV and Markdown."""
    journals = Journals(folder)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["journal", "allocator", "runs", "cause", "calls", "ns", "worst_ns"])
    for journal in journals.figures:
        for allocator in journals.allocators:
            if (one := journals.of(journal, allocator)) is None:
                continue
            for cause in CAUSES:
                cell = journals.cell(allocator, cause, [journal])
                writer.writerow(
                    [
                        journal,
                        allocator,
                        one["runs"],
                        cause,
                        cell.calls,
                        round(cell.ns),
                        round(cell.worst_ns),
                    ]
                )
    write_raw(folder / "causes.csv.zst", file.getvalue())
    write_journals(journals)
    parts = [
        "# The slowest 0.1 % of the calls, by cause",
        about(journals),
        "Latencies are geometric means over the journals; shares are of the number of calls.",
        by_calls(journals),
        "Shares of the time inside the same calls:",
        by_time(journals),
        "malloc, p99.9 of all runs together:",
        by_program(journals),
        "## By journal",
        "For each cause: its share of the calls / of their time.",
    ]
    for journal in journals.figures:
        parts += [f"### {journal}", of_journal(journals, journal)]
    (folder / "causes.md").write_text("\n\n".join(part.rstrip("\n") for part in parts) + "\n")
    return journals


def write_journals(journals):
    figures = [
        ("malloc", "p50"),
        ("malloc", "p99"),
        ("malloc", "p99.9"),
        ("malloc", "p99.99"),
        ("free", "p50"),
        ("free", "p99.9"),
    ]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        [
            "journal",
            "allocator",
            "version",
            "runs",
            "discarded",
            *(f"{operation}_{name.replace('.', '')}" for operation, name in figures),
            "malloc_p999_low",
            "malloc_p999_high",
            "malloc_worst",
            "unclocked_ns_an_operation",
            "peak_rss_bytes",
            "faults",
        ]
    )
    for journal in journals.figures:
        for allocator in journals.allocators:
            if (one := journals.of(journal, allocator)) is None:
                continue
            values = [percentile(*figure)(one) for figure in figures]
            interval = one["intervals"].get("malloc", {}).get("p99.9", {})
            values += [
                interval.get("low"),
                interval.get("high"),
                one["latency_ns"].get("malloc", {}).get("worst"),
                unclocked(one),
                one["peak_rss_bytes"],
                one["faults"],
            ]
            writer.writerow(
                [
                    journal,
                    allocator,
                    one["version"],
                    one["runs"],
                    len(one.get("discarded", [])),
                    *("" if value is None else f"{value:.1f}" for value in values),
                ]
            )
    write_raw(journals.folder / "journals.csv.zst", file.getvalue())


def renew(journals, page):
    """Replaces the page's tables, each between `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    text = page.read_text()
    folder = journals.folder.resolve()
    if folder.is_relative_to(ROOT):
        folder = pathlib.Path(os.path.relpath(folder, page.resolve().parent))
    source = (
        f"{about(journals)} [All tables]({folder / 'causes.md'}), "
        f"[the numbers of each journal]({folder / 'journals.csv.zst'}).\n"
    )
    for name, table in [
        ("about", source),
        ("calls", by_calls(journals)),
        ("time", by_time(journals)),
        ("programs", by_program(journals)),
    ]:
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, found, rest = text.partition(begin)
        inside, closed, after = rest.partition(end)
        if not (found and closed):
            sys.exit(
                f"{page}: the marks `{begin.strip()}` and `{end}` are missing; put them around "
                "the table"
            )
        text = f"{before}{begin}\n{table}\n{end}{after}"
    page.write_text(text)
    print(f"{page} has new tables; check its text against them", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument(
        "--renew",
        nargs="?",
        const=PAGE,
        type=pathlib.Path,
        metavar="PAGE",
        help=f"replace the tables of this page (default {PAGE.relative_to(ROOT)})",
    )
    arguments = parser.parse_args()
    journals = write_tables(arguments.folder)
    print(
        f"{len(journals.figures)} journals: causes.csv.zst, journals.csv.zst and causes.md in "
        f"{arguments.folder}",
        file=sys.stderr,
    )
    if arguments.renew:
        renew(journals, arguments.renew)


if __name__ == "__main__":
    main()
