#!/usr/bin/env python3
"""Opens the exports of a program with the tools that they are made for.

    bench/exports/run.py [--flamegraph FILE] [--speedscope FOLDER] [--profiler-cli COMMAND]
                         [--catapult FOLDER] [--chromium FILE]

Needs `make build`, a C++ compiler, and those of the tools that are to be tried: `go`; the Python
package perfetto; flamegraph.pl of the project FlameGraph; the npm package speedscope, unpacked; the
npm package @firefox-devtools/profiler-cli (COMMAND may contain the path of a newer node); a
checkout of the project catapult, whose importer is that of chrome://tracing, and Chromium.

Records samples/hitch, replays it, exports the journal and the results in all formats, and requires
that each tool names the guilty function, or has the values of `keel`. Tools that are not given are
not tried. Ends with 1 if a tool does not show what it should.
"""

import argparse
import base64
import html
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from archive import PREFIX, ROOT

KEEL = PREFIX / "bin/keel"
GUILTY = "save_replay"
FRAMES = 180


def output(*command, **more):
    """The standard output of a command that succeeds."""
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if run.returncode != 0:
        raise RuntimeError(f"{shlex.join(map(str, command))}: {run.stderr[-1000:]}")
    return run.stdout


def prepare(folder):
    """Records and replays the game: the journal and the results."""
    journal, results = folder / "game.journal.parquet", folder / "game.comparison"
    output("c++", "-O2", "-g", "-o", folder / "game", ROOT / "samples/hitch/game.cpp")
    output(KEEL, "record", "-q", "--stacks", "16", "-o", journal, "--", folder / "game")
    output(KEEL, "compare", "-a", "keel,glibc", "--runs", "2", journal, "-o", results)
    return journal, results


def export(what, form, target, *more):
    output(KEEL, "export", what, "--to", form, *more, "-o", target)
    return target


def peak_of(journal):
    """The most live bytes of the journal."""
    return json.loads(output(KEEL, "info", "--json", journal))["facts"]["live_peak"]["bytes"]


def pprof(folder, journal, _results, _arguments):
    """The first line of the table names the function."""
    if not shutil.which("go"):
        return None
    target = export(journal, "pprof", folder / "game.pb.gz", "--weight", "bytes")
    lines = output("go", "tool", "pprof", "-top", target).splitlines()
    first = next(at for at, line in enumerate(lines) if "flat%" in line) + 1
    return GUILTY in lines[first], lines[first].strip()


def flamegraph(folder, journal, _results, arguments):
    """The drawing has the function with its share."""
    if not arguments.flamegraph:
        return None
    target = export(journal, "collapsed", folder / "game.folded", "--weight", "bytes")
    drawing = output("perl", arguments.flamegraph, target)
    found = re.search(rf"<title>{GUILTY} \(([\d,]+) samples, ([\d.]+)%\)", drawing)
    return bool(found) and float(found[2]) > 90, found[0] if found else "not drawn"


def speedscope(folder, journal, _results, arguments):
    """The application shows the profile, so its title is that of the profile."""
    if not (arguments.speedscope and arguments.chromium):
        return None
    target = export(journal, "speedscope", folder / "game.speedscope.json", "--weight", "bytes")
    application = next(arguments.speedscope.glob("**/release/index.html"))
    # As the command of the project does: a script that passes the file to the application.
    script = folder / "profile.js"
    text = base64.b64encode(target.read_bytes()).decode()
    script.write_text(f"speedscope.loadFileFromBase64('game.speedscope.json', '{text}')")
    page = f"file://{application}#localProfilePath={script}"
    title = re.search(r"<title>(.*?)</title>", dom_of(arguments.chromium, page))
    title = html.unescape(title[1]) if title else "no page"
    return "game" in title, title


def firefox(folder, _journal, results, arguments):
    """The function list of the first thread begins with the function; all frames are markers."""
    if not arguments.profiler_cli:
        return None
    target = export(results, "firefox", folder / "game.json", "--weight", "time")
    command = shlex.split(arguments.profiler_cli)
    output(*command, "load", target)
    try:
        functions = output(*command, "thread", "functions", "--thread", "t-0")
        markers = output(*command, "thread", "markers", "--thread", "t-0")
    finally:
        output(*command, "stop")
    first = re.search(r"f-\d+\. (.*)", functions)
    frames = re.search(r"frame\s+(\d+) markers", markers)
    shown = f"{first[1] if first else functions}; {frames[0] if frames else 'no frames'}"
    return bool(first and frames) and GUILTY in first[1] and int(frames[1]) == FRAMES, shown


