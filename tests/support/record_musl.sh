#!/usr/bin/env bash
# Records a program that uses musl with build/bin/keel, and replays its journal. Ends with counts.
#
#     record_musl.sh FOLDER      an empty or new folder for the program and the journals
#
# tests/recorder/programs/counts.c performs a known number of each operation.
set -uo pipefail
cd "$(dirname "$0")/../.."
folder=${1:?a folder}
mkdir -p "$folder"
passed=0 failed=0
expect() { # expect NAME WORDS TEXT: the text has the words, at the beginning of a line
    if grep -q "^ *$2" <<<"$3"; then
        echo "ok   $1"
        passed=$((passed + 1))
    else
        printf 'FAIL %s: no line begins with %s in:\n%s\n' "$1" "$2" "$(head -n 20 <<<"$3")"
        failed=$((failed + 1))
    fi
}
journal=$folder/counts.journal.parquet
# musl-gcc alone makes no table for unwinding.
said=$(musl-gcc -std=gnu17 -O1 -g -w -fno-builtin -Wl,--eh-frame-hdr \
    tests/recorder/programs/counts.c -o "$folder/counts" -lpthread 2>&1 &&
    build/bin/keel record --stacks 16 -o "$journal" -- "$folder/counts" 3 1000 2>&1)
expect "the program ends well" "keel record: .* operations of 4 threads" "$said"
said=$(build/bin/keel info "$journal" 2>&1)
expect "the allocator is musl's" "allocator .*ld-musl" "$said"
for count in "malloc  *6,0" "calloc  *3,0" "free  *21,0" "realloc  *9,0" "aligned  *9,0"; do
    expect "${count%% *} counts" "$count" "$said"
done
expect "no block stays live" "never freed  *[0-9]* B  *in [01] objects" "$said"
said=$(build/bin/keel blame "$journal" 2>&1)
expect "call stacks have lines" ".*work (counts.c:[0-9]*)" "$said"
said=$(build/bin/keel compare "$journal" -a keel,glibc -r 1 --verify --force \
    -o "$folder/results" 2>&1 && echo "exit 0")
expect "the journal is replayed" "exit 0" "$said"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
