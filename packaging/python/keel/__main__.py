"""`python -m keel record script.py`: records a Python program with its own objects and functions.

The other commands are those of `keel`. `record` and `try` run this Python on the given script (or
`-m MODULE`, or `-c CODE`):

- with --python-objects: each of Python's objects is then an operation of the journal. Otherwise
  Python takes memory in arenas, and only large objects are seen;
- with -X perf, if it is Python 3.12 or newer: `python -m keel blame` then names Python's functions.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from typing import List, Tuple

from ._program import program

OBJECTS, STACKS = "--python-objects", "--stacks"


def interpreter() -> str:
    """The name of the object file that has the interpreter: a library, or Python itself."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        libraries = re.findall(r"/(libpython[^/\n]*\.so[^/\n]*)$", maps.read(), re.M)
    return libraries[0] if libraries else os.path.basename(os.path.realpath(sys.executable))


def split(words: List[str]) -> Tuple[List[str], List[str]]:
    """The options of keel, and the script with its arguments. Without `--`, the script begins at
    the first word that names a file of Python, or at -m or -c."""
    if "--" in words:
        at = words.index("--")
        return words[:at], words[at + 1:]
    for at, word in enumerate(words):
        if word in ("-m", "-c") or word.endswith(".py"):
            return words[:at], words[at:]
    return words, []


def names_functions() -> bool:
    """Whether this Python can write a map of its functions for perf."""
    return bool(sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE"))


def python_command(command: str, words: List[str]) -> List[str]:
    options, script = split(words)
    if not script:
        sys.exit(f"keel: name a script: python -m keel {command} script.py")
    python = [sys.executable]
    if not (script[0] in ("-m", "-c") or script[0].endswith(".py")):
        python = []  # a program with its own arguments, as `python3 -O script.py`
    elif names_functions():
        python += ["-X", "perf"]
    elif command == "record":
        print(f"keel: Python {sys.version.split()[0]} cannot name its functions to other programs "
              "(3.12 and newer can); call stacks show the functions of the interpreter",
              file=sys.stderr)
    if OBJECTS not in options:
        options = [OBJECTS, *options]
    if command == "record" and not any(word.split("=")[0] == STACKS for word in options):
        options = [STACKS, "64", *options]
    if command == "record" and not any(re.match(r"-o|--output", word) for word in options):
        stem = os.path.splitext(os.path.basename(script[0]))[0].lstrip("-")
        options = ["-o", f"{stem or 'python'}.journal.parquet", *options]
    return [command, *options, "--", *python, *script]


def main(words: List[str]) -> int:
    if words[:1] in (["record"], ["try"]):
        words = python_command(words[0], words[1:])
    elif words[:1] == ["blame"] and "--wrapper" not in words:
        # The line of Python that allocates, not the function of the interpreter.
        words = ["blame", "--wrapper", interpreter(), *words[1:]]
    command = [str(program()), *words]
    if os.name == "posix":
        os.execv(command[0], command)
    return subprocess.call(command)


def script() -> None:
    """The command `keel` that pip installs: the program itself."""
    os.execv(str(program()), ["keel", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
