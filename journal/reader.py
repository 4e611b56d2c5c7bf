#!/usr/bin/env python3
"""The reference reader of journal files (FORMAT.md), independent of Keel's own code.

    reader.py FILE            checks every checksum and rule, and prints the rows as text
    reader.py --origins FILE  prints the module and the stack of each row
    reader.py --calls FILE    prints the calls of each row's stack, the innermost first
    reader.py --metadata FILE prints the metadata as JSON

Needs pyarrow: python3 -m venv build/venv && build/venv/bin/pip install pyarrow
"""
import json
import struct
import sys
import zlib

import pyarrow.parquet as parquet

OPERATIONS = ["malloc", "free", "calloc", "realloc", "aligned", "foreign_free", "foreign_realloc"]
CREATES = {"malloc", "calloc", "realloc", "aligned", "foreign_realloc"}
COLUMNS = ["time", "begin", "thread", "op", "size", "align", "created", "released", "frame"]
ORIGIN_COLUMNS = ["module", "stack"]
HINT_COLUMNS = ["free_hint", "hint_size", "hint_align"]
WRONG = 4  # bit of free_hint
SUFFIXES = [None, "sized", "aligned", "aligned_sized"]  # by free_hint without WRONG


def open_journal(path):
    """The Parquet file and its metadata, checksums verified."""
    file = parquet.ParquetFile(path)
    entries = file.metadata.metadata or {}
    if b"keel.journal" not in entries:
        raise ValueError("not a journal: the footer has no keel.journal entry")
    text = entries[b"keel.journal"]
    metadata = json.loads(text)
    if metadata["version"] > 2:
        raise ValueError(f"version {metadata['version']} is later than this reader")
    if b"keel.checksums" in entries:
        verify_checksums(path, file.metadata, text, json.loads(entries[b"keel.checksums"]))
    return file, metadata


def verify_checksums(path, footer, text, checksums):
    layout = b""
    for group in map(footer.row_group, range(footer.num_row_groups)):
        layout += struct.pack("<q", group.num_rows)
        for column in map(group.column, range(group.num_columns)):
            dictionary = column.dictionary_page_offset or 0
            sizes = (column.num_values, column.total_compressed_size)
            numbers = (*sizes, column.data_page_offset, dictionary)
            layout += struct.pack("<4q", *numbers)
    assert zlib.crc32(text) == checksums["metadata"], "the metadata is damaged"
    assert zlib.crc32(layout) == checksums["layout"], "the footer is damaged"
    assert len(checksums["row_groups"]) == footer.num_row_groups, "a row group has no checksum"
    with open(path, "rb") as raw:
        for index, group in enumerate(checksums["row_groups"]):
            raw.seek(group["offset"])
            checksum = zlib.crc32(raw.read(group["length"]))
            assert checksum == group["crc32"], f"row group {index} is damaged"


def rows(file):
    """Yields a dictionary of the columns of FORMAT.md for each row.

    "op" is the name; "begin" is filled in; the other nulls are None.
    """
    for batch in file.iter_batches(columns=COLUMNS + ORIGIN_COLUMNS + HINT_COLUMNS):
        for row in batch.to_pylist():
            row["op"] = OPERATIONS[row["op"]]
            row["begin"] = row["time"] if row["begin"] is None else row["begin"]
            yield row


