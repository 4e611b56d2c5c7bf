"""The program `keel` of this package, and how it is called."""

from __future__ import annotations

import os
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import List, Union

VERSION = version("keel-lab")
PREFIX = Path(__file__).resolve().parent / "prefix"


def program() -> Path:
    """The path of the command `keel`."""
    return PREFIX / "bin" / "keel"


def run(*words: Union[str, "os.PathLike[str]"]) -> str:
    """Runs a command of keel and returns its output. Its error is the text that keel prints."""
    command: List[str] = [str(program()), *(os.fspath(word) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"{' '.join(command)} failed")
    return done.stdout
