#!/usr/bin/env bash
# prefix.sh [FOLDER]: builds Keel for other systems in FOLDER (build/packages) and installs it into
# FOLDER/prefix, from which every package is made. The libraries need glibc 2.17, the programs of
# the lab 2.28; packaging/verify.py checks both. With KEEL_MACHINE=aarch64 it builds for arm64.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${1:-$root/build/packages}")
prefix=$out/prefix
mkdir -p "$out"
# shellcheck source=packaging/environment.sh
source "$root/packaging/environment.sh"

export CARGO_TARGET_DIR=$out/target KEEL_RELEASE=$out/target/$KEEL_TRIPLE/release
export KEEL_PEERS_TARGET=$out/peers KEEL_PEERS_RELEASE=$KEEL_TRIPLE/release
export KEEL_BUILD=$out/build CMAKE_BUILD_TYPE=Release
# A peer that prints the time of its build is not built again for a later commit.
SOURCE_DATE_EPOCH=0 "$root/scripts/build.sh"

# The programs in C of the lab are linked by zig, as those in Rust are; only it has the code that
# starts a program on an older glibc.
cat >"$out/zigcc" <<ZIGCC
#!/bin/sh
target=${KEEL_TRIPLE%%-*}-linux-gnu.$KEEL_GLIBC
exec "$tools/bin/python3" -m ziglang cc -target \$target "\$@" -Wno-error
ZIGCC
chmod +x "$out/zigcc"
programs="keel-synthetic keel-patterns keel-overseer"
CC=$out/zigcc env -u CMAKE_TOOLCHAIN_FILE cmake -S "$root" -B "$out/build/cmake-programs" -G Ninja \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$KEEL_MACHINE" -DKEEL_TESTS=OFF \
    -DKEEL_OUTPUT_DIR="$out/build/programs" >"$out/cmake.log"
# shellcheck disable=SC2086
cmake --build "$out/build/cmake-programs" --target $programs keel_bridge >>"$out/cmake.log" ||
    { cat "$out/cmake.log" >&2; exit 1; }
for file in $programs libkeel_bridge.so; do
    cp "$out/build/programs/lib/keel/$file" "$out/build/lib/keel/"
done

rm -rf "$prefix"
for flavour in cmake cmake-secure cmake-debug; do
    cmake --install "$out/build/$flavour" --prefix "$prefix" >>"$out/cmake.log"
done
share=$prefix/share
keel() { ${emulator[@]+"${emulator[@]}"} "$prefix/bin/keel" "$@"; }
keel manual "$share/man/man1"
completion() { # completion SHELL FILE
    mkdir -p "$(dirname "$share/$2")"
    keel completions "$1" >"$share/$2"
}
completion bash bash-completion/completions/keel
completion zsh zsh/site-functions/_keel
completion fish fish/vendor_completions.d/keel.fish
mkdir -p "$share/doc/keel"
cp "$root"/{README.md,CHANGELOG.md,LICENSE,SECURITY.md} "$share/doc/keel"
python3 "$root/packaging/contents.py" --licenses "$share/doc/keel/THIRD-PARTY.md" \
    --sbom "$share/doc/keel/keel.cdx.json"

# Debuggers need the repository's own build; strip also makes archives deterministic.
find "$prefix" -type f \( -name '*.so*' -o -path '*/bin/*' -o -path '*/lib/keel/keel-*' \) \
    -exec "${STRIP:-strip}" --strip-unneeded {} +
find "$prefix/lib" -maxdepth 1 -type f \( -name '*.a' -o -name '*.o' \) \
    -exec "${STRIP:-strip}" --strip-debug --enable-deterministic-archives {} +
"$root/packaging/verify.py" "$prefix"
