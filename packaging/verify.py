#!/usr/bin/env python3
"""verify.py PREFIX: checks the binaries of an installation that is made for other systems.

- The libraries need no symbol of a glibc later than 2.17, the lab none later than 2.28.
- They need no library besides those that every system with glibc has.
- No file contains a path of the machine that built it.
Prints the highest version of each kind.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

LIBRARIES, LAB = (2, 17), (2, 28)
SYSTEM = re.compile(r"lib(c|m|dl|pthread|rt|gcc_s)\.so\.\d|ld-linux.*|libkeel\w*\.so\.0")
NEEDED = re.compile(r"\(NEEDED\).*\[(.*)\]")
VERSION = re.compile(r"Name: GLIBC_(\d+)\.(\d+)")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check(path, most):
    """The faults of a file, and the highest version of glibc that it needs."""
    faults = []
    versions = [tuple(map(int, found)) for found in
                VERSION.findall(output("readelf", "-VW", str(path)))]
    highest = max(versions, default=(0, 0))
    if highest > most:
        symbols = re.findall(rf"\w+@GLIBC_{highest[0]}\.{highest[1]}\b",
                             output("readelf", "-W", "--dyn-syms", str(path)))
        named = ", ".join(sorted(set(symbols))[:5])
        faults.append(f"needs glibc {highest[0]}.{highest[1]}: {named}")
    for needed in NEEDED.findall(output("readelf", "-dW", str(path))):
        if not SYSTEM.fullmatch(needed):
            faults.append(f"needs {needed}")
    return faults, highest


def main(prefix):
    homes = [str(Path(place).resolve()).encode() for place in
             (Path(__file__).parent.parent, os.environ.get("CARGO_HOME", Path.home() / ".cargo"))]
    failed, highest = 0, {LIBRARIES: (0, 0), LAB: (0, 0)}
    for path in sorted(Path(prefix).rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        contents = path.read_bytes()
        faults = [f"contains {home.decode()}" for home in homes if home in contents]
        name = path.relative_to(prefix)
        if contents.startswith(b"\x7fELF") and path.suffix != ".o":
            most = LAB if name.parts[0] == "bin" or name.parts[:2] == ("lib", "keel") else LIBRARIES
            found, version = check(path, most)
            faults += found
            highest[most] = max(highest[most], version)
        for fault in faults:
            print(f"{name}: {fault}")
        failed += bool(faults)
    for kind, most in ("the libraries", LIBRARIES), ("the programs of the lab", LAB):
        print(f"verify: {kind} need glibc {'.'.join(map(str, highest[most]))}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
