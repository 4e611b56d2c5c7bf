#!/usr/bin/env python3
"""Every journal on every allocator, a page of each, and one table of all of them.

bench/journals/run.py [--runs N] [--pace PACE] JOURNAL-OR-FOLDER...
bench/journals/run.py --minutes 25 --pace max --no-pages JOURNAL-OR-FOLDER...

A folder means the journals in it: *.journal.parquet, and the text forms that `keel import` reads
(*.journal, *.journal.zst, *.journal.txt), with frame marks in NAME.frames or NAME.frames.zst beside
them. For each journal: `keel compare` at pace `compressed`, `keel report`, its Markdown, the time
to build the page and to open it in a headless browser, and the time between frames while its calls
are panned and zoomed there. The machine should be idle otherwise.

The script may be stopped and restarted at any time: it skips what is finished with the same
settings. Work is in build/journals (--work). After each journal, the figures of all finished
journals are in bench/runs/<date>-<machine>/journals-<pace>/: NAME.md and NAME.json.zst for each
journal, table.md and table.csv.zst, and the causes of the slowest calls (causes.py: causes.md,
causes.csv.zst, journals.csv.zst). Earlier results are never overwritten.

With --minutes, the number of runs of each allocator follows from the time, at least two and at most
five: the remaining time is divided among the remaining journals by their operations. Two runs of
all journals may take longer than the given time.

Needs `make build` and, for pages, `cargo build --release --workspace --example opening
--example panning`.
"""

import argparse
import csv
import datetime
import io
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import machine, write_json, write_raw
from browser import followed, opened
from causes import write_tables

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEEL = ROOT / "build/bin/keel"
ENDINGS = (".journal.parquet", ".journal.zst", ".journal.txt", ".journal")
FRAMES = (".frames", ".frames.zst")
COLUMNS = [
    "journal",
    "operations",
    "threads",
    "frames",
    "allocators",
    "runs",
    "pace",
    "compare_s",
    "page_bytes",
    "build_s",
    "build_s_most",
    "open_ms",
    "open_ms_most",
    "pan_ms_p95",
    "zoom_ms_p95",
    "keel_p999_ns",
    "lowest_p999_ns",
    "verdict",
]


def stem(path):
    """A journal's name without its ending; None if the file is not a journal."""
    return next((path.name[: -len(end)] for end in ENDINGS if path.name.endswith(end)), None)


def journals(given):
    """Name and path of each journal, small ones first, so that errors show early."""
    found = {}
    for path in given:
        for one in sorted(path.iterdir()) if path.is_dir() else [path]:
            name = stem(one)
            if name is None and not path.is_dir():
                sys.exit(f"{path}: a journal ends in one of {', '.join(ENDINGS)}")
            # Of a journal in two forms, the Parquet file needs no import.
            if name is not None and (name not in found or one.name.endswith(".parquet")):
                found[name] = one
    if not found:
        sys.exit(f"no journal in {', '.join(map(str, given))}: they end in {', '.join(ENDINGS)}")
    return sorted(found.items(), key=lambda item: item[1].stat().st_size)


