#!/usr/bin/env python3
"""Times real programs on several allocators: the programs of tests/programs, in fresh processes.

    bench/programs/run.py [--rounds N] [--beside NAME=LIBRARY ...] [--archive FOLDER] [PROGRAM ...]

The allocators: glibc's malloc, Keel, Keel with KEEL_KEEPER=on, and each LIBRARY, loaded by
LD_PRELOAD. In each round a program runs on all of them, in a new random order and in a fresh
folder. Figures are of all processes of the program together; the peak is that of the largest. A
program must print the same as on glibc's malloc: a run that differs, fails or leaves a process
behind is reported and does not count. Needs `make build` and the built tests. Programs that are not
installed are skipped and listed. Ctrl-C (or SIGTERM) keeps the finished measurements. Without
--archive the folder is bench/runs/<date>-<machine>/.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import free_name, machine, read_raw, write_json

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
ONCE = PROGRAMS / "once.sh"
FIGURES = [  # name, title, scale
    ("wall_s", "wall time, s", 1),
    ("cpu_s", "user and system CPU time, s", 1),
    ("peak_bytes", "peak resident, MB", 1e-6),
]


def files(names):
    """The programs' files by name: the requested ones, or all measured ones."""
    found = {
        path.stem: path for path in sorted([*PROGRAMS.glob("*.sh"), *PROGRAMS.glob("large/*.sh")])
    }
    if unknown := [name for name in names if name not in found]:
        sys.exit(f"programs: there is no program {unknown[0]}; known are {', '.join(found)}")
    if names:
        return {name: found[name] for name in names}
    return {
        name: path
        for name, path in found.items()
        if name not in ("run", "once") and "\n# measured: no" not in path.read_text()
    }


def missing(path):
    wanted = re.findall(r"^# (?:needs|optional): (.*)$", path.read_text(), re.MULTILINE)
    search = os.environ["PATH"] + ":/usr/sbin:/usr/games"
    return [
        command
        for line in wanted
        for command in line.split()
        if not shutil.which(command, path=search) and not os.path.isfile(command)
    ]


def contestants(options, place):
    """Name to environment. Libraries are copied to a folder that all users can read."""
    listed = [
        ("glibc", None, []),
        ("keel", options.library, []),
        ("keel+keeper", options.library, ["KEEL_KEEPER=on"]),
    ]
    for pair in options.beside:
        name, _, library = pair.partition("=")
        if not library or not pathlib.Path(library).is_file():
            sys.exit(
                f"programs: --beside {pair}: NAME=LIBRARY is expected, and the library must exist"
            )
        listed.append((name, library, []))
    made = {}
    for name, library, settings in listed:
        if library:
            copy = place / f"lib{name}.so"
            shutil.copy(library, copy)
            copy.chmod(0o755)
            settings = [f"LD_PRELOAD={copy}", f"PRELOADED={copy}", *settings]
        made[name] = settings
    return made


def once(tools, path, place, variant, settings):
    """One run: its figures, its output, and an error (None without one)."""
    subprocess.run([ONCE, "run", tools, path, place, variant, "env", *settings], check=False)
    at = place / variant
    report = json.loads((at / "report.json").read_text())
    report["cpu_s"] = round(report["user_s"] + report["sys_s"], 6)
    output = (at / "out").read_bytes()
    wrong = None
    if report["status"] != 0:
        wrong = f"ended with status {report['status']}"
    elif report["left"]:
        wrong = f"left processes behind: {', '.join(report['left'])}"
    elif b"cannot be preloaded" in (at / "err").read_bytes():
        wrong = "the library could not be preloaded"
    shutil.rmtree(at)
    return report, output, wrong


def measure(options, name, path, entrants, place):
    """All runs of one program: a list of samples."""
    subprocess.run([ONCE, "prepare", options.tools, path, place], check=True)
    _, expected, wrong = once(
        options.tools, path, place, "glibc", []
    )  # warms the caches of the disk as well
    if wrong:
        print(f"programs: {name} {wrong} on glibc's malloc; left out", file=sys.stderr)
        return []
    samples = []
    for number in range(options.rounds):
        for variant in random.sample(list(entrants), len(entrants)):
            report, output, wrong = once(options.tools, path, place, variant, entrants[variant])
            if not wrong and output != expected:
                wrong = "printed other output"
            if wrong:
                print(f"programs: {name} on {variant} {wrong}", file=sys.stderr)
            samples.append(
                {"program": name, "allocator": variant, "round": number, "wrong": wrong, **report}
            )
    return samples


