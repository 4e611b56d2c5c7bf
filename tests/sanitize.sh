#!/usr/bin/env bash
# The units, the contract and the stress with the allocator's own code, and the recorder that a program starts itself,
# under ASan, UBSan and TSan, in builds of their own (build/address, build/undefined, build/thread). No suppressions.
# Some five minutes on two cores, most of it TSan's.
#
#     tests/sanitize.sh [address|undefined|thread ...]
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- address undefined thread
passed=0 failed=0 skipped=0
for sanitizer in "$@"; do
    echo "== $sanitizer"
    log=$(mktemp) began=$SECONDS
    if cmake -S . -B "build/$sanitizer" -G Ninja -DKEEL_SANITIZE="$sanitizer" -DCMAKE_BUILD_TYPE=RelWithDebInfo >"$log" 2>&1; then
        tests/run.sh -B "build/$sanitizer" --progress | tee "$log"
    else
        cat "$log"
    fi
    read -r p f s < <(sed -n 's/^total: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$log")
    rm -f "$log"
    echo "== $sanitizer took $((SECONDS - began)) s"
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) skipped=$((skipped + ${s:-0}))
done
echo "all sanitizers: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
