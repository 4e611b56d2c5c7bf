#!/usr/bin/env bash
# Builds libkeel and the C tests for a platform in build/NAME and runs them. Prints each failed
# test, the counts, and what was left out.
#
#     tests/platforms.sh posix    # this machine, with the calls of POSIX instead of those of Linux
#     tests/platforms.sh musl     # musl, dynamic and static
set -uo pipefail
cd "$(dirname "$0")/.."
name=${1:?posix or musl}
build=build/$name
left_out='^contract/.*/(c-library|bridge)$|^toys$|^bench/|^replay/|^programs|^recorder/'
left_out+='|^checkers/|^neighbours/|^mimalloc/table$'

case $name in
    posix) options=(-DKEEL_OS=posix) ;;
    musl) options=(-DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/x86_64-linux-musl.cmake") ;;
    *)
        echo "platforms.sh: no platform $name: use posix or musl" >&2
        exit 2
        ;;
esac
mkdir -p build
cmake -S . -B "$build" -G Ninja -DKEEL_OUTPUT_DIR="$PWD/$build" "${options[@]}" \
    >"$build.log" 2>&1 &&
    cmake --build "$build" >>"$build.log" 2>&1 || { tail -n 40 "$build.log" >&2; exit 1; }
ctest --test-dir "$build" -j "${KEEL_JOBS:-2}" -E "$left_out" | tee "$build.log"
failed=${PIPESTATUS[0]}

# Each suite as one file without a dynamic linker, which is how musl is used most.
linked() { # linked NAME OPTIONS...
    local suite program
    for suite in sizes contents aligned large threads fork misuse; do
        program=$build/tests/$suite-$1
        if musl-gcc -std=c17 -D_GNU_SOURCE -DKEEL_SECURE=0 -DKEEL_DEBUG=0 -O1 -fno-builtin -w \
            -Itests/support -Iin_process/include "${@:2}" -o "$program" "tests/contract/$suite.c" \
            tests/support/check.c tests/support/memory.c "$build/lib/libkeel.a" -lpthread &&
            CHECK_SECONDS=300 CHECK_LEAVE_OUT="$musl_fails" \
                "$program" >"$program.log" 2>&1; then
            printf 'ok   %s/%s: %s\n' "$suite" "$1" "$(tail -n 1 "$program.log")"
        else
            printf 'FAIL %s/%s\n' "$suite" "$1"
            grep -v '^ok' "$program.log" | sed 's/^/    /'
            failed=1
        fi
    done
}
musl_fails=" handlers_of_other_libraries_allocate_in_forks_of_a_thread_without_a_heap"
musl_fails+=" a_handler_of_another_library_forks " # musl's own malloc fails these, too
if [ "$name" = musl ]; then
    linked fixed -static -no-pie -fno-pie
fi
echo "left out: tests whose names match $left_out"
exit "$failed"
