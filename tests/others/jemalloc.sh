#!/usr/bin/env bash
# Builds jemalloc's integration tests of the standard functions: jemalloc.sh SOURCES PLACE. The
# header in jemalloc/test takes the place of jemalloc's own, which needs jemalloc.
set -uo pipefail
sources=$1 place=$2 folder=$(cd "$(dirname "$0")" && pwd)
[ -f "$sources/test/integration/malloc.c" ] ||
    { echo "no source of jemalloc at '$sources'"; exit 1; }
for name in malloc aligned_alloc posix_memalign overflow; do
    "${CC:-cc}" -w -std=gnu11 -O1 -fno-builtin -D_GNU_SOURCE -I "$folder/jemalloc" \
        "$sources/test/integration/$name.c" -o "$place/tests/$name" || exit 1
done
for name in basic infallible_new_false; do
    "${CXX:-c++}" -w -std=gnu++17 -O1 -fno-builtin -I "$folder/jemalloc" \
        "$sources/test/integration/cpp/$name.cpp" -o "$place/tests/cpp_$name" || exit 1
done
for file in "$sources"/test/integration/*.c "$sources"/test/integration/cpp/*.cpp; do
    name=$(basename "${file%.c*}")
    [ -x "$place/tests/$name" ] || [ -x "$place/tests/cpp_$name" ] ||
        echo "$name" >>"$place/left-out"
done
