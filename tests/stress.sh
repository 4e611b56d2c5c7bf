#!/usr/bin/env bash
# Two long random tests that verify contents, with new seeds until the time is over: the torture
# (tests/torture), in which the system refuses calls, also on the secure flavour, and the
# multi-threaded stress test, with fewer and more threads than the machine has processors. Needs a
# build (`make build`).
#
#     tests/stress.sh [SECONDS, default 600, half for each] [FIRST_SEED, default from the clock]
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
seed=${2:-$(date +%s)}
build=build/cmake
secure=build/cmake-secure-tests
cmake --build "$build" >/dev/null || exit 1
cmake -S . -B "$secure" -G Ninja -DKEEL_SECURE=ON >/dev/null || exit 1
cmake --build "$secure" --target torture-checked torture-plain >/dev/null || exit 1
library=$(find build/lib build/cmake/lib -name libkeel.so 2>/dev/null | head -n 1)
[ -n "$library" ] || { echo "stress: libkeel.so is not built; run make build" >&2; exit 1; }

passed=0 failed=0
for program in {"$build","$secure"}/tests/torture-{checked,plain}; do
    echo "== $program"
    if $program --seconds $((seconds / 8)) --seed $((seed * 1000)); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
end=$((SECONDS + seconds / 2))
while [ "$SECONDS" -lt "$end" ]; do
    for threads in 1 2 4 16 48; do
        command=(build/cmake/tests/stress --seed "$seed" --threads "$threads" --operations 1000000)
        if line=$(LD_PRELOAD=$PWD/$library timeout 300 "${command[@]}" 2>&1); then
            passed=$((passed + 1))
            echo "ok   $line"
        else
            failed=$((failed + 1))
            printf 'FAIL with status %d: %s\n     to repeat: LD_PRELOAD=%s %s\n' \
                $? "$line" "$library" "${command[*]}"
        fi
        seed=$((seed + 1))
    done
done
echo "total: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
