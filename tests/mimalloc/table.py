#!/usr/bin/env python3
"""The table of mimalloc's names: what each is in Keel, and which test uses it.

    table.py SOURCES           checks docs/reference/mimalloc-names.md, and that no name is missing anywhere
    table.py SOURCES --write   writes it

The names are those of mimalloc 1.6.3's header (names-1.6.3.txt), and those of later ones that Keel has
(names-later.txt). What each is comes from keel/mimalloc.h itself.
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

Every name of mimalloc 1.6.3's header, what it is in [keel/mimalloc.h](../../in_process/include/keel/mimalloc.h), and
the test in [tests/mimalloc](../../tests/mimalloc) that uses it. How to build a program with it is in
[linking](../guide/linking.md#programs-written-for-mimalloc). Written and checked by `tests/mimalloc/table.py`.

"""

OF_LATER = """
## Names that mimalloc 2 and 3 have added

Those of which Keel has the thing; their options under names that were changed, too. There are none of sub-processes, of
mimalloc 3's theaps and of its sampled guards.

"""

HEAD = """| name | is | test |
| --- | --- | --- |
"""


def declarations():
    """Each name with what it is: the functions of Keel that it calls, or its text; and the remark above it."""
    found = {}
    for path in HEADERS:
        for section in headers.sections(path):
            for entry in section.entries:
                remark = " ".join(entry.comment.split()) if len(entry.declarations) == 1 else ""
                for item in entry.declarations:
                    found.setdefault(item.name, (meaning(item), remark))
    text = "".join(path.read_text() for path in HEADERS)
    for match in re.finditer(r"^ +(_?mi_option_\w+)(?: = (\w+))?", text, re.M):
        found.setdefault(match.group(1), (f"`{match.group(2) or 17}`", ""))
    for match in re.finditer(r"^(?:typedef )?(?:struct|enum) (mi_\w+)", text, re.M):
        found.setdefault(match.group(1), ("a type of the same form", ""))
    return found


def meaning(item):
    if item.kind == "macro":
        body = re.sub(r"#define \w+(\([^)]*\))?", "", item.text.replace("\\\n", " ")).strip()
        called = re.findall(r"\bmi_\w+", body)
        return f"`{called[0]}`" if called else (f"`{' '.join(body.split())}`" if body.strip() else "nothing")
    if item.kind == "type":
        match = re.match(r"typedef (kl_\w+) ", item.text)
        return f"`{match.group(1)}`" if match else "a type of the same form"
    called = re.findall(r"\b(?:kl_|mi_)\w+|keel::new_\w+|keel::renew_\w+", item.text.split("{", 1)[1])
    called = [name for name in dict.fromkeys(called) if not name.endswith("_t")]
    return ", ".join(f"`{name}`" for name in called)


def uses():
    """Each name with the first test that it stands in."""
    found = {}
    for name in TESTS:
        parts = re.split(r"^TEST(?:_DIES)?\((\w+)", (HERE / name).read_text(), flags=re.M)
        # What stands before a test belongs to it.
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
        told = ". ".join(part.rstrip(".") for part in (means, remark) if part)
        return f"| `{name}` | {told} | {used.get(name, '')} |\n"

    later = [d.name for s in headers.sections(HEADERS[-1]) for e in s.entries for d in e.declarations]
    missing += [f"{name} is not in names-later.txt" for name in later if name.startswith("mi_") and name not in LATER]
    page = INTRODUCTION + HEAD + "".join(map(row, NAMES)) + OF_LATER + HEAD + "".join(map(row, LATER))
    if "--write" in sys.argv:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        missing.append(f"{PAGE.name} is out of date: tests/mimalloc/table.py . --write")
    for line in missing:
        print("FAIL", line)
    print(f"{2 * len(NAMES + LATER) + 1 - len(missing)} passed, {len(missing)} failed, 0 skipped")
    sys.exit(bool(missing))


main()
