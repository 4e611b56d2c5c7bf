"""Reads the declarations of the public headers and their comments.

A header consists of comments, preprocessor lines and declarations. A comment directly above a
declaration documents it and the declarations that follow without an empty line. A comment whose
first line is `--- Title ---` starts a section. Any other comment is a paragraph of its section.
"""
import re
from dataclasses import dataclass, field
from pathlib import Path

PUBLIC = Path(__file__).resolve().parent.parent / "in_process" / "include" / "keel"


@dataclass
class Declaration:
    """One function, type or macro: `kind` is function, type or macro."""
    kind: str
    name: str
    text: str


@dataclass
class Entry:
    """Declarations that share a comment; without declarations, a paragraph of the section."""
    comment: str
    declarations: list = field(default_factory=list)


@dataclass
class Section:
    title: str
    entries: list = field(default_factory=list)


def comment_text(raw):
    lines = [re.sub(r"^\s*\*? ?", "", line) for line in raw.splitlines()]
    return "\n".join(lines).strip()


def pieces(text):
    """Yields (kind, text) in order; kind is comment, note, blank, directive or code.

    Code ends at its `;` or at its closing brace.
    """
    at = 0
    while at < len(text):
        rest = text[at:]
        if match := re.match(r"[ \t]*\n", rest):
            yield "blank", ""
        elif match := re.match(r"\s*/\*(.*?)\*/[ \t]*\n?", rest, re.S):
            yield "comment", match.group(1)
        elif match := re.match(r"\s*//[^\n]*\n", rest):
            yield "note", match.group(0)
        elif match := re.match(r"[ \t]*#(?:[^\n]*\\\n)*[^\n]*\n?", rest):
            yield "directive", match.group(0)
        elif match := re.match(r'\s*(extern "C"|namespace [\w:]+) \{[ \t]*\n', rest):
            yield "blank", ""
        elif match := re.match(r"\s*\}(?: /[/*][^\n]*)?\n", rest):
            yield "blank", ""
        else:
            length = code_length(rest)
            yield "code", rest[:length]
            at += length
            if newline := re.match(r"[ \t]*\n", text[at:]):
                at += newline.end()
            continue
        at += match.end()


def code_length(text):
    """The length of a declaration, up to its `;` or the `}` of a function's body."""
    depth = 0
    for match in re.finditer(r"/\*.*?\*/|//[^\n]*|[{};]", text, re.S):
        mark = match.group(0)
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth -= 1
            tail = text[match.end():]
            if depth == 0 and not re.match(r"\s*(\w+\s*)?;", tail):
                return match.end()
        elif mark == ";" and depth == 0:
            return match.end()
    return len(text)


def declaration(code):
    """The declaration in a piece of code, or None."""
    text = code.strip()
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    head = plain.split("{")[0]
    head = re.sub(r"__attribute__\(\(.*?\)\)|KEEL_API_\w+\([^)]*\)|KEEL_API\w*\b|KEEL_NOEXCEPT",
                  " ", head)
    head = " ".join(head.split())
    if match := re.match(r"(?:template <.*?> ?)?(struct|class|enum|union) (?:\w+\(.*?\) )?(\w+)",
                         head):
        return Declaration("type", match.group(2), text)
    if head.startswith("typedef"):
        return Declaration("type", typedef_name(" ".join(plain.split())), text)
    if match := re.match(r"using (\w+)", head):
        return Declaration("type", match.group(1), text)
    if match := re.search(r"(~?\b\w+|operator\s*\S+)\s*\(", head):
        return Declaration("function", match.group(1), text)
    return None


def typedef_name(text):
    """The name of a typedef: of a pointer to a function, of a function, or else the last word."""
    match = re.search(r"\(\*(\w+)\)", text)
    if not match and "{" not in text:
        match = re.search(r"(\w+)\(", text)
    if match:
        return match.group(1)
    return re.search(r"(\w+);$", text).group(1)


def sections(path):
    """The header's sections. The first has no title and starts with the header's own comment."""
    found = [Section("", [])]
    entry = None
    public = re.sub(r"namespace detail \{.*?\} // namespace detail\n", "", path.read_text(),
                    flags=re.S)
    for kind, text in pieces(public):
        if kind == "comment":
            comment = comment_text(text)
            if match := re.match(r"-+ (.*?)(?: -+)?$", comment.splitlines()[0]):
                found.append(Section(match.group(1).strip(" -")))
                comment = "\n".join(comment.splitlines()[1:]).strip()
            entry = Entry(comment)
            found[-1].entries.append(entry)
        elif kind == "blank":
            entry = None
        elif kind == "directive":
            match = re.match(r"\s*#\s*define (\w+)", text)
            if match is None or re.match(r"KEEL_API|KEEL_NOEXCEPT|\w+_H(PP)?$", match.group(1)):
                continue
            if entry is None:
                entry = Entry("")
                found[-1].entries.append(entry)
            entry.declarations.append(Declaration("macro", match.group(1), text.strip()))
        elif kind == "code" and (declared := declaration(text)) is not None:
            if entry is None:
                entry = Entry("")
                found[-1].entries.append(entry)
            entry.declarations.append(declared)
    return found


def declared(path, kind):
    """The names of declarations of this kind in a header."""
    found = [d for s in sections(path) for e in s.entries for d in e.declarations]
    return [d.name for d in found if d.kind == kind]


def exported(path):
    """The functions that are declared in a header and defined in a library."""
    if path.suffix != ".h":
        return []
    found = [d for s in sections(path) for e in s.entries for d in e.declarations]
    return [d.name for d in found if d.kind == "function" and "{" not in d.text]
