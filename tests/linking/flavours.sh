#!/usr/bin/env bash
# flavours.sh SOURCES WORK: a flavour that does not exist is refused by its name, however it is asked for.
set -uo pipefail
sources=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
python3 "$sources/scripts/amalgamate.py" single || exit 1
passed=0 failed=0

refuses() { # refuses COMMAND...: it fails, and says why
    if ! "$@" >log 2>&1 && tr -s '\n ' ' ' <log | grep "kept for .*flavour.* that do.* not exist yet" >/dev/null; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $*"
        cat log
    fi
}

for flavour in SECURE DEBUG; do
    refuses cmake -S "$sources" -B build "-DKEEL_$flavour=ON"
    refuses "${CC:-cc}" -fsyntax-only "-DKEEL_$flavour=1" single/keel.c
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
