#!/usr/bin/env python3
"""The table of mimalloc's names: the counterpart of each in Keel, and the test that uses it.

    table.py SOURCES           checks docs/reference/mimalloc-names.md and that no name is missing
    table.py SOURCES --write   writes it

The names are those of mimalloc 1.6.3's header (names-1.6.3.txt) and those of later versions that
Keel has (names-later.txt). The counterparts are read from keel/mimalloc.h.
"""
import re
import sys
from pathlib import Path

sources = Path(sys.argv[1])
sys.path.insert(0, str(sources / "scripts"))
import headers  # noqa: E402

HERE = Path(__file__).resolve().parent
PAGE = sources / "docs" / "reference" / "mimalloc-names.md"
NAMES = (HERE / "names-1.6.3.txt").read_text().split()
LATER = (HERE / "names-later.txt").read_text().split()
HEADERS = [headers.PUBLIC / f"mimalloc{part}.h" for part in ("", "-heaps", "-options", "-later")]
TESTS = ["names.c", "heaps.c", "names.cpp", "later.c", "later.cpp"]

INTRODUCTION = """# The names of mimalloc 1.6.3

For every name in the header of mimalloc 1.6.3: its counterpart in
[keel/mimalloc.h](../../in_process/include/keel/mimalloc.h) and the test in
[tests/mimalloc](../../tests/mimalloc) that uses it.
[Linking](../guide/linking.md#programs-written-for-mimalloc) describes how to build a program with
it. This page is generated and checked by `tests/mimalloc/table.py`.

Keel also reads the options' names from the environment (`MIMALLOC_SHOW_STATS=1`). An empty value is
1 for mimalloc. For Keel it is invalid: Keel reports it and uses the default.

"""

OF_LATER = """
## Names that mimalloc 2 and 3 have added

Names for which Keel has a counterpart, including options that were renamed. Names for
sub-processes, for mimalloc 3's theaps and for sampled guards do not exist.

"""

HEAD = """| name | counterpart | test |
| --- | --- | --- |
"""


def declarations():
    """For each name, the Keel functions that it calls or its text, and the comment above it."""
    found = {}
    for path in HEADERS:
        for section in headers.sections(path):
            for entry in section.entries:
                remark = " ".join(entry.comment.split()) if len(entry.declarations) == 1 else ""
                for item in entry.declarations:
                    found.setdefault(item.name, (meaning(item), remark))
    text = "".join(path.read_text() for path in HEADERS)
    for match in re.finditer(r"^ +(_?mi_option_\w+)(?: = (\w+))?", text, re.M):
        value = match.group(2) or "17"
        remark = "An option without effect in Keel" if value.isdigit() and match.group(2) else ""
        found.setdefault(match.group(1), (f"`{value}`", remark))
    for match in re.finditer(r"^(?:typedef )?(?:struct|enum) (mi_\w+)", text, re.M):
        found.setdefault(match.group(1), ("a type with the same members", ""))
    return found


def meaning(item):
    if item.kind == "macro":
        body = re.sub(r"#define \w+(\([^)]*\))?", "", item.text.replace("\\\n", " ")).strip()
        called = re.findall(r"\bmi_\w+", body)
        body = " ".join(body.split())
        return f"`{called[0]}`" if called else (f"`{body}`" if body else "empty")
    if item.kind == "type":
        match = re.match(r"typedef (kl_\w+) ", item.text)
        return f"`{match.group(1)}`" if match else "a type with the same members"
    called = re.findall(r"\b(?:kl_|mi_)\w+|keel::new_\w+|keel::renew_\w+",
                        item.text.split("{", 1)[1])
    called = [name for name in dict.fromkeys(called) if not name.endswith("_t")]
    return ", ".join(f"`{name}`" for name in called)


def uses():
    """For each name, the first test that uses it."""
    found = {}
    for name in TESTS:
        parts = re.split(r"^TEST(?:_DIES)?\((\w+)", (HERE / name).read_text(), flags=re.M)
        # Code between two tests belongs to the second.
        before = parts[0]
        for test, text in zip(parts[1::2], parts[2::2]):
            body, _, after = text.partition("\n}\n")
            for word in re.findall(r"\w+", before + body):
                found.setdefault(word, f"{name}: {test}")
            before = after
    return found


def main():
    declared, used, missing = declarations(), uses(), []

    def row(name):
        means, remark = declared.get(name, ("", ""))
        if name not in declared:
            missing.append(f"{name} is not in keel/mimalloc.h")
        if name not in used:
            missing.append(f"{name} is in no test")
        text = ". ".join(part.rstrip(".") for part in (means, remark) if part)
        return f"| `{name}` | {text} | {used.get(name, '')} |\n"

    later = [item.name for section in headers.sections(HEADERS[-1])
             for entry in section.entries for item in entry.declarations]
    missing += [f"{name} is not in names-later.txt" for name in later
                if name.startswith("mi_") and name not in LATER]
    page = INTRODUCTION + HEAD + "".join(map(row, NAMES))
    page += OF_LATER + HEAD + "".join(map(row, LATER))
    if "--write" in sys.argv:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        missing.append(f"{PAGE.name} is out of date: tests/mimalloc/table.py . --write")
    for line in missing:
        print("FAIL", line)
    print(f"{2 * len(NAMES + LATER) + 1 - len(missing)} passed, {len(missing)} failed, 0 skipped")
    sys.exit(bool(missing))


main()
