#!/usr/bin/env bash
# Builds libkeel for Windows on x86-64 and its tests in build/windows, with clang and mingw-w64, and
# runs the tests under Wine, whose files are there, too. Prints `total: N passed, N failed, N
# skipped` at the end. Then compiles the library for Windows on arm64, if there is a compiler.
#
#     tests/windows.sh
set -uo pipefail
cd "$(dirname "$0")/.."
build=build/windows
export WINEPREFIX=$PWD/$build/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
unset DISPLAY
# Wine counts its own table of pages as memory of the process, 256 KiB for each GiB of addresses.
export CHECK_LEAVE_OUT=" memory_does_not_grow_as_huge_blocks_come_and_go "

mkdir -p "$build"
cmake -S . -B "$build" -G Ninja -DKEEL_OUTPUT_DIR="$PWD/$build" \
    -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/x86_64-w64-mingw32.cmake" >"$build.log" 2>&1 &&
    cmake --build "$build" >>"$build.log" 2>&1 || { tail -n 40 "$build.log" >&2; exit 1; }
wineboot --init >>"$build.log" 2>&1
tests/run.sh -B "$build" -j "${KEEL_JOBS:-2}" "$@"
failed=$?
wineserver --kill
echo "left out: $CHECK_LEAVE_OUT(Wine's own memory)"

# Zig contains clang, and the headers and libraries of mingw-w64 for arm64.
if python3 -m ziglang version >/dev/null 2>&1; then
    zig=(python3 -m ziglang)
elif command -v zig >/dev/null; then
    zig=(zig)
else
    echo "arm64: not compiled, there is no Zig (pip install ziglang)"
    exit $failed
fi
flags=(-target aarch64-windows-gnu -std=c17 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE
    -DKEEL_SECURE=0 -DKEEL_DEBUG=0 -DKEEL_COUNT=0 -DKEEL_CHECKED=0
    -DKEEL_IS_DLL=1 -Iin_process -Iin_process/include)
sources=(in_process/base/*.c in_process/os/{guard,memory_checker,posix/absent}.c
    in_process/os/windows/*.c in_process/allocator/override/windows/family.c)
for folder in space warm page large heap guarded alloc keeper api; do
    sources+=(in_process/allocator/"$folder"/*.c)
done
if "${zig[@]}" cc "${flags[@]}" -shared -o "$build/keel-arm64.dll" "${sources[@]}" \
    in_process/allocator/override/windows/family.def -lntdll -ladvapi32 -lpsapi \
    -lapi-ms-win-core-synch-l1-2-0 >"$build-arm64.log" 2>&1; then
    echo "arm64: keel.dll compiled and linked, $(stat -c %s "$build/keel-arm64.dll") bytes; not run"
else
    echo "FAIL arm64"
    tail -n 20 "$build-arm64.log"
    failed=1
fi
exit $failed
