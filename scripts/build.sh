#!/usr/bin/env bash
# Builds everything into build/: the C libraries with CMake, the lab and the peers with Cargo.
#
#   scripts/build.sh [tests|demo]
#
# With `tests` it also builds the crates that only tests use. They select more features of some
# dependencies, so without it these dependencies are compiled again for the tests. With `demo` it
# builds only what a recording and a comparison need: no secure, no debug flavour, no workloads.
#
# For packages (packaging/prefix.sh) the environment sets another folder, KEEL_BUILD, another
# command instead of `cargo build`, KEEL_CARGO, and the folder of its results, KEEL_RELEASE.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
purpose=${1:-all}
build=${KEEL_BUILD:-$root/build}
read -ra cargo <<<"${KEEL_CARGO:-cargo build}"
release=${KEEL_RELEASE:-${CARGO_TARGET_DIR:-target}/release}
mkdir -p "$build/bin" "$build/lib/keel/peers"

# Runs a command and shows its output only if it fails.
logged() { "$@" >"$build/cmake.log" 2>&1 || { cat "$build/cmake.log" >&2; exit 1; }; }

say() { printf 'build: %s\n' "$*" >&2; }

# Copies a program without symbols (the one in target/release keeps them for profilers) if it
# differs, by renaming: running programs keep theirs, and times of modification are right.
put() {
    "${STRIP:-strip}" -o "$2.new" "$1"
    if cmp -s "$2.new" "$2"; then rm "$2.new"; else mv -f "$2.new" "$2"; fi
}

# The peers are C and C++ whose build scripts leave processors idle, so they are built beside the
# rest.
lab/peers/build.sh "$build/lib/keel/peers" >"$build/peers.log" 2>&1 &
peers=$!
trap 'kill "$peers" 2>/dev/null || true' EXIT

say "libkeel and the recorder (C)"
logged cmake -S . -B "$build/cmake" -G Ninja -DKEEL_OUTPUT_DIR="$build"
logged cmake --build "$build/cmake" --target libraries

if [ "$purpose" != demo ]; then
    # The real programs that `keel bench --suite real` runs.
    rm -rf "$build/lib/keel/programs"
    cp -r tests/programs "$build/lib/keel/programs"

    for flavour in secure debug; do
        say "libkeel-$flavour (C)"
        logged cmake -S . -B "$build/cmake-$flavour" -G Ninja -DKEEL_OUTPUT_DIR="$build" \
            "-DKEEL_${flavour^^}=ON" -DKEEL_TESTS=OFF
        logged cmake --build "$build/cmake-$flavour" --target flavour
    done

    if command -v musl-gcc >/dev/null && [ "$(uname -m)" = x86_64 ] &&
        [ -z "${KEEL_CARGO:-}" ]; then
        say "the recorder for programs that use musl (C)"
        logged cmake -S . -B "$build/cmake-musl" -G Ninja -DKEEL_TESTS=OFF \
            -DCMAKE_TOOLCHAIN_FILE="$root/cmake/x86_64-linux-musl.cmake"
        logged cmake --build "$build/cmake-musl" --target keel_recorder
        mkdir -p "$build/lib/keel/musl"
        put "$build/cmake-musl/lib/libkeel_recorder.so" "$build/lib/keel/musl/libkeel_recorder.so"
    fi
fi

say "keel and its player (Rust)"
# Cargo unifies the features of dependencies over all packages and targets that it builds. An
# example includes the dependencies of the tests, and so gives the features that `cargo test
# --workspace` has. A package needs only its programs.
selected=(--workspace --bins)
[ "$purpose" != tests ] || selected+=(--example fuzz)
[ "$purpose" != demo ] || selected=(-p keel-cli -p keel-player --bins)
[ -z "${KEEL_CARGO:-}" ] || selected=(-p keel-cli -p keel-player -p keel-workloads --bins)
"${cargo[@]}" --release --locked "${selected[@]}"
put "$release/keel" "$build/bin/keel"
put "$release/keel-player" "$build/lib/keel/keel-player"
[ "$purpose" = demo ] || put "$release/keel-workload" "$build/lib/keel/keel-workload"

say "the peers (Rust, from crates)"
status=0
wait "$peers" || status=$?
trap - EXIT
cat "$build/peers.log" >&2
[ "$status" -eq 0 ]
say "done: ${build#"$root/"}/bin/keel"
