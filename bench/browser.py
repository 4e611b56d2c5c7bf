"""Times a page in a headless browser: its opening, and its frames while it is panned and zoomed."""

import pathlib
import re
import subprocess

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "target/release/examples"
LINE = re.compile(
    r" (?P<what>pan|zoom) (?P<chart>\w+): .*frames (?P<median>[\d.]+) median, (?P<p95>[\d.]+) p95, "
    r"(?P<most>[\d.]+) most; worked (?P<worked>[\d.]+)"
)


def opened(page, times):
    """Milliseconds of each opening; none without the tool or a browser."""
    if not (EXAMPLES / "opening").exists():
        return []
    run = subprocess.run([EXAMPLES / "opening", str(times), page], capture_output=True, text=True)
    return [float(word) for word in run.stdout.split()[1:]] if run.returncode == 0 else []


def followed(page, seconds):
    """For `pan` and `zoom` of the calls: milliseconds between frames, `median`, `p95` and `most`,
    and how long the page `worked` for each frame. Empty without the tool or a browser."""
    if not (EXAMPLES / "panning").exists():
        return {}
    run = subprocess.run([EXAMPLES / "panning", str(seconds), page], capture_output=True, text=True)
    found = [LINE.search(line) for line in run.stdout.splitlines()]
    return {
        one["what"]: {name: one[name] for name in ("median", "p95", "most", "worked")}
        for one in found
        if one and one["chart"] == "calls"
    }
