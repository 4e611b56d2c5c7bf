#!/usr/bin/env bash
# Proves properties of the allocator's sources with Frama-C's value analysis (Eva), which follows
# all values of a range at once. A proof fails if an assertion, or the absence of an undefined or
# wrapping operation, is not shown for every value.
#
#     tests/proofs/run.sh [NAME...]
set -euo pipefail
cd "$(dirname "$0")/../.."

command -v frama-c >/dev/null || { echo "SKIP proofs: install frama-c-base" >&2; exit 77; }
flags="-Itests/proofs -Iin_process -include $PWD/tests/proofs/builtins.h
    -DKEEL_COUNT=0 -DKEEL_SECURE=0 -DKEEL_DEBUG=0 -DKEEL_CHECKED=0"
[ $# -gt 0 ] || set -- bits size_class
failed=0
for name in "$@"; do
    log=$(timeout 1800 frama-c -cpp-extra-args="${flags//$'\n'/ }" -machdep gcc_x86_64 -c11 \
        -eva -eva-precision 3 -eva-slevel 20000 -warn-unsigned-overflow \
        -eva-msg-key=-initial-state,-final-states "tests/proofs/$name.c" 2>&1) || true
    if grep -q "100% of the logical properties reached have been proven" <<<"$log" &&
        ! grep -qE "eva:alarm|User Error" <<<"$log"; then
        assertions=$(sed -n 's/^ *Assertions *\([0-9]*\) valid.*/\1/p' <<<"$log")
        echo "ok   $name: $assertions assertions, no alarm"
    else
        failed=$((failed + 1))
        echo "FAIL $name"
        grep -E "eva:alarm|Error" -A2 <<<"$log" | head -40
    fi
done
[ "$failed" -eq 0 ]
