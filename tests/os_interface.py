#!/usr/bin/env python3
"""Checks the interface of in_process/os: os_interface.py ROOT.

- No file of the allocator asks what the system is, or includes a header of a system, but those of
  override/ for one system.
- docs/reference/os-interface.md names each function of os/ that the allocator uses, no other one,
  and states their number, how many of them allocating and freeing use, and how many a new layer
  must define: those that the layer of POSIX defines outside of absent.c.
- The layers of Linux, Windows and POSIX define the same functions of the headers that the allocator
  includes.
"""
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
ALLOCATOR = ROOT / "in_process/allocator"
OS = ROOT / "in_process/os"
SYSTEM = re.compile(r"\b(__linux__|__APPLE__|_WIN32|__FreeBSD__|__NetBSD__|__OpenBSD__|__ANDROID__"
                    r"|__GLIBC__|__unix__|MADV_\w+|PROT_\w+|MAP_[A-Z]\w*|SYS_\w+)\b"
                    r"|#include <(?:sys|linux|asm)/")
CALL = re.compile(r"\b(os_[a-z_]+)\(")
DEFINITION = re.compile(r"^[\w* ]*\b(os_[a-z_]+)\([^;{]*\{", re.M)
# They replace functions that only one system has.
OF_ONE_SYSTEM = {ALLOCATOR / "override/filter.c", *(ALLOCATOR / "override/windows").iterdir(),
                 *(ALLOCATOR / "override/macos").iterdir()}
faults = []


def text_of(path):
    """Without comments and strings."""
    return re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"', "", path.read_text())


def sources(folder, pattern="*.[ch]"):
    return sorted(folder.rglob(pattern))


ALLOCATING = [ALLOCATOR / part for part in ("alloc", "heap", "large", "page", "space", "warm")]
MOST_ALLOCATING = 50
used, allocating, headers = set(), set(), set()
for path in sources(ALLOCATOR):
    if path in OF_ONE_SYSTEM:
        continue
    text = text_of(path)
    used |= set(CALL.findall(text))
    if path.parent in ALLOCATING:
        allocating |= set(CALL.findall(text))
    headers |= set(re.findall(r"#include \"(os/\w+\.h)\"", path.read_text()))
    for match in SYSTEM.finditer(text):
        faults.append(f"{path.relative_to(ROOT)}: {match.group(0)} belongs into os/")

page = (ROOT / "docs/reference/os-interface.md").read_text()
named = set(re.findall(r"`(os_[a-z_]+)`", page))
faults += [f"os-interface.md does not name {name}" for name in sorted(used - named)]
faults += [f"os-interface.md names {name}, which the allocator does not use"
           for name in sorted(named - used)]
stated = re.search(r"uses\s+(\d+)\s+functions", page)
if stated is None or int(stated.group(1)) != len(used):
    faults.append(f"os-interface.md must state that the allocator uses {len(used)} functions")

optional = set(re.findall(r"`(os_[a-z_]+)`", page[page.index("## What a system may lack"):]))
stated = f"use {len(allocating)} of the {len(used)}, of which {len(allocating & optional)} are"
if stated not in " ".join(page.split()):
    faults.append(f"os-interface.md must state that allocating and freeing {stated} optional")
if len(allocating) > MOST_ALLOCATING:
    faults.append(f"allocating and freeing use more than {MOST_ALLOCATING} functions")

own = {name for path in (OS / "posix").glob("*.c") if path.name != "absent.c"
       for name in DEFINITION.findall(text_of(path))}
needed = len(own & used)
if f"must define {needed} of" not in " ".join(page.split()):
    faults.append(f"os-interface.md must state that a new layer must define {needed} of them")

declared = set()
for header in headers:
    text = text_of(ROOT / "in_process" / header)
    text = re.sub(r"^typedef .*$", "", text, flags=re.M)
    declared |= set(CALL.findall(text))
shared = {name for path in OS.glob("*.[ch]") if not path.name.startswith("linux_")
          for name in DEFINITION.findall(text_of(path))}
layers = {"linux": OS.glob("linux_*.c"), "posix": (OS / "posix").glob("*.c"),
          "windows": [*(OS / "windows").glob("*.c"), OS / "posix/absent.c"]}
for layer, files in layers.items():
    defined = shared.union(*(DEFINITION.findall(text_of(path)) for path in files))
    faults += [f"the layer {layer} does not define {name}"
               for name in sorted(declared & used - defined)]

print(f"the allocator uses {len(used)} functions of os/")
for fault in faults:
    print(fault)
sys.exit(bool(faults))
