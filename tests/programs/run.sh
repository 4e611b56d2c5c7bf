#!/usr/bin/env bash
# Real programs do real work twice: as they are, and with Keel preloaded. Output and exit status must be the same.
#
#     tests/programs/run.sh LIBKEEL.SO STRESS_PROGRAM [NAME ...]
#
# One file a program, NAME.sh, run by bash in an empty folder of its own. Its first lines say what it wants:
#     # needs: COMMAND ...      missing: skipped loudly, and a failure when CI is set
#     # optional: COMMAND ...   missing: left out
# What it prints on stdout is compared; what it starts can be held to `under_keel PID` of support.bash.
set -uo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
source "$folder/../support/needs.bash"
[ $# -ge 2 ] && [ -f "$1" ] && [ -x "$2" ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
library=$(realpath "$1") stress=$(realpath "$2")
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0 skipped=0

# work NAME VARIANT [VARIABLE=VALUE ...]: runs the program in its folder; leaves out, err and status beside it.
work() {
    local name=$1 at=$scratch/$1.$2
    shift 2
    mkdir -p "$at/work"
    (cd "$at/work" && exec env -u CI HOME="$at/work" LC_ALL=C.UTF-8 TZ=UTC STRESS="$stress" SUPPORT="$folder/support.bash" "$@" \
        timeout 600 bash -euo pipefail "$folder/$name.sh") >"$at/out" 2>"$at/err"
    echo $? >"$at/status"
}

judge() { # judge NAME SECONDS
    local plain=$scratch/$1.plain keel=$scratch/$1.keel
    if [ "$(cat "$plain/status")" != 0 ]; then
        printf 'FAIL %s does not work without Keel either (status %s)\n' "$1" "$(cat "$plain/status")"
        tail -n 20 "$plain/err"
    elif grep -q 'cannot be preloaded' "$keel/err"; then
        printf 'FAIL %s: the library could not be preloaded\n' "$1"
        grep -m 1 'cannot be preloaded' "$keel/err"
    elif [ "$(cat "$keel/status")" != 0 ]; then
        printf 'FAIL %s ended with status %s under Keel\n' "$1" "$(cat "$keel/status")"
        tail -n 20 "$keel/err"
    elif ! cmp -s "$plain/out" "$keel/out"; then
        printf 'FAIL %s printed something else under Keel:\n' "$1"
        diff "$plain/out" "$keel/out" | head -n 20
    elif [ ! -s "$plain/out" ]; then
        printf 'FAIL %s printed nothing that could be compared\n' "$1"
    else
        printf 'ok   %s (%s s, %s lines alike)\n' "$1" "$2" "$(wc -l <"$plain/out")"
        passed=$((passed + 1))
        return
    fi
    failed=$((failed + 1))
}

maps=$(LD_PRELOAD=$library cat /proc/self/maps 2>/dev/null)
if [[ $maps != *"$library"* ]]; then
    echo "FAIL $library is not loaded by LD_PRELOAD"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi

names=("$@")
[ ${#names[@]} -gt 0 ] || for file in "$folder"/*.sh; do
    [ "$file" = "$folder/run.sh" ] || names+=("$(basename "$file" .sh)")
done
for name in "${names[@]}"; do
    [ -f "$folder/$name.sh" ] || { echo "FAIL there is no program $name"; failed=$((failed + 1)); continue; }
    command=$(missing needs "$folder/$name.sh")
    if [ -n "$command" ]; then
        printf 'SKIP %s: the command %s is not installed\n' "$name" "$command"
        if [ -n "${CI:-}" ]; then failed=$((failed + 1)); else skipped=$((skipped + 1)); fi
        continue
    fi
    [ -z "$(missing optional "$folder/$name.sh")" ] || continue
    start=$SECONDS
    work "$name" plain &
    work "$name" keel LD_PRELOAD="$library" UNDER_KEEL="$library"
    wait
    judge "$name" $((SECONDS - start))
    rm -rf "$scratch/$name".*
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
