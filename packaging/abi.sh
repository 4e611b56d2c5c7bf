#!/usr/bin/env bash
# abi.sh [BASE]: compares the binary interface of the shared libraries with those of BASE (the last
# tag), by libabigail's abidiff. Fails if a program that was built for BASE could break and the
# minor version is the same: below 1.0 a new minor version may break it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
base=${1:-$(git -C "$root" describe --tags --abbrev=0 2>/dev/null || true)}
[ -n "$base" ] || { echo "abi: no version is released; nothing to compare with"; exit 0; }
command -v abidiff >/dev/null || { echo "abi: install abigail-tools" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # build COMMIT NAME: the libraries, with the types for abidiff
    mkdir "$work/$2"
    git -C "$root" archive "$1" in_process cmake samples bench tests journal CMakeLists.txt |
        tar -x -C "$work/$2"
    CFLAGS=-g cmake -S "$work/$2" -B "$work/$2/b" -G Ninja -DKEEL_TESTS=OFF \
        -DCMAKE_C_FLAGS_RELEASE="-O1 -g" >"$work/log"
    cmake --build "$work/$2/b" -j2 --target keel_shared keel_api_shared keel_record \
        >>"$work/log" ||
        { tail -n 20 "$work/log" >&2; exit 1; }
}
version_of() { sed -n 's/^project(keel VERSION \([0-9]*\.[0-9]*\).*/\1/p' "$1/CMakeLists.txt"; }
build "$base" before
build HEAD after
failed=0
for library in libkeel libkeel_api libkeel_record; do
    status=0
    abidiff --headers-dir1 "$work/before/in_process/include" \
        --headers-dir2 "$work/after/in_process/include" --drop-private-types \
        "$work/before/b/lib/$library.so.0" "$work/after/b/lib/$library.so.0" || status=$?
    # Bit 3: incompatible for certain; additions set bit 2 only.
    if [ $((status & 8)) != 0 ]; then failed=1; fi
    [ $((status & 3)) = 0 ] || { echo "abi: abidiff failed" >&2; exit 1; }
    verdict=compatible
    [ $((status & 8)) = 0 ] || verdict=INCOMPATIBLE
    echo "abi: $library: $verdict with $base"
done
if [ $failed = 1 ] && [ "$(version_of "$work/before")" = "$(version_of "$work/after")" ]; then
    echo "abi: raise the minor version, or keep the interface" >&2
    exit 1
fi
