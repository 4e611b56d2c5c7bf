#!/usr/bin/env bash
# Builds libkeel and the C tests for a platform in build/NAME and runs them. Prints the counts of
# each suite, what was left out, and `total: N passed, N failed, N skipped`.
#
#     tests/platforms.sh posix         # this machine, with the calls of POSIX instead of Linux's
#     tests/platforms.sh posix quick   # one linkage of each suite, and no suite that takes long
#     tests/platforms.sh musl          # musl: dynamic, static and static-pie, and a program
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
sum() { # sum PROGRAM LOG STATUS: adds the counts of a suite that was run, and prints them
    local p=0 f=0 s=0
    read -r p f s < <(awk '/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ {
        gsub(",", ""); print $1, $3, $5 }' "$2")
    if [ "$3" -ne 0 ] && [ "${f:-0}" -eq 0 ]; then f=1; fi
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0})) skipped=$((skipped + ${s:-0}))
    if [ "${f:-0}" -eq 0 ]; then
        printf '%-4s %-44s %4d passed, 0 failed, %d skipped\n' ok "$1" "$p" "$s"
    else
        printf '%-4s %-44s\n' FAIL "$1"
        grep -v '^ok' "$2" | sed 's/^/    /'
    fi
}

# Each suite as one file without a dynamic linker, which is how musl is used most.
linked() { # linked NAME OPTIONS...
    local suite program
    for suite in sizes contents aligned large threads fork misuse; do
        program=$build/tests/$suite-$1
        musl-gcc -std=c17 -D_GNU_SOURCE -DKEEL_SECURE=0 -DKEEL_DEBUG=0 -O1 -fno-builtin -w \
            -Itests/support -Iin_process/include "${@:2}" -o "$program" "tests/contract/$suite.c" \
            tests/support/{check,check_run,memory}.c "$build/lib/libkeel.a" -lpthread \
            >"$program.log" 2>&1 &&
            CHECK_SECONDS=300 CHECK_LEAVE_OUT="$musl_fails" "$program" >"$program.log" 2>&1
        sum "contract/$suite/$1" "$program.log" $?
    done
}
musl_fails=" handlers_of_other_libraries_allocate_in_forks_of_a_thread_without_a_heap"
musl_fails+=" a_handler_of_another_library_forks " # musl's own malloc fails these, too

# SQLite, which checks its own results; and what it occupies when it does nothing, which must not be
# more than with glibc and glibc's malloc. Its source: the folder KEEL_SQLITE, or a package of npm.
sqlite_sha256=ebf0ed75a7a59dbcb3b24bbd014ef49d9f15bc328e4adcbf516f2a8fadfa2835
database() { # database NAME OPTIONS...
    local folder=$build/sqlite source program=$build/tests/database-$1
    source=${KEEL_SQLITE:-$folder/package/deps/sqlite3}
    mkdir -p "$folder"
    [ -f "$source/sqlite3.c" ] || (cd "$folder" && npm pack --silent better-sqlite3@12.11.1 &&
        echo "$sqlite_sha256  better-sqlite3-12.11.1.tgz" | sha256sum --check --quiet &&
        tar xzf better-sqlite3-12.11.1.tgz) || return 1
    built() { # built COMPILER PROGRAM OPTIONS...
        "$1" -O1 -w -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -I"$source" -static \
            tests/support/database.c "$source/sqlite3.c" -o "$2" "${@:3}" -lm
    }
    [ -x "$folder/with-glibc" ] || built cc "$folder/with-glibc" || return 1
    built musl-gcc "$program" "${@:2}" "$build/lib/libkeel.a" || return 1
    [ "$(nm "$program" | grep -c ' T kl_malloc$')" = 1 ] || { echo "it is without Keel"; return 1; }
    echo "resident when idle: $("$program" idle) KiB, with glibc $("$folder/with-glibc" idle) KiB"
    [ "$("$program" idle)" -le "$("$folder/with-glibc" idle)" ] && "$program"
}
if [ "$name" = musl ]; then
    for objects in /usr/lib/x86_64-linux-musl /usr/lib/musl/lib /usr/local/musl/lib; do
        [ ! -f $objects/rcrt1.o ] || break
    done
    fixed=(-static -no-pie -fno-pie)
    # musl-gcc knows no -static-pie: these are the files and options for which it stands.
    pie=(-fPIE -static -nostartfiles "-Wl,-pie,--no-dynamic-linker,-z,text"
        "$objects/rcrt1.o" "$objects/crti.o" "$objects/crtn.o")
    linked static "${fixed[@]}"
    linked static-pie "${pie[@]}"
    for way in static static-pie; do
        options=("${fixed[@]}")
        [ $way = static ] || options=("${pie[@]}")
        database $way "${options[@]}" >"$build/database.log" 2>&1
        sum "programs/sqlite/$way" "$build/database.log" $?
        grep '^resident' "$build/database.log"
    done
    tests/support/record_musl.sh "$build/recorded" >"$build/recorded.log" 2>&1
    sum recorded "$build/recorded.log" $?
fi
echo "left out: tests whose names match $left_out"
printf 'total: %d passed, %d failed, %d skipped\n' "${passed:-0}" "${failed:-1}" "${skipped:-0}"
[ "${failed:-1}" -eq 0 ]
