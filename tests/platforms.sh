#!/usr/bin/env bash
# Builds libkeel and the C tests for a platform in build/NAME and runs them. Prints the counts of
# each suite, what was left out, and `total: N passed, N failed, N skipped`.
#
#     tests/platforms.sh posix         # this machine, with the calls of POSIX instead of Linux's
#     tests/platforms.sh posix quick   # one linkage of each suite, and no suite that takes long
#     tests/platforms.sh musl          # musl: dynamic, static and static-pie, and a program;
#                                      # tests/emulated.sh has musl for arm64
#     tests/platforms.sh emulated-tls  # as posix, with clang and os/posix/thread_local.c
set -uo pipefail
cd "$(dirname "$0")/.."
name=${1:?posix, emulated-tls or musl}
build=build/$name
left_out='^contract/.*/(c-library|bridge)$|^toys$|^bench/|^replay/|^programs|^recorder/'
left_out+='|^checkers/|^neighbours/|^mimalloc/table$'

case $name in
    posix) options=(-DKEEL_OS=posix) ;;
    emulated-tls)
        options=(-DKEEL_OS=posix -DKEEL_EMULATED_TLS=ON -DCMAKE_C_COMPILER=clang)
        ;;
    musl) options=(-DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/x86_64-linux-musl.cmake") ;;
    *)
        echo "platforms.sh: no platform $name: use posix, emulated-tls or musl" >&2
        exit 2
        ;;
esac
if [ "${2:-}" = quick ]; then
    left_out+='|/(shared|preload|keeper)$|^cxx/|^tokens|^stress/seed-[23]$|^api/address_space$'
fi
mkdir -p build
cmake -S . -B "$build" -G Ninja -DKEEL_OUTPUT_DIR="$PWD/$build" "${options[@]}" \
    >"$build.log" 2>&1 || { tail -n 40 "$build.log" >&2; exit 1; }
tests/run.sh -B "$build" -j "${KEEL_JOBS:-2}" -E "$left_out" | tee "$build.log" |
    grep -v '^total: ' # the last line has the counts
read -r passed failed skipped < <(awk '/^total: / { gsub(",", ""); print $2, $4, $6 }' "$build.log")
if [ "$name" = musl ]; then
    for objects in /usr/lib/x86_64-linux-musl /usr/lib/musl/lib /usr/local/musl/lib; do
        [ ! -f $objects/rcrt1.o ] || break
    done
    musl_cc=musl-gcc glibc_cc=cc emulator=''
    # shellcheck source=tests/support/musl.sh
    . tests/support/musl.sh
    musl_programs
    tests/support/record_musl.sh "$build/recorded" >"$build/recorded.log" 2>&1
    sum recorded "$build/recorded.log" $?
fi
echo "left out: tests whose names match $left_out"
printf 'total: %d passed, %d failed, %d skipped\n' "${passed:-0}" "${failed:-1}" "${skipped:-0}"
[ "${failed:-1}" -eq 0 ]
