#!/usr/bin/env bash
# Compiles and links libkeel.so and libkeel_api.so for FreeBSD, NetBSD and OpenBSD on x86-64 with
# Zig, which has their headers and stubs. Every warning is an error. Nothing is run.
#
#     tests/bsd.sh
set -uo pipefail
cd "$(dirname "$0")/.."
. tests/support/linked.sh
built() { # built SYSTEM
    cmake -S . -B "build/bsd-$1" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/zig.cmake" \
        -DKEEL_ZIG_TARGET="x86_64-$1" -DKEEL_TESTS=OFF && cmake --build "build/bsd-$1"
}
linked_for bsd libkeel.so freebsd netbsd openbsd
