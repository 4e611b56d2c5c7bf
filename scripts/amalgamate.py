#!/usr/bin/env python3
"""Writes all of libkeel as two files, keel.c and keel.h, for programs that want to compile it with their own.

    amalgamate.py FOLDER

The files stand in the order of the layers. Names that are local to two files are told apart by the file's name; those
that are known between files get the prefix keel_internal_, so that a program's own cannot meet them. Needs a C
compiler (environment CC, default cc) and nm: what is known between files is read from the compiled text.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import headers  # noqa: E402

SOURCES = headers.PUBLIC.parent.parent
LAYERS = ["base", "os", "allocator/arena", "allocator/page", "allocator/heap", "allocator/alloc", "allocator/keeper",
          "allocator/api"]
OVERRIDING = {"override.c", "new_delete.c"}
# The functions that the library shows; what else is in its headers is for C++, or for other libraries.
PUBLIC = [path for path in sorted(headers.PUBLIC.glob("*.h"), key=lambda path: (path.name != "keel.h", path.name))
          if headers.exported(path) and path.name != "recorder.h"]
LICENSE = (SOURCES.parent / "LICENSE").read_text()

# Comments, strings and members whole, else single words.
TOKEN = re.compile(r"""/\*.*?\*/|//[^\n]*"""
                   r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
                   r"""|(?:\.|->)\s*\w+|\w+""", re.S)

INTRODUCTION = """\
/* All of Keel in one file: see keel.h for what it offers. Made by scripts/amalgamate.py from Keel {version}.
 *
 *     cc -O2 -c keel.c
 *
 * -DKEEL_OVERRIDE=1 also makes malloc and its family, and the C++ operators new and delete, Keel's.
{license} */
"""
SWITCHES = """#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
""" + "".join(f"#ifndef {name}\n#define {name} 0\n#endif\n"
              for name in ("KEEL_OVERRIDE", "KEEL_SECURE", "KEEL_DEBUG", "KEEL_COUNT"))
SWITCHES += """#if KEEL_SECURE || KEEL_DEBUG
#error "KEEL_SECURE and KEEL_DEBUG are names kept for flavours of Keel that do not exist yet: compile without them"
#endif
"""


def commented(text):
    return "".join(f" * {line}".rstrip() + "\n" for line in ["", *text.strip().splitlines()]).rstrip("\n")


def rename(text, names):
    """Replaces identifiers, but no members, words of comments or parts of strings."""
    return TOKEN.sub(lambda match: names.get(match.group(0), match.group(0)), text)


def local_names(text):
    """What a source file names at file scope for itself, and its macros."""
    names = set(re.findall(r"^(?:static|struct|enum|typedef)\b[^=;{(]*?\b(\w+)(?:\[[^\]]*\])*\s*(?:[=;({]|$)",
                           text, re.M))
    names |= set(re.findall(r"^typedef [^;]*?\b(\w+)(?:\([^;]*\))?;", text, re.M))
    names |= set(re.findall(r"^\} (\w+)(?:\[[^\]]*\])*(?: =|;)", text, re.M))
    names -= {"struct", "enum"}
    return names, set(re.findall(r"^#define (\w+)", text, re.M))


class Amalgamation:
    def __init__(self):
        self.system = []
        self.included = set()

    def expanded(self, text):
        """The text with our headers in the place of their first #include, and without the system's, which are kept."""
        def replaced(match):
            ours, system = match.group(1), match.group(2)
            if system is not None:
                self.system.append(system)
                return ""
            if ours.startswith("keel/") or ours in self.included:
                return ""
            self.included.add(ours)
            return f"// --- {ours}\n" + self.expanded((SOURCES / ours).read_text())
        return re.sub(r'^#include (?:"([^"]+)"|<([^>]+)>)[^\n]*\n', replaced, text, flags=re.M)

    def source(self, path, clashing):
        text = path.read_text()
        _, macros = local_names(text)
        heads = "".join(re.findall(r'^#include [^\n]*\n', text, re.M))
        body = re.sub(r'^#include [^\n]*\n', "", text, flags=re.M)
        body = rename(body, {name: f"{name}_in_{path.stem}" for name in clashing})
        heads = self.expanded(heads)
        undone = "".join(f"#undef {macro}\n" for macro in sorted(macros))
        body = f"\n// ----- {path.relative_to(SOURCES)}\n{body}{undone}"
        if path.name in OVERRIDING:
            body = f"#if KEEL_OVERRIDE\n{body}#endif\n"
        return heads + body

    def text(self):
        paths = [path for layer in LAYERS for path in sorted((SOURCES / layer).glob("*.c"))]
        paths.sort(key=lambda path: path.name in OVERRIDING)
        owners = collections.defaultdict(set)
        for path in paths:
            for name in local_names(path.read_text())[0]:
                owners[name].add(path)
        body = "".join(self.source(path, [n for n, files in owners.items() if path in files and len(files) > 1])
                       for path in paths)
        system = "".join(f"#include <{name}>\n" for name in sorted(set(self.system)))
        return system, body


def public_header():
    text = "".join(path.read_text() + "\n" for path in PUBLIC)
    text = re.sub(r'^#include "keel/[^\n]*\n', "", text, flags=re.M)
    return text.rstrip("\n") + "\n"


def shared_names(folder, text):
    """The names that a compiled text shows and a user is not meant to see."""
    compiler = os.environ.get("CC", "cc")
    (folder / "keel.c").write_text(text)
    subprocess.run([compiler, "-w", "-c", "keel.c", "-o", "keel.o"], cwd=folder, check=True)
    shown = subprocess.run(["nm", "--extern-only", "--defined-only", "--format=posix", "keel.o"], cwd=folder,
                           check=True, capture_output=True, text=True).stdout
    names = [line.split()[0] for line in shown.splitlines()]
    return sorted(name for name in names if not name.startswith("kl_"))


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: amalgamate.py FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    header = public_header()
    version = ".".join(re.findall(r"KEEL_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    begin = INTRODUCTION.format(version=version, license=commented(LICENSE)) + SWITCHES
    system, body = Amalgamation().text()
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "keel.h").write_text(header)
        names = shared_names(Path(scratch), begin + system + '#include "keel.h"\n' + body)
    hidden = "".join(f"#define {name} keel_internal_{name}\n" for name in names)
    (folder / "keel.h").write_text(header)
    (folder / "keel.c").write_text(begin + system + '#include "keel.h"\n\n' + hidden + "\n" + body)


main()
