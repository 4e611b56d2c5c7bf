#!/usr/bin/env python3
"""Checks the C sources that run in programs with clang, in a few seconds and without objects.

    clang_syntax.py BUILD      a folder configured by cmake: each source with its flags there

Most builds use GCC, which accepts what clang refuses.
"""
import json
import shlex
import subprocess
import sys
from pathlib import Path


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    commands = Path(sys.argv[1], "compile_commands.json")
    if not commands.is_file():
        sys.exit(f"clang_syntax.py: {commands} does not exist: run cmake -S . -B {sys.argv[1]}")
    checked, failed = set(), 0
    for entry in json.loads(commands.read_text()):
        source = entry["file"]
        if "/in_process/" not in source or not source.endswith(".c") or source in checked:
            continue
        checked.add(source)
        words = shlex.split(entry["command"])[1:]
        del words[words.index("-o"):words.index("-o") + 2]
        command = ["clang", "-fsyntax-only", "-Qunused-arguments", "-Wno-unknown-warning-option",
                   *words]
        failed += subprocess.run(command, cwd=entry["directory"], check=False).returncode != 0
    print(f"{len(checked)} sources, {failed} failed")
    sys.exit(failed != 0 or not checked)


main()
