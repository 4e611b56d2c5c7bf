#!/usr/bin/env python3
"""Writes a library that replaces every function of the C library that a library imports.

    wrap.py LIBRARY OUTPUT.so

Each replacement has what such libraries have: state in thread-local storage, a lookup of the real
function with dlsym, and an allocation of its own (but not those of <string.h>). Then it jumps to
the real function, with all registers that can hold an argument as they were. Compiles with CC;
x86-64 only. At exit the number of calls is appended to the file that WRAP_REPORT names.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SUPPORT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct slot { void* real; const char* name; const char* version; int allocates; };
static __thread unsigned depth;
static __thread unsigned long calls;
static atomic_ulong all_calls;

__attribute__((used, visibility("hidden"))) void* wrap_enter(struct slot* slot) {
    int error = errno;
    if (depth++ == 0 && slot->allocates) {
        char* block = malloc(16 + calls % 2000);
        if (block) block[calls % 16] = 1;
        free(block);
    }
    calls++;
    atomic_fetch_add_explicit(&all_calls, 1, memory_order_relaxed);
    if (!slot->real) slot->real = dlvsym(RTLD_NEXT, slot->name, slot->version);
    if (!slot->real) _exit(99);
    depth--;
    errno = error;
    return slot->real;
}

static __attribute__((destructor)) void report(void) {
    const char* name = getenv("WRAP_REPORT");
    int file = name ? open(name, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
    if (file >= 0) dprintf(file, "%lu\n", all_calls);
    if (file >= 0) close(file);
}

__asm__(".text\nwrap_common:\n"
        "pushq %rbp\nmovq %rsp, %rbp\nsubq $192, %rsp\n"
        "movq %rax, (%rsp)\nmovq %rdi, 8(%rsp)\nmovq %rsi, 16(%rsp)\nmovq %rdx, 24(%rsp)\n"
        "movq %rcx, 32(%rsp)\nmovq %r8, 40(%rsp)\nmovq %r9, 48(%rsp)\nmovq %r10, 56(%rsp)\n"
        "movups %xmm0, 64(%rsp)\nmovups %xmm1, 80(%rsp)\nmovups %xmm2, 96(%rsp)\n"
        "movups %xmm3, 112(%rsp)\nmovups %xmm4, 128(%rsp)\nmovups %xmm5, 144(%rsp)\n"
        "movups %xmm6, 160(%rsp)\nmovups %xmm7, 176(%rsp)\n"
        "movq %r11, %rdi\ncall wrap_enter\nmovq %rax, %r11\n"
        "movq (%rsp), %rax\nmovq 8(%rsp), %rdi\nmovq 16(%rsp), %rsi\nmovq 24(%rsp), %rdx\n"
        "movq 32(%rsp), %rcx\nmovq 40(%rsp), %r8\nmovq 48(%rsp), %r9\nmovq 56(%rsp), %r10\n"
        "movups 64(%rsp), %xmm0\nmovups 80(%rsp), %xmm1\nmovups 96(%rsp), %xmm2\n"
        "movups 112(%rsp), %xmm3\nmovups 128(%rsp), %xmm4\nmovups 144(%rsp), %xmm5\n"
        "movups 160(%rsp), %xmm6\nmovups 176(%rsp), %xmm7\n"
        "leave\njmp *%r11\n");
"""
FUNCTION = """
static struct slot slot_{name} __attribute__((used)) = {{0, "{name}", "{version}", {allocates}}};
__asm__(".globl {name}\\n.type {name}, @function\\n{name}:\\n"
        "leaq slot_{name}(%rip), %r11\\njmp wrap_common\\n.size {name}, .-{name}\\n");
"""
# Compilers insert calls of these anywhere, also where a malloc holds a lock of its own. They do not
# allocate.
LEAF = re.compile("mem|str")
# What wrap_enter itself is made of.
OWN = {"malloc", "free", "dlvsym", "__errno_location", "__tls_get_addr"}


def symbols(library, *options):
    out = subprocess.run(["nm", "-D", *options, library], check=True, capture_output=True)
    return [line.split()[-2:] for line in out.stdout.decode().splitlines()]


def imported(library):
    """The names and versions of the functions that `library` imports from the C library."""
    compiler = os.environ.get("CC", "cc")
    libc = subprocess.run([compiler, "-print-file-name=libc.so.6"], check=True,
                          capture_output=True, text=True).stdout.strip()
    functions = {}
    for kind, name in symbols(libc, "--defined-only"):
        name, _, version = name.partition("@")
        if kind in "TWi" and version:
            functions.setdefault(name, []).append(version)
    for _, name in symbols(library, "--undefined-only"):
        name, _, version = name.partition("@")
        if name in functions and name not in OWN:
            # dlvsym finds the version that the library asks for, or the default one.
            versions = {one.lstrip("@") for one in functions[name]}
            default = next((one[1:] for one in functions[name] if one.startswith("@")), None)
            yield name, version if version in versions else default or versions.pop()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    library, output = sys.argv[1:]
    found = sorted(set(imported(library)))
    if len(found) < 3 or any(not re.fullmatch(r"\w+", name) for name, _ in found):
        sys.exit(f"wrap.py: {library} seems to import nothing from the C library: {found}")
    text = SUPPORT + "".join(FUNCTION.format(name=name, version=version,
                                             allocates=int(not LEAF.match(name)))
                             for name, version in found)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "wrap.c")
        source.write_text(text)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-fno-builtin",
                        "-o", output, source], check=True)
    print(" ".join(name for name, _ in found))


main()
