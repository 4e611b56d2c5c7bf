#!/usr/bin/env bash
# Builds everything into build/: the C libraries with CMake, the lab and the peers with Cargo.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=$root/build
mkdir -p "$build/bin" "$build/lib/keel/peers"

say() { printf 'build: %s\n' "$*" >&2; }

# Copies a file if it differs, by renaming, so that running programs keep theirs and times of modification are right.
put() { cmp -s "$1" "$2" || { cp "$1" "$2.new" && mv -f "$2.new" "$2"; }; }

say "libkeel and the recorder (C)"
cmake -S . -B build/cmake -G Ninja -DKEEL_OUTPUT_DIR="$build" >build/cmake.log 2>&1 || { cat build/cmake.log >&2; exit 1; }
cmake --build build/cmake --target libraries >build/cmake.log 2>&1 || { cat build/cmake.log >&2; exit 1; }

say "keel and its player (Rust)"
# --workspace as in test.sh and check.sh: Cargo unifies the features of dependencies over the packages that it builds.
# With a selection of packages (-p) they would differ, and Arrow and Parquet would be compiled again.
cargo build --release --locked --workspace --bins
target=${CARGO_TARGET_DIR:-target}
put "$target/release/keel" build/bin/keel
put "$target/release/keel-player" build/lib/keel/keel-player
put "$target/release/keel-workload" build/lib/keel/keel-workload

say "the peers (Rust, from crates)"
lab/peers/build.sh "$build/lib/keel/peers"
say "done: build/bin/keel"
