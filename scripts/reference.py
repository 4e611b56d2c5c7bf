#!/usr/bin/env python3
"""The reference page of the public headers, written from what they say themselves.

    reference.py             writes docs/reference/api.md
    reference.py --check     fails if the page is not what this would write, or a declaration has no words
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import headers  # noqa: E402

PAGE = headers.PUBLIC.parents[2] / "docs" / "reference" / "api.md"
FIRST = ["keel.h", "heap.h", "arena.h", "runtime.h", "keel.hpp", "new.hpp", "keel-new-delete.h", "keel-override.h",
         "recorder.h", "mimalloc.h"]
# Of these the head says it all: the rest are names that others have documented.
ONLY_HEAD = {"keel-new-delete.h", "keel-override.h", "mimalloc.h", "mimalloc-heaps.h", "mimalloc-later.h",
             "mimalloc-options.h"}

INTRODUCTION = """# Reference of the headers

Every function, type and macro that libkeel offers, with what its header says of it. Written from the headers by
`scripts/reference.py`; `make check` fails where it is not up to date. [Linking](../guide/linking.md) says how to use
them, [mimalloc's names](mimalloc-names.md) what those of mimalloc are here, [faults](faults.md) what ends a program.

"""


def public_headers():
    """All of them, those that most users need first."""
    return sorted(headers.PUBLIC.glob("*.h*"),
                  key=lambda path: (FIRST.index(path.name) if path.name in FIRST else len(FIRST), path.name))


def prose(text):
    """A comment as Markdown: what is indented by four is code, stars and angles are themselves."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("    "):
            line = re.sub(r"<(?=\w)", r"\<", re.sub(r"\*(?=[\w`])", r"\*", line))
        lines.append(line)
    text = "\n".join(lines)
    # A list or a piece of code stands apart from the text before it.
    text = re.sub(r"(?m)^(?! *- |    |$)(.*)\n(?= *- )", r"\1\n\n", text)
    return re.sub(r"(?m)^(?! *- |    |$)(.*)\n(?=    )", r"\1\n\n", text)


def code(item):
    """A declaration without what only compilers read, and without bodies."""
    text = re.sub(r"KEEL_API_\w+\((?:[^()]|\([^()]*\))*\)\s*|KEEL_API\s+| KEEL_NOEXCEPT|\[\[nodiscard\]\] ?", "",
                  item.text)
    if item.kind == "function":
        text = re.sub(r"\s*\{.*\}$", ";", text, flags=re.S) if "{" in text else text
        return re.sub(r"\s+", " ", text)
    if re.match(r"(template <.*?> )?class", text):
        return class_outline(text)
    return text


def class_outline(text):
    """The public members of a class, without their bodies and what constructors begin with."""
    text = re.sub(r"\n *private:.*\};", "\n};", text, flags=re.S)
    head, rest = text.split("{", 1)
    kept, depth = [], 0
    for mark in re.split(r"([{}])", rest[:rest.rindex("}")]):
        depth += (mark == "{") - (mark == "}")
        if depth == 0 and mark == "}":
            kept.append(";")
        elif depth == 0:
            kept.append(re.sub(r"(\)(?: noexcept)?) : [^;]*$", r"\1", mark).rstrip(" "))
    members = re.sub(r"\n{2,}", "\n", "".join(kept).replace(";;", ";").replace(" ;", ";"))
    return f"{head.strip()} {{{members.rstrip()}\n}};"


def section_of(section):
    parts = [f"### {section.title}\n"] if section.title else []
    for entry in section.entries:
        if entry.declarations:
            parts.append("```c\n" + "\n".join(code(item) for item in entry.declarations) + "\n```\n")
        if entry.comment:
            parts.append(prose(entry.comment) + "\n")
    return "\n".join(parts)


def page():
    paths = public_headers()
    text = INTRODUCTION + "| header | has |\n| --- | --- |\n"
    for path in paths:
        first = headers.sections(path)[0].entries[0].comment.split("\n\n")[0]
        sentence = re.split(r"(?<=\.)\s", " ".join(first.split()))[0].rstrip(".:")
        sentence = sentence.removeprefix(f"keel/{path.name}: ")
        sentence = sentence[0].upper() + sentence[1:]
        slug = re.sub(r"[^\w-]", "", f"keel{path.name}")
        text += f"| [keel/{path.name}](#{slug}) | {sentence} |\n"
    for path in paths:
        sections = headers.sections(path)
        sections = [headers.Section("", sections[0].entries[:1])] if path.name in ONLY_HEAD else sections
        body = "\n".join(part for part in map(section_of, sections) if part)
        text += f"\n## keel/{path.name}\n\n{body}"
    return re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n"


def without_words(path):
    """Declarations that neither their own comment nor their section's first paragraph is about."""
    for section in headers.sections(path)[0 if path.name in ONLY_HEAD else 1:]:
        told = any(entry.comment and not entry.declarations for entry in section.entries) or section.title
        for entry in section.entries:
            if not entry.comment and not told:
                yield from (f"{path.name}: {item.name} has no words" for item in entry.declarations)


def main():
    text = page()
    if sys.argv[1:] == ["--check"]:
        faults = [fault for path in public_headers() for fault in without_words(path)]
        if not PAGE.exists() or PAGE.read_text() != text:
            faults.append(f"{PAGE.name} is not what the headers say now: run scripts/reference.py")
        sys.exit("\n".join(faults) or 0)
    PAGE.write_text(text)


main()
