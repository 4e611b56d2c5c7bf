# For the scripts that test with musl, which source this file. They set:
#
#     build     the folder of the build
#     musl_cc   the compiler for musl, and glibc_cc the one for glibc on the same architecture
#     objects   the folder with musl's rcrt1.o
#     emulator  the words that start a program, or nothing
#     passed, failed, skipped    the counts, to which the functions add

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

# musl's own malloc fails these, too.
musl_fails=" handlers_of_other_libraries_allocate_in_forks_of_a_thread_without_a_heap"
musl_fails+=" a_handler_of_another_library_forks "

# Each suite as one file without a dynamic linker, which is how musl is used most.
linked() { # linked NAME OPTIONS...
    local suite program
    for suite in sizes contents aligned large threads fork misuse; do
        program=$build/tests/$suite-linked-$1
        # shellcheck disable=SC2086
        $musl_cc -std=c17 -D_GNU_SOURCE -DKEEL_SECURE=0 -DKEEL_DEBUG=0 -O1 -fno-builtin -w \
            -Itests/support -Iin_process/include "${@:2}" -o "$program" "tests/contract/$suite.c" \
            tests/support/{check,check_run,memory}.c "$build/lib/libkeel.a" -lpthread \
            >"$program.log" 2>&1 &&
            CHECK_SECONDS=300 CHECK_LEAVE_OUT="$musl_fails${CHECK_LEAVE_OUT:-}" \
                $emulator "$program" >"$program.log" 2>&1
        sum "contract/$suite/$1" "$program.log" $?
    done
}

# SQLite, which checks its own results; and what it occupies when it does nothing, which must not be
# more than with glibc and glibc's malloc. Its source: the folder KEEL_SQLITE, or a package of npm.
sqlite_sha256=ebf0ed75a7a59dbcb3b24bbd014ef49d9f15bc328e4adcbf516f2a8fadfa2835
database() { # database NAME OPTIONS...
    local folder=$build/sqlite source program=$build/tests/database-$1 keel glibc
    source=${KEEL_SQLITE:-$folder/package/deps/sqlite3}
    mkdir -p "$folder"
    [ -f "$source/sqlite3.c" ] || (cd "$folder" && npm pack --silent better-sqlite3@12.11.1 &&
        echo "$sqlite_sha256  better-sqlite3-12.11.1.tgz" | sha256sum --check --quiet &&
        tar xzf better-sqlite3-12.11.1.tgz) || return 1
    built() { # built COMPILER PROGRAM OPTIONS...
        $1 -O1 -w -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -I"$source" -static \
            tests/support/database.c "$source/sqlite3.c" -o "$2" "${@:3}" -lm
    }
    [ -x "$folder/with-glibc" ] || built "$glibc_cc" "$folder/with-glibc" || return 1
    built "$musl_cc" "$program" "${@:2}" "$build/lib/libkeel.a" || return 1
    [ "$(nm "$program" | grep -c ' T kl_malloc$')" = 1 ] || { echo "it is without Keel"; return 1; }
    # shellcheck disable=SC2086
    keel=$($emulator "$program" idle) glibc=$($emulator "$folder/with-glibc" idle) || return 1
    echo "resident when idle: $keel KiB, with glibc $glibc KiB"
    # shellcheck disable=SC2086
    [ "$keel" -le "$glibc" ] && $emulator "$program"
}

musl_programs() { # all of these in static and in static-pie programs
    local way options fixed=(-static -no-pie -fno-pie)
    # musl's wrapper of GCC may know no -static-pie: these are the files and options that it means.
    local pie=(-fPIE -static -nostartfiles "-Wl,-pie,--no-dynamic-linker,-z,text"
        "$objects/rcrt1.o" "$objects/crti.o" "$objects/crtn.o")
    for way in static static-pie; do
        options=("${fixed[@]}")
        [ $way = static ] || options=("${pie[@]}")
        linked $way "${options[@]}"
        database $way "${options[@]}" >"$build/database.log" 2>&1
        sum "programs/sqlite/$way" "$build/database.log" $?
        grep '^resident' "$build/database.log"
    done
}
