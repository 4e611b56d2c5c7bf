#!/usr/bin/env bash
# Builds every peer allocator as NAME.so into the given folder (build/lib/keel/peers by default).
# A peer that is newer than its sources is not built again.
# For a peer that cannot be built it writes NAME.unavailable with the reason, which `keel
# allocators` shows, and continues. Fails only if no peer could be built.
#
#   lab/peers/build.sh [FOLDER] [NAME...]
#
# Without names, peers with `optional = true` in their Cargo.toml are skipped unless they have been
# built before. KEEL_CARGO replaces `cargo build`, as in scripts/build.sh; KEEL_PEERS_RELEASE is the
# folder of its results below KEEL_PEERS_TARGET.
set -uo pipefail
peers=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$peers/../.." && pwd)
output=${1:-$root/build/lib/keel/peers}
shift || true
target=${KEEL_PEERS_TARGET:-$root/build/peers}
read -ra cargo <<<"${KEEL_CARGO:-cargo build}"
release=$target/${KEEL_PEERS_RELEASE:-release}
names=("$@")
# jemalloc's makefile compiles each file three times and with debug information, which Cargo strips.
# The peer is linked with one of its libraries only; MAKEFLAGS leaves out the others.
export CFLAGS="${CFLAGS:-} -g0"
export MAKEFLAGS="STATIC_LIBS=lib/libjemalloc_pic.a DSOS="
mkdir -p "$output" "$target" || exit 1
if [ ${#names[@]} -eq 0 ]; then
    for manifest in "$peers"/*/Cargo.toml; do
        name=$(basename "$(dirname "$manifest")")
        if ! grep -q '^optional = true' "$manifest" || [ -e "$output/$name.so" ]; then
            names+=("$name")
        else
            printf 'it takes minutes to build: lab/peers/build.sh %s %s\n' "$output" "$name" \
                >"$output/$name.unavailable"
        fi
    done
fi

built=0
for index in "${!names[@]}"; do
    name=${names[$index]}
    printf 'peer %d/%d: %s\n' $((index + 1)) ${#names[@]} "$name" >&2
    log=$target/$name.log
    if [ -e "$output/$name.so" ] && [ -z "$(find "$peers/$name" "$peers/crate_version.rs" \
        -newer "$output/$name.so" -type f -print -quit)" ]; then
        built=$((built + 1))
        continue
    fi
    # One target folder for all, so that shared dependencies (libc, cc) are compiled once.
    if (cd "$peers/$name" &&
        "${cargo[@]}" --release --locked --target-dir "$target") >"$log" 2>&1; then
        # Renamed into place, so that a running replay never maps an incomplete library.
        cp "$release/libkeel_peer_$name.so" "$output/.$name.so" &&
            mv "$output/.$name.so" "$output/$name.so" &&
            rm -f "$output/$name.unavailable" && built=$((built + 1))
    else
        reason=$(grep -m1 -E '^(error|CMake Error|  .*[Ee]rror)' "$log" || tail -n1 "$log")
        printf 'it could not be built: %s (full log: %s)\n' "$reason" "$log" \
            >"$output/$name.unavailable"
        rm -f "$output/$name.so"
        printf 'peer %s: %s' "$name" "$(cat "$output/$name.unavailable")" >&2
        printf '\n' >&2
    fi
done
[ "$built" -gt 0 ]
