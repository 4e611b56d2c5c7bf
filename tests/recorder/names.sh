#!/usr/bin/env bash
# Checks that calls of the own functions of jemalloc, mimalloc, TCMalloc and libkeel are recorded,
# each once: programs/names_* state the expected events of the sizes 1000 to 1999, and the number of
# operations of some kinds.
#
#     tests/recorder/names.sh KEEL LIBRARIES      LIBRARIES: the folder of libkeel_api.so
set -uo pipefail
[ $# -eq 2 ] && [ -x "$1" ] && [ -e "$2/libkeel_api.so" ] || {
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
keel=$(realpath "$1") libraries=$(realpath "$2")
programs=$(realpath "$(dirname "$0")")/programs
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
unset LD_PRELOAD
passed=0 failed=0 skipped=0

# The events as +SIZE and -SIZE.
events() {
    "$keel" export "$1" --to numbered 2>/dev/null | awk -F '[()]' '
        /^Alloc/ { size[count++] = $2; if ($2 >= 1000 && $2 < 2000) print "+" $2 }
        /^Free/ { if (size[$2] >= 1000 && size[$2] < 2000) print "-" size[$2] }' | paste -sd ' '
}

# The operations of these kinds, as KIND=COUNT.
kinds() {
    local kind
    for kind in $2; do
        kind=${kind%=*}
        "$keel" info "$1" | awk -v kind="$kind" '$1 == kind { n = $2 } END { print kind "=" n+0 }'
    done | paste -sd ' '
}

program() { # program NAME SOURCE FLAG...: compiles the program; the libraries must be installed
    local name=$1 source=$programs/$2 compiler=cc said
    shift 2
    [ "${source##*.}" = c ] || compiler=c++
    "$compiler" -O1 -fno-builtin -o "$name" "$source" "$@" -Wl,-rpath,"$libraries:$folder" || {
        echo "FAIL $name: it does not compile"
        failed=$((failed + 1))
        return
    }
    "$keel" record --quiet -o "$name.journal.parquet" -- "./$name" 2>"$name.log"
    local code=$? expected expected_kinds
    expected=$(sed -n 's/^\/\/ expect: //p' "$source" | paste -sd ' ')
    expected_kinds=$(sed -n 's/^\/\/ kinds: //p' "$source")
    said=$(events "$name.journal.parquet")
    if [ $code -ne 0 ]; then
        echo "FAIL $name: it ended with $code"
        cat "$name.log"
    elif [ "$said" != "$expected" ]; then
        printf 'FAIL %s: the events are\n    %s\nand not\n    %s\n' "$name" "$said" "$expected"
    elif said=$(kinds "$name.journal.parquet" "$expected_kinds")
        [ "$said" != "$expected_kinds" ]; then
        echo "FAIL $name: the kinds are $said and not $expected_kinds"
    else
        echo "ok   $name"
        passed=$((passed + 1))
        return
    fi
    failed=$((failed + 1))
}

installed=$(ldconfig -p)
# allocator NAME SOURCE LIBRARY PACKAGE
allocator() {
    if grep -q "$3" <<<"$installed"; then
        program "$1" "$2" "-l:$3"
        program "$1-now" "$2" "-l:$3" -Wl,-z,now,-z,relro
    else
        echo "SKIP $1: $3 is not installed (Debian: $4)"
        skipped=$((skipped + 1))
        [ -z "${CI:-}" ] || failed=$((failed + 1))
    fi
}

allocator jemalloc names_jemalloc.c libjemalloc.so.2 libjemalloc2
allocator tcmalloc names_tcmalloc.cpp libtcmalloc_minimal.so.4 libtcmalloc-minimal4
allocator mimalloc names_mimalloc.c libmimalloc.so.2 libmimalloc2.0
for library in keel keel_api; do
    program "$library" names_keel.c -L "$libraries" "-l$library"
    program "$library-no-plt" names_keel.c -fno-plt -L "$libraries" "-l$library"
done

# A limit for a library whose allocations a header of integrations/memory passes to libkeel.
library_budget() {
    local root=$programs/../../.. limit code
    if [ ! -e /usr/include/sqlite3.h ]; then
        echo "SKIP library_budget: sqlite3.h is not installed (Debian: libsqlite3-dev)"
        skipped=$((skipped + 1))
        [ -z "${CI:-}" ] || failed=$((failed + 1))
        return
    fi
    cat >library.c <<'END'
#include <sqlite3.h>
#include "keel_sqlite.h"
int main(void) {
    sqlite3* database;
    if (keel_sqlite_install(kl_heap_new()) != SQLITE_OK) return 1;
    if (sqlite3_open(":memory:", &database) != SQLITE_OK) return 2;
    sqlite3_exec(database, "CREATE TABLE a(b); INSERT INTO a VALUES(zeroblob(50000));", 0, 0, 0);
    return sqlite3_close(database);
}
END
    cc -g -O2 -o library library.c -I "$root/integrations/memory" -I "$root/in_process/include" \
        -lsqlite3 -L "$libraries" -lkeel_api -Wl,-rpath,"$libraries"
    for limit in 1 1000; do
        printf '[[within]]\nfunction = "keel_sqlite_malloc"\nlive_peak = "%s KiB"\n' \
            $limit >budget.toml
        "$keel" check --budget budget.toml -- ./library >library.$limit 2>&1
        code=$?
        if [ $code -ne $((limit < 1000)) ]; then
            echo "FAIL library_budget: with $limit KiB, keel check ended with $code"
            cat library.$limit
            failed=$((failed + 1))
            return
        fi
    done
    echo "ok   library_budget"
    passed=$((passed + 1))
}
library_budget
cc -shared -fPIC -DLIBRARY -fno-builtin -O1 -o liblayer.so "$programs/names_layer.c"
program layer names_layer.c -L . -llayer
cc -shared -fPIC -DNAMES -fno-builtin -O1 -o libnames.so "$programs/names_below.c"
cc -shared -fPIC -DLIBRARY -fno-builtin -O1 -o libbelow.so "$programs/names_below.c" -L . -lnames \
    -Wl,-rpath,"$folder"
program below names_below.c -L . -lbelow -lnames
program absent names_absent.c
echo "total: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