def say(text):
    print(f"{datetime.datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def keel(*arguments, **options):
    return subprocess.run([KEEL, *map(str, arguments)], check=True, text=True, **options)


def imported(name, path, work):
    """The journal as Parquet."""
    if path.name.endswith(".parquet"):
        return path
    ready = work / "journals" / f"{name}.journal.parquet"
    if not ready.exists():
        ready.parent.mkdir(parents=True, exist_ok=True)
        partial = ready.with_name(f"{name}.importing.parquet")
        beside = [path.parent / f"{name}{end}" for end in FRAMES]
        frames = next((["--frames", one] for one in beside if one.exists()), [])
        keel("import", path, *frames, "--program", name, "-o", partial, stderr=subprocess.DEVNULL)
        partial.rename(ready)
    return ready


def operations_of(journal):
    """Rows of the journal; an estimate from its size if `keel info` fails."""
    info = subprocess.run([KEEL, "info", "--json", journal], capture_output=True, text=True)
    try:
        return json.loads(info.stdout)["operations"]
    except (ValueError, KeyError):
        return journal.stat().st_size // 2


class Budget:
    """The number of runs that the time allows."""

    def __init__(self, minutes, operations):
        self.end = time.monotonic() + 60 * minutes
        self.operations = dict(operations)
        # Seconds of a round of all allocators: for each journal, and for each million
        # operations. The latter is updated from the measured times.
        self.fixed, self.rate = 3.0, 3.5

    def expected(self, name):
        return self.fixed + self.rate * self.operations[name] / 1e6

    def runs(self, name):
        """Runs of each allocator on this journal, the next of the remaining ones."""
        share = self.expected(name) / sum(map(self.expected, self.operations))
        seconds = (self.end - time.monotonic()) * share
        return max(2, min(5, int(seconds / self.expected(name))))

    def done(self, name, runs, seconds):
        millions = self.operations.pop(name) / 1e6
        if seconds is not None and millions > 1:
            self.rate = (self.rate + max(0.5, (seconds / runs - self.fixed) / millions)) / 2


def compared(journal, folder, settings, runs, pages):
    """Compares, unless it was done with the same settings; returns its seconds."""
    done = folder / "done.json"
    if done.exists():
        kept = json.loads(done.read_text())
        if kept["settings"] == settings:
            return kept["seconds"], False
    shutil.rmtree(folder, ignore_errors=True)
    begin = time.perf_counter()
    # Without `all`, an allocator with settings would be the only one.
    names = ["--allocators", settings["allocators"] or "all"]
    names += [word for one in settings["with"] for word in ("--allocator", one)]
    rows = [] if pages else ["--raw", "none", "--no-usable-size"]
    figures = keel(
        "compare",
        journal,
        "--pace",
        settings["pace"],
        "--runs",
        runs,
        *names,
        *rows,
        "--json",
        "-o",
        folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ).stdout
    (folder / "figures.json").write_text(figures)
    seconds = time.perf_counter() - begin
    done.write_text(json.dumps({"settings": settings, "seconds": round(seconds, 1)}))
    return seconds, True


def built(folder, page, times):
    """Seconds of each build of the page."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        keel("report", folder, "-o", page, stderr=subprocess.DEVNULL)
        took.append(time.perf_counter() - begin)
    return took


def facts_of(page):
    """The data that the page's scripts read."""
    text = page.read_text()
    return json.loads(re.search(r'id="facts">(.*?)</script>', text, re.DOTALL).group(1))


def row_of(name, folder, page, seconds, times):
    builds = built(folder, page, times)
    opens = opened(page, times)
    moved = followed(page, 2) if opens else {}
    facts = facts_of(page)
    tails = {
        one["name"]: one["operations"]["all"]["percentiles"]["p999"][0]
        for one in facts["allocators"]
        if not one["floor"] and "p999" in one["operations"].get("all", {}).get("percentiles", {})
    }
    lowest = min(tails, key=tails.get) if tails else ""
    verdict = " ".join([facts["verdict"]["headline"], facts["verdict"]["overall"]]).strip()
    return {
        "journal": name,
        "operations": sum(facts["journal"]["operations"].values()),
        "threads": facts["journal"]["threads"],
        "frames": facts["frame_count"],
        "allocators": sum(bool(one["runs"]) and not one["floor"] for one in facts["allocators"]),
        "runs": facts["settings"]["runs"],
        "pace": facts["settings"]["pace"],
        "compare_s": f"{seconds:.0f}",
        "page_bytes": page.stat().st_size,
        "build_s": f"{statistics.median(builds):.2f}",
        "build_s_most": f"{max(builds):.2f}",
        "open_ms": f"{statistics.median(opens):.0f}" if opens else "",
        "open_ms_most": f"{max(opens):.0f}" if opens else "",
        "pan_ms_p95": moved.get("pan", {}).get("p95", ""),
        "zoom_ms_p95": moved.get("zoom", {}).get("p95", ""),
        "keel_p999_ns": tails.get("keel", ""),
        "lowest_p999_ns": f"{lowest} {tails[lowest]}" if lowest else "",
        "verdict": verdict,
    }


def archive(pace, work):
    """The folder for the figures; after a stop or a failure, the one of that start."""
    mark = work / f"archive-{pace}"
    day = ROOT / "bench/runs" / f"{datetime.date.today().isoformat()}-{machine()}"
    if mark.exists() and pathlib.Path(mark.read_text()).is_dir():
        return pathlib.Path(mark.read_text())
    names = (
        day / (f"journals-{pace}" + (f"-{number}" if number > 1 else ""))
        for number in range(1, 1000)
    )
    folder = next(one for one in names if not one.exists())
    folder.mkdir(parents=True)
    mark.write_text(str(folder))
    return folder


def write_table(rows, folder, settings):
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_raw(folder / "table.csv.zst", file.getvalue())
    commit = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    lines = [
        "# Every journal on every allocator",
        "",
        f"`bench/journals/run.py`, runs {settings['runs']}, pace {settings['pace']}, "
        f"commit {commit.stdout.strip() or 'unknown'}, {machine()}. Pages hold every call of one "
        "run of each "
        "allocator and of the floor. Building and opening: medians; panning and zooming: 95 % of "
        "frames come "
        "at most so much. Verdicts are of all operations together.",
        "",
        "| journal | operations | page | built | opened | pan, zoom | verdict |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        opened_in = f"{row['open_ms']} ms" if row["open_ms"] else "–"
        moved = f"{row['pan_ms_p95']}, {row['zoom_ms_p95']} ms" if row["pan_ms_p95"] else "–"
        lines.append(
            f"| {row['journal']} | {row['operations']:,} | {row['page_bytes'] / 1e6:.1f} MB | "
            f"{row['build_s']} s | {opened_in} | {moved} | {row['verdict']} |"
        )
    (folder / "table.md").write_text("\n".join(lines) + "\n")


def with_page(name, folder, target, seconds, arguments, rows):
    """Writes a journal's page, Markdown and row of the table; returns a message."""
    page = arguments.work / "pages" / f"{name}-{arguments.pace}.html"
    rows.append(row_of(name, folder, page, seconds, arguments.times))
    (target / f"{name}.md").write_text(
        keel("report", folder, "--markdown", stdout=subprocess.PIPE).stdout
    )
    row = rows[-1]
    return (
        f"page {row['page_bytes'] / 1e6:.1f} MB, built in {row['build_s']} s, "
        f"opened in {row['open_ms'] or '?'} ms: "
        f"{row['verdict']}"
    )


def main():
    arguments = parsed()
    settings = {
        "pace": arguments.pace,
        "runs": f"{arguments.minutes} minutes" if arguments.minutes else arguments.runs,
        "allocators": arguments.allocators,
        "with": arguments.allocator,
        "pages": not arguments.no_pages,
    }
    (arguments.work / "pages").mkdir(parents=True, exist_ok=True)
    todo, rows, failed = journals(arguments.given), [], []
    target = archive(arguments.pace, arguments.work)
    ready = [(name, imported(name, path, arguments.work)) for name, path in todo]
    budget = arguments.minutes and Budget(
        arguments.minutes, [(name, operations_of(path)) for name, path in ready]
    )
    begun = time.perf_counter()
    for number, (name, journal) in enumerate(ready, 1):
        place = f"[{number}/{len(ready)}] {name}:"
        runs, seconds, fresh = budget.runs(name) if budget else settings["runs"], None, False
        try:
            say(f"{place} comparing, {runs} runs of each at pace {settings['pace']}")
            folder = arguments.work / f"results-{arguments.pace}" / name
            folder.parent.mkdir(parents=True, exist_ok=True)
            seconds, fresh = compared(journal, folder, settings, runs, settings["pages"])
            say(f"{place} {'compared in' if fresh else 'was compared before, in'} {seconds:.0f} s")
            figures = json.loads((folder / "figures.json").read_text())
            write_json(target / f"{name}.json.zst", figures)
            if settings["pages"]:
                said = with_page(name, folder, target, seconds, arguments, rows)
                write_table(rows, target, settings)
                say(f"{place} {said}")
            write_tables(target)
        except (subprocess.CalledProcessError, OSError) as error:
            failed.append(name)
            say(f"{place} FAILED: {error}")
        if budget:
            budget.done(name, runs, seconds if fresh else None)
    minutes = (time.perf_counter() - begun) / 60
    say(
        f"{len(ready) - len(failed)} of {len(ready)} journals in {minutes:.0f} minutes; figures "
        f"in {target}" + (f", pages in {arguments.work / 'pages'}" if settings["pages"] else "")
    )
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; the same command again repeats only these")
    (arguments.work / f"archive-{arguments.pace}").unlink()


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each allocator (default 5)")
    parser.add_argument(
        "--minutes", type=float, help="as many runs as this time allows, instead of --runs"
    )
    parser.add_argument(
        "--pace", default="compressed", help="as keel compare takes it (default compressed)"
    )
    parser.add_argument("--allocators", default="", help="names with commas (default: all)")
    parser.add_argument(
        "--allocator",
        action="append",
        default=[],
        metavar="SPEC",
        help="one more, with settings, as keel compare takes it: keel:KEEL_KEEPER=on; again for "
        "more",
    )
    parser.add_argument(
        "--times", type=int, default=3, help="builds and openings of each page (default 3)"
    )
    parser.add_argument(
        "--no-pages", action="store_true", help="figures only: no rows of single calls, no pages"
    )
    parser.add_argument(
        "--work",
        type=pathlib.Path,
        default=ROOT / "build/journals",
        help="where results and pages go",
    )
    parser.add_argument("given", nargs="+", type=pathlib.Path, metavar="JOURNAL-OR-FOLDER")
    arguments = parser.parse_args()
    if not KEEL.is_file():
        sys.exit(f"{KEEL} is missing: run `make build` first")
    return arguments


if __name__ == "__main__":
    main()
