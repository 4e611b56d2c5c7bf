#!/usr/bin/env bash
# A tour of Keel on real programs: takes the journal of a real game, records the C++ compiler,
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
comparisons take about 4 minutes and 300 MB in $out. The first page is ready after half a minute of
them, and complete after two. Ctrl-C keeps the pages that are there.
END
    exit 0
fi
rm -rf "$out"
mkdir -p "$out"

title() { printf '\n\033[1m%s\033[0m\n' "$*" >&2; }
[ -t 2 ] && [ -z "${NO_COLOR:-}" ] || title() { printf '\n%s\n' "$*" >&2; }

title "1/4  info: nine seconds of the game Minetest, ten threads (samples/README.md)"
game=samples/minetest-slice.journal.parquet
$keel info "$game"

title "2/4  compare: the game's operations on every allocator, in real time without idle time"
# As `keel compare --runs 5`, but with a page after the first of the five rounds.
page() {
    $keel compare merge "$out/game.plan" -o "$out/game" --force
    $keel report "$out/game" -o "$out/game.html"
}
$keel compare plan "$game" --pace compressed --runs 5 -o "$out/game.plan"
$keel compare run "$out/game.plan" --round 0
page
printf 'The first page: %s\n' "$PWD/$out/game.html" >&2
$keel compare run "$out/game.plan"
page

title "3/4  record: g++ compiling samples/compile-me.cpp, with its child processes"
$keel record --follow-children --stacks 16 -o "$out/gcc.journal.parquet" -- \
    g++ -O2 -std=c++17 -pthread samples/compile-me.cpp -o "$out/compile-me"
# The journals of the driver, the assembler and the linker are smaller.
compiler=$(ls -S "$out"/gcc*.journal.parquet | sed -n 1p)
$keel info "$compiler"

title "4/4  compare: the compiler's operations on every allocator, without pauses"
$keel compare "$compiler" --pace max --runs 5 -o "$out/compiler"
$keel report "$out/compiler" -o "$out/compiler.html"

title "Open these pages in a browser:"
printf '    %s\n' "$PWD/$out/game.html" "$PWD/$out/compiler.html"
