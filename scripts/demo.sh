#!/usr/bin/env bash
# The main job on real input: record the C++ compiler, take a real game's journal, compare both on every allocator,
# and write a page for each. Everything lands in build/demo; nothing outside of it is touched.
set -euo pipefail
cd "$(dirname "$0")/.."
keel=build/bin/keel
out=build/demo
rm -rf "$out"
mkdir -p "$out"

title() { printf '\n\033[1m%s\033[0m\n' "$*" >&2; }
[ -t 2 ] && [ -z "${NO_COLOR:-}" ] || title() { printf '\n%s\n' "$*" >&2; }

title "1/4  record: g++ compiling samples/compile-me.cpp, its children followed"
$keel record --follow-children -o "$out/gcc.journal.parquet" -- \
    g++ -O2 -std=c++17 -pthread samples/compile-me.cpp -o "$out/compile-me"
compiler=$(ls -S "$out"/gcc*.journal.parquet | head -n 1) # the driver, the assembler and the linker are smaller
$keel info "$compiler"

title "2/4  compare: the compiler's operations, as fast as they go, on every allocator"
$keel compare "$compiler" --pace max --runs 3 -o "$out/compiler"
$keel report "$out/compiler" -o "$out/compiler.html"

title "3/4  a real game: nine seconds of Minetest, ten threads (samples/README.md)"
$keel info samples/minetest-slice.journal.parquet

title "4/4  compare: the game's operations at the game's own pace, its pauses shortened, on every allocator"
$keel compare samples/minetest-slice.journal.parquet --pace compressed --runs 5 -o "$out/game"
$keel report "$out/game" -o "$out/game.html"

title "The pages; open them in a browser:"
printf '    %s\n' "$PWD/$out/compiler.html" "$PWD/$out/game.html"
