#!/usr/bin/env bash
# Real programs do real work twice: as they are, and recorded with all their children. Output and exit status must be the
# same, and each journal must keep every rule (`keel info --verify`: no free of what is not live, no block born twice).
#
#     tests/recorder/real.sh KEEL [NAME ...]
#
# The programs are those of tests/programs, NAME.sh, and those of tests/recorder/real. Their first lines say what they
# need; what is not installed is skipped loudly, and is a failure when CI is set.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../support/needs.bash"
[ $# -ge 1 ] && [ -x "$1" ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
keel=$(realpath "$1")
export PATH=$PATH:/usr/games
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0 skipped=0

source_of() { # source_of NAME
    local folder
    for folder in "$here/real" "$here/../programs"; do
        [ ! -f "$folder/$1.sh" ] || { realpath "$folder/$1.sh"; return; }
    done
}

# work NAME VARIANT COMMAND...: runs the program by COMMAND in its folder; leaves out, err and status beside it.
work() {
    local source=$1 at=$scratch/$2
    shift 2
    mkdir -p "$at/work" "$at/journals"
    (cd "$at/work" && exec env -u CI HOME="$at/work" LC_ALL=C.UTF-8 TZ=UTC SUPPORT="$here/../programs/support.bash" \
        timeout 900 "$@" bash -euo pipefail "$source") >"$at/out" 2>"$at/err"
    echo $? >"$at/status"
}

# verify: every journal of the run; sets operations, journals, stalls and fault.
verify() {
    local journal words
    operations=0 journals=0 stalls=0 fault=
    for journal in "$scratch"/recorded/journals/*.parquet; do
        words=$("$keel" info --json --verify "$journal" 2>&1) || fault="$(basename "$journal"): $(grep -m 1 violation <<<"$words")"
        journals=$((journals + 1))
        operations=$((operations + $(sed -n 's/^    "operations": \([0-9]*\).*/\1/p' <<<"$words" | head -n 1)))
        stalls=$((stalls + $(sed -n 's/^    "stalls": \([0-9]*\).*/\1/p' <<<"$words" | head -n 1)))
        grep -q '^    "drops": 0' <<<"$words" || fault="$(basename "$journal"): something was dropped"
    done
    [ "$journals" -gt 0 ] || fault="there is no journal"
}

judge() { # judge NAME SECONDS
    local plain=$scratch/plain recorded=$scratch/recorded
    verify
    if [ "$(cat "$plain/status")" != "$(cat "$recorded/status")" ]; then
        printf 'FAIL %s: status %s, recorded %s\n' "$1" "$(cat "$plain/status")" "$(cat "$recorded/status")"
        tail -n 20 "$recorded/err"
    elif ! cmp -s "$plain/out" "$recorded/out"; then
        printf 'FAIL %s printed something else when it was recorded:\n' "$1"
        diff "$plain/out" "$recorded/out" | head -n 20
    elif [ ! -s "$plain/out" ]; then
        printf 'FAIL %s printed nothing that could be compared\n' "$1"
    elif [ -n "$fault" ]; then
        printf 'FAIL %s: %s\n' "$1" "$fault"
    else
        printf 'ok   %s (%s s, %s lines alike, %s journals, %s operations, %s waits)\n' \
            "$1" "$2" "$(wc -l <"$plain/out")" "$journals" "$operations" "$stalls"
        passed=$((passed + 1))
        return
    fi
    failed=$((failed + 1))
}

names=("$@")
[ ${#names[@]} -gt 0 ] || for file in "$here"/real/*.sh "$here"/../programs/{compressors,compiler,git,java,node,perl,python,redis,sort,sqlite}.sh; do
    names+=("$(basename "$file" .sh)")
done
for name in "${names[@]}"; do
    source=$(source_of "$name")
    [ -n "$source" ] || { echo "FAIL there is no program $name"; failed=$((failed + 1)); continue; }
    command=$(missing needs "$source")
    if [ -n "$command" ]; then
        printf 'SKIP %s: the command %s is not installed\n' "$name" "$command"
        if [ -n "${CI:-}" ]; then failed=$((failed + 1)); else skipped=$((skipped + 1)); fi
        continue
    fi
    [ -z "$(missing optional "$source")" ] || continue
    start=$SECONDS
    work "$source" plain & # at the same time: some put the time into their output
    work "$source" recorded "$keel" record --quiet --follow-children -o "$scratch/recorded/journals/x.journal.parquet" -- &
    wait
    judge "$name" $((SECONDS - start))
    rm -rf "${scratch:?}"/*
done
echo "total: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