def verified(rows_of_file, metadata):
    """Yields the same rows; fails at the first that breaks a rule."""
    live, created, last = {}, 0, 0
    for number, row in enumerate(rows_of_file):
        op, released = row["op"], row["released"]
        assert last <= row["time"] and row["begin"] <= row["time"], f"row {number}: time"
        last = row["time"]
        assert row["begin"] == row["time"] or op == "realloc", f"row {number}: begin"
        may_release = released is not None if op == "free" else released is None or op == "realloc"
        assert may_release, f"row {number}: released"
        requested = None
        if released is not None:
            assert released in live, f"row {number}: object {released} is not live"
            requested = live.pop(released)
        verify_hint(number, row, requested)
        created += op in CREATES
        assert row["created"] == (created if op in CREATES else None), f"row {number}: created"
        if op in CREATES:
            live[created] = row["size"], row["align"]
        assert op in CREATES or row["size"] == 0, f"row {number}: size"
        assert (row["align"] is not None) == (op == "aligned"), f"row {number}: align"
        assert row["thread"] < len(metadata["threads"]), f"row {number}: thread"
        stacks = metadata.get("stacks", {}).get("nodes", [])
        for name, listed in ("module", metadata.get("modules", [])), ("stack", stacks):
            assert row[name] is None or row[name] < len(listed), f"row {number}: {name}"
        frame = sum(mark <= row["begin"] for mark in metadata["frames"])
        assert row["frame"] == frame, f"row {number}: frame"
        yield row


def verify_hint(number, row, requested):
    """Only frees have hints. The values are set exactly where they differ from the request."""
    hint, size, align = (row[name] for name in HINT_COLUMNS)
    valid = hint is None or row["op"] == "free" and hint in (1, 2, 3, 5, 6, 7)
    assert valid, f"row {number}: free_hint"
    wrong = hint is not None and hint >= WRONG
    assert (size is not None) == (wrong and hint & 1 > 0), f"row {number}: hint_size"
    assert (align is not None) == (wrong and hint & 2 > 0), f"row {number}: hint_align"
    if wrong:
        differs = size not in (None, requested[0]) or align != requested[1]
        assert differs, f"row {number}: the hint is correct but marked as wrong"


def stack_names(metadata):
    """The names of each site's calls. They are in the order of the sites, innermost call first."""
    stacks, modules = metadata.get("stacks", {}), metadata.get("modules", [])
    names = [[] for _ in stacks.get("sites", [])]
    last = 0
    for call in stacks.get("names", []):
        site, module = call.get("site", 0), call.get("module")
        assert last <= site < len(names), f"the name of site {site} is out of order"
        assert module is None or module < len(modules), f"site {site}: module {module}"
        file = "" if module is None else modules[module]["path"].rsplit("/", 1)[-1]
        place = f" ({call['file']}:{call.get('line', 0)})" if "file" in call else ""
        names[site].append(call.get("function", file) + place)
        last = site
    for (module, offset), calls in zip(stacks.get("sites", []), names):
        file = "" if module < 0 else modules[module]["path"].rsplit("/", 1)[-1] + "+"
        calls or calls.append(f"{file}{offset:#x}")
    return names


def calls_of(row, metadata, names):
    """The calls of a row's stack, the innermost first."""
    calls, node = [], row["stack"]
    while node is not None and node >= 0:
        node, site = metadata["stacks"]["nodes"][node]
        calls += names[site]
    return " < ".join(calls) or "-"


def operation(row):
    """The name of the operation with its hint; a wrong hint as "!SIZE:ALIGN" behind it."""
    hint = row["free_hint"]
    if hint is None:
        return row["op"]
    values = ["-" if row[name] is None else str(row[name]) for name in HINT_COLUMNS[1:]]
    wrong = "!" + ":".join(values) if hint >= WRONG else ""
    return row["op"] + "_" + SUFFIXES[hint & ~WRONG] + wrong


def main(arguments):
    file, metadata = open_journal(arguments[-1])
    if "--metadata" in arguments:
        print(json.dumps(metadata, indent=1, sort_keys=True, ensure_ascii=False))
        return
    names = stack_names(metadata)
    columns = ORIGIN_COLUMNS if "--origins" in arguments else COLUMNS
    for row in verified(rows(file), metadata):
        if "--calls" in arguments:
            print(calls_of(row, metadata, names))
            continue
        row["op"] = operation(row)
        print(" ".join("-" if row[name] is None else str(row[name]) for name in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
