#!/usr/bin/env bash
# Compiles and links libkeel.dylib and libkeel_api.a for macOS on arm64 and x86-64 with Zig, which
# has Apple's public headers and stubs. Every warning is an error. Checks that the library has the
# table of replaced functions, and no thread-local variable of macOS. Nothing is run: there is no
# emulator of macOS. (tests/macos runs the code of the zone on Linux.)
#
#     tests/macos.sh
set -uo pipefail
cd "$(dirname "$0")/.."
. tests/support/linked.sh
built() { # built MACHINE
    local build=build/macos-$1 sections
    cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/zig.cmake" \
        -DKEEL_ZIG_TARGET="$1-macos" && cmake --build "$build" || return 1
    sections=$(strings -a "$build/lib/libkeel.dylib" | grep -E '^__(interpose|thread_)')
    [ "$sections" = __interpose ] || { echo "sections: $sections"; return 1; }
}
linked_for macos libkeel.dylib aarch64 x86_64
