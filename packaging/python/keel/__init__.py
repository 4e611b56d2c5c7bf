"""Reads what the command `keel` writes, as data frames.

    journal = keel.Journal("game.journal.parquet")    # written by `keel record`
    journal.frame()                                   # a row for each operation
    results = keel.Results("results")                 # written by `keel compare`
    results.percentiles()                             # a row for each allocator and operation
    results.calls()                                   # a row for each measured call
    results.plot("memory")                            # a picture, shown by a notebook

Every frame is one of polars, pandas or pyarrow: `engine` names it, otherwise it is the first of
these that is installed. Times are in ns and sizes in bytes.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

from ._program import VERSION as __version__
from ._program import PREFIX, program, run

__all__ = ["ENGINES", "OPERATIONS", "Journal", "Picture", "Results", "__version__", "library",
           "program"]

PathLike = Union[str, "os.PathLike[str]"]

#: The libraries that can hold a frame, in the order in which they are tried.
ENGINES: Tuple[str, ...] = ("polars", "pandas", "arrow")

#: The names of the column `op` of a journal.
OPERATIONS: Tuple[str, ...] = (
    "malloc", "free", "calloc", "realloc", "aligned", "foreign_free", "foreign_realloc",
)


def library(flavour: str = "") -> Path:
    """The path of the allocator, for LD_PRELOAD; the flavours are "secure" and "debug"."""
    return PREFIX / "lib" / f"libkeel{'-' * bool(flavour)}{flavour}.so"


def _engine(name: Optional[str]) -> str:
    if name is not None:
        if name not in ENGINES:
            raise ValueError(f"there is no engine {name!r}; use one of {', '.join(ENGINES)}")
        return name
    for candidate in ENGINES:
        try:
            __import__("pyarrow" if candidate == "arrow" else candidate)
        except ImportError:
            continue
        return candidate
    raise ImportError("a data frame needs polars, pandas with pyarrow, or pyarrow: "
                      "pip install polars")


def _read_parquet(path: PathLike, engine: Optional[str], columns: Optional[List[str]]) -> Any:
    chosen = _engine(engine)
    if chosen == "polars":
        import polars

        return polars.read_parquet(os.fspath(path), columns=columns)
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(os.fspath(path), columns=columns)
    return table if chosen == "arrow" else table.to_pandas()


def _of_columns(columns: Dict[str, List[Any]], engine: Optional[str]) -> Any:
    chosen = _engine(engine)
    if chosen == "polars":
        import polars

        return polars.DataFrame(columns)
    if chosen == "pandas":
        import pandas

        return pandas.DataFrame(columns)
    import pyarrow

    return pyarrow.table(columns)


class Picture:
    """A picture as SVG, which notebooks show."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: PathLike) -> None:
        """Writes the SVG to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")


class Journal:
    """A recording that `keel record` or `keel import` has written.

    >>> journal = Journal(sample)
    >>> journal.metadata["version"]
    1
    >>> frame = journal.frame(engine="arrow")
    >>> frame.num_rows == journal.info()["facts"]["operations"]
    True
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no journal {self.path}")

    @property
    def metadata(self) -> Dict[str, Any]:
        """The program, its threads, modules, frame marks and call stacks (journal/FORMAT.md)."""
        text = _footer(self.path, "keel.journal")
        if text is None:
            raise ValueError(f"{self.path} is not a journal: its footer has no entry keel.journal")
        result: Dict[str, Any] = json.loads(text)
        return result

    def info(self) -> Dict[str, Any]:
        """What `keel info --json` prints."""
        result: Dict[str, Any] = json.loads(run("info", "--json", self.path))
        return result

    def frame(self, engine: Optional[str] = None, columns: Optional[List[str]] = None) -> Any:
        """A row for each operation. The columns are those of journal/FORMAT.md; OPERATIONS has the
        names of `op`."""
        return _read_parquet(self.path, engine, columns)

    def live(self, engine: Optional[str] = None) -> Any:
        """The live bytes after each operation: the columns `time` and `live`.

        >>> live = Journal(sample).live(engine="arrow")
        >>> max(live["live"].to_pylist()) == Journal(sample).info()["facts"]["live_peak"]["bytes"]
        True
        """
        events = self.frame("arrow", ["time", "size", "created", "released"]).to_pydict()
        sizes: Dict[int, int] = {}
        live, total = [], 0
        for size, created, released in zip(events["size"], events["created"], events["released"]):
            if released is not None:
                total -= sizes.pop(released)
            if created is not None:
                sizes[created] = size
                total += size
            live.append(total)
        return _of_columns({"time": events["time"], "live": live}, engine)


class Results:
    """A folder that `keel compare` has written.

    >>> results = Results(folder)
    >>> sorted(set(results.percentiles(engine="arrow")["allocator"].to_pylist()))
    ['glibc', 'keel', 'null']
    >>> results.plot("percentiles").svg.startswith("<svg")
    True
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise FileNotFoundError(f"there is no folder {self.path}")

    def summary(self) -> Dict[str, Any]:
        """What `keel export --to json` writes."""
        result: Dict[str, Any] = json.loads(self._export("json"))
        return result

    def percentiles(self, engine: Optional[str] = None) -> Any:
        """A row for each allocator and operation, over all runs: `allocator`, `operation`, `count`,
        `mean_ns`, and the percentiles `p50_ns` to `worst_ns`."""
        rows: List[Dict[str, Any]] = []
        for allocator in self.summary()["allocators"]:
            for name, operation in allocator["operations"].items():
                row = {"allocator": allocator["name"], "operation": name,
                       "count": operation["count"], "mean_ns": operation["mean_ns"]}
                for percentile, value in operation["latency_ns"].items():
                    row[percentile + "_ns"] = value and value.get("all_runs")
                rows.append(row)
        names = list(dict.fromkeys(name for row in rows for name in row))
        return _of_columns({name: [row.get(name) for row in rows] for name in names}, engine)

    def calls(self, engine: Optional[str] = None) -> Any:
        """A row for each measured call: `allocator`, `operation`, `size`, `thread`, `frame`,
        `start`, `duration` (ns) and `cause`."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "calls.parquet"
            run("export", self.path, "--to", "parquet", "-o", file)
            return _read_parquet(file, engine, None)

    def plot(self, view: str = "density", **options: Any) -> Picture:
        """A picture as `keel plot` draws it; the options are those of that command, for example
        `operation="free"`, `dark=True`, `allocators="keel,glibc"`."""
        words: List[PathLike] = []
        for name, value in options.items():
            option = "--" + name.replace("_", "-")
            words += [option] if value is True else [option, str(value)]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "plot.svg"
            run("plot", self.path, "--view", view, "-o", file, *words)
            return Picture(file.read_text(encoding="utf-8"))

    def _export(self, form: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "exported"
            run("export", self.path, "--to", form, "-o", file)
            return file.read_text(encoding="utf-8")


def _footer(path: Path, key: str) -> Optional[str]:
    """An entry of the key-value metadata of a Parquet file."""
    try:
        import pyarrow.parquet

        entries = pyarrow.parquet.read_metadata(path).metadata or {}
        found = entries.get(key.encode())
        return None if found is None else found.decode()
    except ImportError:
        import polars

        return polars.read_parquet_metadata(path).get(key)
