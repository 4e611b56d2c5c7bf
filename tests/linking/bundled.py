#!/usr/bin/env python3
"""Checks that an object or archive defines exactly the public names of a library, so that no file
was left out where all of Keel is compiled with a program: the amalgamation and the crate.

    bundled.py LIBRARY FILE

LIBRARY is a shared library, or an archive. A name is public if its visibility is the default one.
"""
import subprocess
import sys


def public(path):
    table = "--dyn-syms" if ".so" in path else "--syms"
    lines = subprocess.run(["readelf", table, "--wide", path], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    rows = [line.split() for line in lines]
    return {row[7].partition("@")[0] for row in rows
            if len(row) >= 8 and row[4] in ("GLOBAL", "WEAK") and row[5] == "DEFAULT"
            and row[6] != "UND"}


library, bundled = sys.argv[1:]
wanted, found = public(library), public(bundled)
if not wanted:
    sys.exit(f"{library} exports nothing")
if wanted != found:
    sys.exit(f"FAIL {bundled}: missing of {library}: {sorted(wanted - found) or 'none'}; "
             f"more than it: {sorted(found - wanted) or 'none'}")
print(f"{bundled}: the {len(found)} names of {library}")
