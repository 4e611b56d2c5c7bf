#!/usr/bin/env bash
# flavours.sh SOURCES WORK: asking for a flavour that does not exist fails with an error that names
# it, with CMake and with the compiler.
set -uo pipefail
sources=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
python3 "$sources/scripts/amalgamate.py" single || exit 1
passed=0 failed=0

refuses() { # refuses COMMAND...: checks that it fails with the documented error
    if ! "$@" >log 2>&1 && tr -s '\n ' ' ' <log |
        grep "\(kept\|reserved\) for .*flavour.* not exist yet" >/dev/null; then
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