def values(samples, program, allocator, figure):
    return [
        sample[figure]
        for sample in samples
        if sample["program"] == program and sample["allocator"] == allocator and not sample["wrong"]
    ]


def cell(numbers, base, scale):
    if not numbers:
        return "-"
    median, least, most = (
        value * scale for value in (statistics.median(numbers), min(numbers), max(numbers))
    )
    digits = max(0, 2 - int(math.floor(math.log10(max(median, 1e-9)))))
    ratio = f" **{statistics.median(numbers) / base:.2f}**" if base else ""
    return f"{median:.{digits}f} ({least:.{digits}f} .. {most:.{digits}f}){ratio}"


def mean_ratio(samples, programs, one, other, figure):
    """Geometric mean of the ratios of medians over the programs, and their number."""
    logs = []
    for program in programs:
        above, below = values(samples, program, one, figure), values(
            samples, program, other, figure
        )
        if above and below and statistics.median(below) > 0:
            logs.append(math.log(statistics.median(above) / statistics.median(below)))
    return (math.exp(statistics.mean(logs)), len(logs)) if logs else (None, 0)


def errors(result):
    """The lines on failed runs and on programs that are not installed."""
    samples = result["samples"]
    wrong = [
        f"- {s['program']} on {s['allocator']}, round {s['round']}: {s['wrong']}"
        for s in samples
        if s["wrong"]
    ]
    nothing = (
        "None: all runs printed the same as on glibc's malloc, ended with status 0 and left no "
        "process behind."
    )
    lines = ["", "## Errors", "", *(wrong or [nothing])]
    if result["left_out"]:
        lines += ["", "Not installed here: " + ", ".join(result["left_out"]) + "."]
    return lines


def page(result):
    samples, allocators = result["samples"], list(result["allocators"])
    programs = list(dict.fromkeys(sample["program"] for sample in samples))
    lines = [
        f"# real programs, {result['date']}",
        "",
        f"{result['machine']['cpu']}, {result['machine']['cpus']} processors, "
        f"{result['machine']['kernel']}; "
        f"commit {result['commit']}; {result['rounds']} rounds; load before: "
        f"{result['load_before']}.",
        "",
    ]
    lines += [
        *([result["note"], ""] if result["note"] else []),
        f"`{result['command']}`",
        "",
        "Median over the rounds; in brackets the least and the most; bold the ratio to glibc. The "
        "processes of a "
        "program together; the peak is that of its largest process.",
        "",
    ]
    lines += [
        f"- `{name}`: {' '.join(settings) or 'the C library as it is'}"
        for name, settings in result["allocators"].items()
    ]
    lines += [
        "",
        "## Geometric means over the programs",
        "",
        "| ratio of | " + " | ".join(title for _, title, _ in FIGURES) + " |",
        "|---|" + "---:|" * len(FIGURES),
    ]
    for one in allocators[1:]:
        for other in (
            [allocators[0], *allocators[3:]] if one in allocators[1:3] else allocators[:1]
        ):
            means = [mean_ratio(samples, programs, one, other, figure) for figure, _, _ in FIGURES]
            words = [f"{mean:.3f} (of {count})" if mean else "-" for mean, count in means]
            lines.append(f"| {one} to {other} | {' | '.join(words)} |")
    for figure, title, scale in FIGURES:
        lines += [
            "",
            f"## {title[0].upper()}{title[1:]}",
            "",
            "| | " + " | ".join(allocators) + " |",
            "|---|" + "---:|" * len(allocators),
        ]
        for program in programs:
            base = values(samples, program, allocators[0], figure)
            base = statistics.median(base) if base else None
            cells = [
                cell(
                    values(samples, program, name, figure),
                    base if name != allocators[0] else None,
                    scale,
                )
                for name in allocators
            ]
            lines.append(f"| {program} | {' | '.join(cells)} |")
    lines += errors(result)
    return "\n".join(lines) + "\n"


