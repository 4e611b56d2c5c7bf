"""Shared by the benchmarks that run a small C program on several preloaded allocators."""

import pathlib
import signal
import subprocess
import sys

from archive import PREFIX

LIBKEEL = PREFIX / "lib/libkeel.so"


def build(source, folder):
    """Compiles a program; returns its path."""
    program = pathlib.Path(folder) / source.stem
    options = ["-std=gnu17", "-O2", "-g", "-fno-builtin", "-pthread"]
    subprocess.run(["cc", *options, "-o", program, source], check=True)
    return program


def add_options(parser, rounds):
    """Adds the options that these benchmarks share. `rounds` is the default number of rounds."""
    parser.add_argument(
        "--rounds", type=int, default=rounds, help=f"runs of each (default {rounds})"
    )
    parser.add_argument("--beside", action="append", default=[], metavar="NAME=LIBRARY")
    parser.add_argument("--no-archive", action="store_true", help="print only")


def each_until_interrupted(names, measure):
    """Calls measure(name) for each, until Ctrl-C or SIGTERM. Returns the finished names."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    finished = []
    try:
        for name in names:
            measure(name)
            finished.append(name)
    except KeyboardInterrupt:
        print(f"\ninterrupted: {len(finished)} of {len(names)} are finished", file=sys.stderr)
    return finished


def libraries(beside):
    """By name: the libraries to preload, of `--beside NAME=LIBRARY`."""
    if not LIBKEEL.is_file():  # the loader would only warn, and the C library's malloc would run
        sys.exit(f"{LIBKEEL} is missing: run `make build`")
    found = {}
    for entry in beside:
        name, _, library = entry.partition("=")
        if not pathlib.Path(library).is_file():
            sys.exit(f"--beside {entry}: {library or 'the library'} is not a file")
        found[name] = library
    return found