# Before the page: a browser that only prints the document draws no frames, and has no idle time.
SHIM = """<script>
window.requestAnimationFrame = (call) => setTimeout(() => call(performance.now()), 1);
window.requestIdleCallback = (call) => setTimeout(
  () => call({ didTimeout: false, timeRemaining: () => 10 }), 1);
</script>"""
# Waits until the page of trace2html has imported the trace.
READ_MODEL = """<script>
const of = (process) => ({
  counters: Object.values(process.counters).flatMap((one) => one.series.map(
    (series) => [series.name, Math.max(...series.samples.map((sample) => sample.value))])),
  threads: Object.values(process.threads).map((one) => [one.name, one.sliceGroup.length]),
});
const timer = setInterval(() => {
  const model = typeof g_timelineViewEl === 'undefined' ? null : g_timelineViewEl.model;
  if (!model) return;
  clearInterval(timer);
  document.documentElement.setAttribute('data-model', JSON.stringify({
    warnings: model.importWarnings.map((one) => one.message),
    processes: Object.values(model.processes).map(of)}));
}, 100)</script>"""


def dom_of(chromium, page):
    """The document after the scripts of the page have run."""
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
        options += [f"--user-data-dir={profile}", "--virtual-time-budget=20000"]
        return output(chromium, *options, "--dump-dom", page, timeout=120)


def chrome(folder, journal, _results, arguments):
    """The importer has no warnings; the counter has the peak, and the thread all frames."""
    if not (arguments.catapult and arguments.chromium):
        return None
    target = export(journal, "chrome", folder / "game.trace.json")
    page = folder / "trace.html"
    output(sys.executable, arguments.catapult / "tracing/bin/trace2html", target, "--output", page)
    text = page.read_text().replace("</body>", READ_MODEL + "</body>")
    page.write_text(re.sub("<head[^>]*>", lambda head: head[0] + SHIM, text, count=1))
    found = re.search(r'data-model="(.*?)"', dom_of(arguments.chromium, f"file://{page}"))
    if not found:
        return False, "the page has no model"
    model = json.loads(html.unescape(found[1]))
    counters = dict(model["processes"][0]["counters"])
    frames = dict(model["processes"][0]["threads"]).get("frames")
    good = not model["warnings"] and frames == FRAMES and counters["bytes"] == peak_of(journal)
    return good, json.dumps(model)


def perfetto(folder, journal, results, _arguments):
    """The classes of the format read it: each event has a described track, and slices are closed.
    The highest value of a counter is the peak."""
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as format
    except ImportError:
        return None
    shown = []
    for name, what in [("journal", journal), ("results", results)]:
        trace = format.Trace()
        target = export(what, "perfetto", folder / f"{name}.perfetto-trace")
        trace.ParseFromString(target.read_bytes())
        packets = trace.packet
        tracks = {one.track_descriptor.uuid for one in packets if one.HasField("track_descriptor")}
        events = [one.track_event for one in packets if one.HasField("track_event")]
        if any(event.track_uuid not in tracks for event in events):
            return False, f"{name}: an event on a track that is not described"
        kinds = [event.type for event in events]
        begun, ended = (kinds.count(kind) for kind in (format.TrackEvent.TYPE_SLICE_BEGIN,
                                                       format.TrackEvent.TYPE_SLICE_END))
        if begun != ended:
            return False, f"{name}: {begun} slices begin and {ended} end"
        highest = max(event.counter_value for event in events)
        if name == "journal" and highest != peak_of(journal):
            return False, f"{name}: the highest counter is {highest}"
        shown.append(f"{name}: {len(events)} events, {begun} slices, highest counter {highest}")
    return True, "; ".join(shown)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flamegraph", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--speedscope", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--profiler-cli", metavar="COMMAND")
    parser.add_argument("--catapult", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--chromium", default=shutil.which("chromium"), metavar="FILE")
    arguments = parser.parse_args()
    if not KEEL.is_file():
        sys.exit(f"{KEEL} is missing: run `make build` first")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="keel-exports-") as name:
        folder = pathlib.Path(name)
        journal, results = prepare(folder)
        for tool in (pprof, flamegraph, speedscope, firefox, perfetto, chrome):
            try:
                found = tool(folder, journal, results, arguments)
            except (RuntimeError, StopIteration, subprocess.TimeoutExpired) as error:
                found = False, str(error)
            good, shown = found or (True, "not tried")
            failed += not good
            verdict = "FAILED" if not good else "ok" if found else "-"
            print(f"{tool.__name__:10} {verdict:7} {shown}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
