#!/usr/bin/env bash
# Runs the unit, contract and stress tests with the allocator's own code, and the tests of the
# recorder that a program starts itself, under ASan, UBSan and TSan. Each has its own build
# (build/address, build/undefined, build/thread). No suppressions. Takes about five minutes on two
# cores, most of it for TSan.
#
#     tests/sanitize.sh [address|undefined|thread ...]
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- address undefined thread
passed=0 failed=0 skipped=0
for sanitizer in "$@"; do
    echo "== $sanitizer"
    log=$(mktemp) began=$SECONDS
    if cmake -S . -B "build/$sanitizer" -G Ninja -DKEEL_SANITIZE="$sanitizer" \
        -DCMAKE_BUILD_TYPE=RelWithDebInfo >"$log" 2>&1; then
        tests/run.sh -B "build/$sanitizer" --progress | tee "$log"
    else
        cat "$log"
    fi
    read -r p f s < <(awk '/^total: / { gsub(",", ""); print $2, $4, $6 }' "$log")
    rm -f "$log"
    echo "== $sanitizer took $((SECONDS - began)) s"
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) skipped=$((skipped + ${s:-0}))
done
echo "all sanitizers: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
