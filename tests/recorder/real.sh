#!/usr/bin/env bash
# Runs real programs twice: unchanged, and recorded with all their children. Output and exit status
# must be the same, no process may be left behind, and each journal must keep every rule (`keel info
# --verify`: no free of a block that is not live, no allocation of a live block).
#
#     tests/recorder/real.sh KEEL TOOLS [--all] [NAME ...]
#
# TOOLS is the folder of the built test programs. The programs are NAME.sh in tests/programs and in
# its folder large; without --all, only some of large are run. The first lines of each name the
# commands that it needs. If one is not installed, the program is skipped with a message; when CI is
# set, this is a failure.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../support/needs.bash"
[ $# -ge 2 ] && [ -x "$1" ] && [ -x "$2/overseer" ] || {
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
keel=$(realpath "$1") tools=$(realpath "$2") programs=$(realpath "$here/../programs")
export PATH=$PATH:/usr/sbin:/usr/games
shift 2
usual=(compressors compiler git java node perl python redis sort sqlite)
usual_large=(chromium freeciv openttd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
passed=0 failed=0 skipped=0

source_of() { # source_of NAME
    local folder
    for folder in "$programs" "$programs/large"; do
        [ ! -f "$folder/$1.sh" ] || { echo "$folder/$1.sh"; return; }
    done
}

report() { # report VARIANT FIELD
    sed -n "s/.*\"$2\": \(\[[^]]*\]\|[^,}]*\).*/\1/p" "$scratch/at/$1/report.json"
}

number() { # number FIELD: of a journal's facts
    sed -n "s/^    \"$1\": \([0-9]*\).*/\1/p" <<<"$words" | sed -n 1p
}

# verify: every journal of the run; sets operations, journals, stalls, stalled_ms and fault.
verify() {
    local journal words
    operations=0 journals=0 stalls=0 stalled_ms=0 fault=
    for journal in "$scratch"/journals/*.parquet; do
        words=$("$keel" info --json --verify "$journal" 2>&1) ||
            fault="$(basename "$journal"): $(grep -m 1 violation <<<"$words")"
        journals=$((journals + 1))
        operations=$((operations + $(number operations)))
        stalls=$((stalls + $(number stalls)))
        stalled_ms=$((stalled_ms + $(number stalled_ns) / 1000000))
        grep -q '^    "drops": 0' <<<"$words" ||
            fault="$(basename "$journal"): something was dropped"
    done
    [ "$journals" -gt 0 ] || fault="there is no journal"
}

judge() { # judge NAME SECONDS
    local plain=$scratch/at/plain recorded=$scratch/at/recorded
    verify
    if [ "$(report plain status)" != "$(report recorded status)" ]; then
        printf 'FAIL %s: status %s, recorded %s\n' "$1" \
            "$(report plain status)" "$(report recorded status)"
        tail -n 20 "$recorded/err"
    elif ! cmp -s "$plain/out" "$recorded/out"; then
        printf 'FAIL %s printed different output when recorded:\n' "$1"
        diff "$plain/out" "$recorded/out" | sed -n 1,20p
    elif [ ! -s "$plain/out" ]; then
        printf 'FAIL %s printed nothing that could be compared\n' "$1"
    elif [ "$(report recorded left)" != '[]' ]; then
        printf 'FAIL %s left processes behind: %s\n' "$1" "$(report recorded left)"
    elif [ -n "$fault" ]; then
        printf 'FAIL %s: %s\n' "$1" "$fault"
    else
        local format='%s (%s s, %s equal lines, %s journals, %s operations, %s waits of %s ms)'
        printf "ok   $format\\n" \
            "$1" "$2" "$(wc -l <"$plain/out")" "$journals" "$operations" "$stalls" "$stalled_ms"
        passed=$((passed + 1))
        return
    fi
    failed=$((failed + 1))
}

all=
[ "${1:-}" != --all ] || { all=yes; shift; }
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    names=("${usual[@]}" "${usual_large[@]}")
    [ -z "$all" ] || for file in "$programs"/large/*.sh; do
        [[ " ${names[*]} " == *" $(basename "$file" .sh) "* ]] || names+=("$(basename "$file" .sh)")
    done
fi
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
    mkdir "$scratch/journals"
    if ! "$programs/once.sh" prepare "$tools" "$source" "$scratch/at" >"$scratch/log" 2>&1; then
        printf 'FAIL %s: its input could not be created\n' "$name"
        tail -n 20 "$scratch/log"
        failed=$((failed + 1))
    else
        "$programs/once.sh" run "$tools" "$source" "$scratch/at" plain & # beside the other
        "$programs/once.sh" run "$tools" "$source" "$scratch/at" recorded \
            "$keel" record --quiet --follow-children -o "$scratch/journals/x.journal.parquet" --
        wait
        judge "$name" $((SECONDS - start))
    fi
    rm -rf "${scratch:?}"/*
done
echo "total: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
