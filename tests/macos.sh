#!/usr/bin/env bash
# Compiles and links libkeel_api for macOS on arm64 and x86-64, on the layer of POSIX, with Zig,
# which has Apple's public headers and stubs. Every warning is an error. Nothing is run: there is no
# emulator of macOS.
#
#     tests/macos.sh
set -uo pipefail
cd "$(dirname "$0")/.."
if python3 -m ziglang version >/dev/null 2>&1; then
    zig=(python3 -m ziglang)
elif command -v zig >/dev/null; then
    zig=(zig)
else
    echo "macos.sh: there is no Zig: pip install ziglang" >&2
    exit 1
fi
build=build/macos
mkdir -p "$build"
flags=(-std=c17 -O2 -Wall -Wextra -Werror -fvisibility=hidden -D_GNU_SOURCE -D_DARWIN_C_SOURCE
    -DKEEL_DEBUG=0 -DKEEL_COUNT=0 -DKEEL_CHECKED=0 -Iin_process -Iin_process/include)
sources=(in_process/base/*.c in_process/os/{guard,memory_checker,lookup,fault}.c
    in_process/os/posix/*.c)
for folder in space warm page large heap guarded alloc keeper api; do
    sources+=(in_process/allocator/"$folder"/*.c)
done
linked=0 failed=0
for machine in aarch64 x86_64; do
    library=$build/libkeel_api-$machine.dylib
    if "${zig[@]}" cc -target $machine-macos "${flags[@]}" -DKEEL_SECURE=0 -shared -o "$library" \
        "${sources[@]}" >"$library.log" 2>&1; then
        printf 'ok   %s: compiled and linked, %d bytes\n' "$machine" "$(stat -c %s "$library")"
        linked=$((linked + 1))
    else
        printf 'FAIL %s\n' "$machine"
        sed 's/^/    /' "$library.log" | tail -n 30
        failed=$((failed + 1))
    fi
done
echo "$linked linked, $failed failed; nothing is run"
[ "$failed" -eq 0 ]
