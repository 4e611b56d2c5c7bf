#!/usr/bin/env bash
# Targets with addresses of 32 bits are refused with one sentence: refused.sh CLANG
set -uo pipefail
cd "$(dirname "$0")/../.."
clang=${1:?the clang to compile with}
sentence="Keel needs a target with addresses of 64 bits"
passed=0 failed=0
compile() {
    "$clang" --target="$1" -std=c17 -fsyntax-only -x c in_process/base/attributes.h
}
for target in i386-linux-gnu armv7-linux-gnueabihf wasm32-wasi x86_64-linux-gnux32; do
    errors=$(compile $target 2>&1)
    if [ "$(grep -c 'error:' <<<"$errors")" = 1 ] && grep -q "error:.*$sentence" <<<"$errors"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL %s is not refused with one sentence:\n%s\n' "$target" "$errors"
    fi
done
if compile aarch64-linux-gnu; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "FAIL arm64 is refused"
fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
