#!/usr/bin/env bash
# A tour of Keel on real programs: records the C++ compiler, takes the journal of a real game,
# compares all allocators on both, and writes a page for each. All files are in build/demo.
#
#   scripts/demo.sh [announce]    announce: only say what `make demo` will take
set -euo pipefail
cd "$(dirname "$0")/.."
keel=build/bin/keel
out=build/demo
if [ "${1:-}" = announce ]; then
    [ -x "$keel" ] && built="a few seconds, because it is built already" || built="about 4 minutes"
    cat >&2 <<END
make demo: the build takes $built on two processors, and 1.5 GB in target/ and build/. Then two
comparisons take about 4 minutes and 300 MB in $out. The first page is ready after a minute of them,
and complete after two. Ctrl-C keeps the pages that are there.
END
    exit 0
fi
rm -rf "$out"
mkdir -p "$out"

title() { printf '\n\033[1m%s\033[0m\n' "$*" >&2; }
[ -t 2 ] && [ -z "${NO_COLOR:-}" ] || title() { printf '\n%s\n' "$*" >&2; }

title "1/4  record: g++ compiling samples/compile-me.cpp, with its child processes"
$keel record --follow-children --stacks 16 -o "$out/gcc.journal.parquet" -- \
    g++ -O2 -std=c++17 -pthread samples/compile-me.cpp -o "$out/compile-me"
# The journals of the driver, the assembler and the linker are smaller.
compiler=$(ls -S "$out"/gcc*.journal.parquet | sed -n 1p)
$keel info "$compiler"

title "2/4  compare: the compiler's operations on every allocator, without pauses"
# As `keel compare --runs 5`, but with a page after the first of the five rounds.
page() {
    $keel compare merge "$out/compiler.plan" -o "$out/compiler" --force
    $keel report "$out/compiler" -o "$out/compiler.html"
}
$keel compare plan "$compiler" --pace max --runs 5 -o "$out/compiler.plan"
$keel compare run "$out/compiler.plan" --round 0
page
printf 'The first page: %s\n' "$PWD/$out/compiler.html" >&2
$keel compare run "$out/compiler.plan"
page

title "3/4  info: nine seconds of the game Minetest, ten threads (samples/README.md)"
$keel info samples/minetest-slice.journal.parquet

title "4/4  compare: the game's operations on every allocator, in real time without idle time"
$keel compare samples/minetest-slice.journal.parquet --pace compressed --runs 5 -o "$out/game"
$keel report "$out/game" -o "$out/game.html"

title "Open these pages in a browser:"
printf '    %s\n' "$PWD/$out/compiler.html" "$PWD/$out/game.html"
