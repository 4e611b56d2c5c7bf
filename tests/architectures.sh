#!/usr/bin/env bash
# Runs tests/emulated.sh for each architecture, and prints a table of the counts at the end.
#
#     tests/architectures.sh [MACHINE...]
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- riscv64 s390x ppc64le loongarch64 aarch64-musl
mkdir -p build
table='' failed=0
for machine in "$@"; do
    tests/emulated.sh "$machine" 2>&1 | tee "build/$machine-tests.log" || failed=1
    counts=$(sed -n 's/^total: //p' "build/$machine-tests.log")
    table+=$(printf '%-13s %s' "$machine" "${counts:-no result}")$'\n'
done
printf '\n%s' "$table"
exit $failed
