#!/usr/bin/env bash
# Compiles and links libkeel.so and libkeel_api.so for Android 10 (API level 29) on arm64 and
# x86-64, with the headers of bionic. Every warning is an error. The libraries that they are linked
# with are empty: they have the names that bionic's lists state for that level. So a function that
# Android 10 does not have is an error. Nothing is run.
#
#     tests/android.sh BIONIC   # a checkout of https://github.com/aosp-mirror/platform_bionic
set -uo pipefail
cd "$(dirname "$0")/.."
bionic=$(realpath -- "${1:?a checkout of bionic}")
level=29
. tests/support/linked.sh

# stub MACHINE LIBRARY: assembly that defines what the library's list states for programs.
stub() {
    python3 - "$bionic/$2/$2.map.txt" "${1/aarch64/arm64}" $level <<'PYTHON'
import re, sys
path, machine, level = sys.argv[1], sys.argv[2], int(sys.argv[3])
version = ""
for line in open(path):
    if section := re.match(r"(\w+) \{", line):
        version = section.group(1)
    symbol = re.match(r"\s+([\w$]+);\s*(?:#(.*))?$", line)
    if not symbol or re.search("PRIVATE|PLATFORM|DEPRECATED", version):
        continue
    name, tags = symbol.group(1), (symbol.group(2) or "").split()
    machines = {"arm", "arm64", "x86", "x86_64", "riscv64"} & set(tags)
    known = dict(tag.split("=", 1) for tag in tags if "=" in tag)
    since = known.get(f"introduced-{machine}", known.get("introduced", "1"))
    if machines and machine not in machines or {"systemapi", "llndk", "apex"} & set(tags):
        continue
    if since.isdigit() and int(since) <= level:
        kind = "object" if "var" in tags else "function"
        print(f".globl {name}\n.type {name}, %{kind}\n.size {name}, 8\n{name}: .quad 0")
PYTHON
}
built() { # built MACHINE
    local build=build/android-$1 library
    mkdir -p "$build-stubs" || return 1
    for library in libc libdl; do
        stub "$1" $library >"$build-stubs/$library.s" &&
            [ "$(grep -c globl "$build-stubs/$library.s")" -ge 10 ] &&
            clang-19 --target="$1-linux-android$level" -shared -nostdlib -fuse-ld=lld-19 \
                -Wl,-soname,$library.so "$build-stubs/$library.s" -o "$build-stubs/$library.so" ||
            return 1
    done
    cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/android.cmake" \
        -DKEEL_BIONIC="$bionic" -DKEEL_STUBS="$PWD/$build-stubs" -DKEEL_MACHINE="$1" \
        -DKEEL_TESTS=OFF && cmake --build "$build"
}
linked_for android libkeel.so aarch64 x86_64
