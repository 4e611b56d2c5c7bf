#!/usr/bin/env python3
"""The reference reader of journal files, independent of Keel's own code: see FORMAT.md.

    reader.py FILE            rows as text, after checking every checksum and rule
    reader.py --origins FILE  module and stack of each row
    reader.py --metadata FILE the metadata as JSON

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
ORIGIN_COLUMNS = ["module", "stack"]  # older files lack them
TOLD_COLUMNS = ["told", "told_size", "told_align"]  # likewise
TOLD = [None, "sized", "aligned", "aligned_sized"]  # told, without its 4


def open_journal(path):
    """The Parquet file and its metadata, checksums verified."""
    file = parquet.ParquetFile(path)
    entries = file.metadata.metadata or {}
    if b"keel.journal" not in entries:
        raise ValueError("no journal: the footer lacks keel.journal")
    text = entries[b"keel.journal"]
    metadata = json.loads(text)
    if metadata["version"] > 1:
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
            numbers = (column.num_values, column.total_compressed_size, column.data_page_offset, dictionary)
            layout += struct.pack("<4q", *numbers)
    assert zlib.crc32(text) == checksums["metadata"], "the metadata is damaged"
    assert zlib.crc32(layout) == checksums["layout"], "the footer is damaged"
    assert len(checksums["row_groups"]) == footer.num_row_groups, "a row group has no checksum"
    with open(path, "rb") as raw:
        for index, group in enumerate(checksums["row_groups"]):
            raw.seek(group["offset"])
            assert zlib.crc32(raw.read(group["length"])) == group["crc32"], f"row group {index} is damaged"


def rows(file):
    """Dictionaries with the columns of FORMAT.md; op by name, begin filled in, None for the other nulls."""
    optional = ORIGIN_COLUMNS + TOLD_COLUMNS
    present = [name for name in optional if name in file.schema_arrow.names]
    for batch in file.iter_batches(columns=COLUMNS + present):
        for row in batch.to_pylist():
            row = dict.fromkeys(optional) | row
            row["op"] = OPERATIONS[row["op"]]
            row["begin"] = row["time"] if row["begin"] is None else row["begin"]
            yield row


def verified(rows_of_file, metadata):
    """The same rows; fails at the first that breaks a rule."""
    live, created, last = {}, 0, 0
    for number, row in enumerate(rows_of_file):
        op, released = row["op"], row["released"]
        assert last <= row["time"] and row["begin"] <= row["time"], f"row {number}: time"
        last = row["time"]
        assert row["begin"] == row["time"] or op == "realloc", f"row {number}: begin"
        assert released is not None if op == "free" else released is None or op == "realloc", f"row {number}: released"
        asked = None
        if released is not None:
            assert released in live, f"row {number}: object {released} is not live"
            asked = live.pop(released)
        verify_told(number, row, asked)
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
        assert row["frame"] == sum(mark <= row["begin"] for mark in metadata["frames"]), f"row {number}: frame"
        yield row


def verify_told(number, row, asked):
    """Only frees tell anything, and the values are there exactly where they are not what was asked for."""
    told, size, align = (row[name] for name in TOLD_COLUMNS)
    assert told is None or row["op"] == "free" and told in (1, 2, 3, 5, 6, 7), f"row {number}: told"
    wrong = told is not None and told >= 4
    assert (size is not None) == (wrong and told & 1 > 0), f"row {number}: told_size"
    assert (align is not None) == (wrong and told & 2 > 0), f"row {number}: told_align"
    if wrong:
        assert size not in (None, asked[0]) or align != asked[1], f"row {number}: it told what is so"


def operation(row):
    """The operation with what a free told, and behind a mark the size and the alignment that are not so."""
    if row["told"] is None:
        return row["op"]
    wrong = [str(row[name]) if row[name] is not None else "-" for name in TOLD_COLUMNS[1:]]
    return row["op"] + "_" + TOLD[row["told"] & 3] + ("!" + ":".join(wrong) if row["told"] >= 4 else "")


def main(arguments):
    file, metadata = open_journal(arguments[-1])
    if "--metadata" in arguments:
        print(json.dumps(metadata, indent=1, sort_keys=True, ensure_ascii=False))
        return
    columns = ORIGIN_COLUMNS if "--origins" in arguments else COLUMNS
    for row in verified(rows(file), metadata):
        row["op"] = operation(row)
        print(" ".join("-" if row[name] is None else str(row[name]) for name in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