def joined(pieces):
    """Joins results of different programs on the same allocators; some fields list all values."""
    measured = [{sample["program"] for sample in piece["samples"]} for piece in pieces]
    if any(one & other for number, one in enumerate(measured) for other in measured[:number]):
        sys.exit("programs: --from: two files have a program in common")
    if any(piece["allocators"] != pieces[0]["allocators"] for piece in pieces):
        sys.exit("programs: --from: the files are not of the same allocators")
    result = dict(pieces[0])
    for field in ("commit", "load_before", "rounds"):
        result[field] = ", ".join(dict.fromkeys(str(piece[field]) for piece in pieces))
    result["samples"] = [sample for piece in pieces for sample in piece["samples"]]
    return result


def keep(result, archive):
    archive.mkdir(parents=True, exist_ok=True)
    path = archive / free_name(archive, "programs")
    write_json(path.with_suffix(".json.zst"), result)
    path.with_suffix(".md").write_text(page(result))
    print(f"programs: kept in {path}.json.zst and {path}.md", file=sys.stderr)


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", action="append", default=[], metavar="NAME=LIBRARY")
    parser.add_argument("--library", default=ROOT / "build/lib/libkeel.so", type=pathlib.Path)
    parser.add_argument(
        "--tools", default=ROOT / "build/cmake/tests", type=pathlib.Path, help="the tests, built"
    )
    parser.add_argument("--archive", type=pathlib.Path, help="the folder to keep the results in")
    parser.add_argument("--note", default="", help="a sentence to keep with the results")
    parser.add_argument(
        "--from",
        dest="kept",
        nargs="+",
        type=pathlib.Path,
        metavar="FILE",
        help="measures nothing: shows kept results (JSON), and joins pieces of one bench; "
        "with --archive, keeps them as one",
    )
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    return parser.parse_args()


def new_result(options, left_out):
    """A result without samples: the machine and the options."""
    cpu = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    commit = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    return {
        "format": 1,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit.stdout.strip() or "unknown",
        "command": " ".join(
            ["bench/programs/run.py", *(re.sub(r"=.*/", "=", word) for word in sys.argv[1:])]
        ),
        "note": options.note,
        "machine": {
            "cpu": cpu.group(1) if cpu else "unknown",
            "cpus": os.cpu_count(),
            "kernel": os.uname().release,
        },
        "load_before": "%.2f %.2f %.2f" % os.getloadavg(),
        "rounds": options.rounds,
        "left_out": left_out,
        "samples": [],
    }


def main():
    options = parsed()
    if options.kept:
        result = joined([json.loads(read_raw(path)) for path in options.kept])
        print(page(result), end="")
        if options.archive:
            keep({**result, "note": options.note or result["note"]}, options.archive)
        return
    for needed in (options.library, options.tools / "overseer", options.tools / "stress"):
        if not needed.exists():
            sys.exit(
                f"programs: {needed} is missing: run `make build` and `ninja -C build/cmake` first"
            )
    chosen = files(options.programs)
    left_out = [name for name, path in chosen.items() if missing(path)]
    for name in left_out:
        print(
            f"programs: {name} is left out: {missing(chosen.pop(name))[0]} is not installed",
            file=sys.stderr,
        )
    result = new_result(options, left_out)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        place.chmod(0o755)
        entrants = contestants(options, place)
        result["allocators"] = {
            name: [
                setting.replace(f"{folder}/", "")
                for setting in settings
                if not setting.startswith("PRELOADED")
            ]
            for name, settings in entrants.items()
        }
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
        try:
            for number, (name, path) in enumerate(chosen.items(), 1):
                print(f"programs: {name}, {number} of {len(chosen)}", file=sys.stderr)
                result["samples"] += measure(options, name, path, entrants, place / name)
                shutil.rmtree(place / name)
        except KeyboardInterrupt:
            print("programs: stopped; the finished measurements are kept", file=sys.stderr)
    print(page(result), end="")
    keep(
        result, options.archive or ROOT / "bench" / "runs" / f"{datetime.date.today()}-{machine()}"
    )
    if any(sample["wrong"] for sample in result["samples"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
