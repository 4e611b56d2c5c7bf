#!/usr/bin/env bash
# Makes all pictures in docs/images: compares allocators on the supplied recording, and takes the
# pictures from the page and from `keel plot`. The comparisons stay in build/gallery and are used
# again; remove the folder to measure anew. docs/guide/figures.md shows the same commands.
set -euo pipefail
cd "$(dirname "$0")/.."
keel=${KEEL:-build/bin/keel}
journal=samples/minetest-slice.journal.parquet
out=build/gallery
mkdir -p "$out"

compare() { # compare NAME OPTION...
    [ -f "$out/$1/results.json" ] || "$keel" compare "$journal" "${@:2}" -o "$out/$1" >/dev/null
}
compare results --runs 5
for touch in none page all; do
    compare "touch-$touch" --touch "$touch" --runs 5 -a keel,glibc
done
for pace in max 4x 1x; do
    compare "pace-$pace" --pace "$pace" --runs 1 -a keel,glibc
done

rm -rf "$out/plots"
mkdir "$out/plots"
plot() { # plot NAME OPTION... FOLDER...: folders without their parent
    (cd "$out" && "$keel_path" plot "${@:2}" --width "${width:-900}" -o "plots/figure-$1.png")
}
keel_path=$(realpath "$keel")
plot density results -a glibc
plot free results -a glibc --operation free
plot writes touch-none touch-page touch-all -a glibc,keel --view percentiles
plot paces pace-max pace-4x pace-1x -a glibc,keel
plot percentiles results --view percentiles
plot allocators results
plot frames pace-1x --view frames --budget 60Hz
plot lateness pace-1x --view lateness
width=700 plot lifetimes results --view lifetimes
plot sizes results -a glibc,keel --view sizes
plot memory results --view memory

"$keel" report "$out/results" -o "$out/report.html"
cargo build --release --quiet --locked --workspace --example gallery
"${CARGO_TARGET_DIR:-target}/release/examples/gallery" "$out/report.html" "$out/plots" docs/images
