#!/usr/bin/env bash
# Runs real programs twice, as they are and with Keel preloaded. Output and exit status must be the
# same, and no process may be left behind.
#
#     tests/programs/run.sh LIBKEEL.SO TOOLS [--large] [NAME ...]
#
# TOOLS is the folder of the built test programs. The programs of this folder are run; with --large
# also those in large/. Each program is a file NAME.sh, which bash runs in an empty folder. Its
# first lines state its requirements:
#     # needs: COMMAND ...      if missing: skipped with a message; a failure if CI is set
#     # optional: COMMAND ...   if missing: not run; with --large skipped like the others
#     # sources: PATTERN ... files below $KEEL_SOURCES, the folder of unpacked source packages; if
#                               missing: like optional
#     # debian: PACKAGE ...     the packages that contain these commands
# The standard output is compared. `preloaded PID` of support.bash checks that a process has loaded
# the library. See also once.sh.
set -uo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
source "$folder/../support/needs.bash"
if [ $# -lt 2 ] || [ ! -f "$1" ] || [ ! -x "$2/stress" ] || [ ! -x "$2/overseer" ]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2
fi
tools=$(realpath "$2")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch" # servers that do not run as root need the library and their folder
library=$scratch/$(basename "$1")
cp "$1" "$library"
chmod 755 "$library"
shift 2
large=
[ "${1:-}" != --large ] || { large=yes; shift; }
export PATH=$PATH:/usr/sbin:/usr/games
if [ -n "${KEEL_SOURCES:-}" ]; then export KEEL_SOURCES=$(realpath "$KEEL_SOURCES"); fi
passed=0 failed=0 skipped=0
packages=()

file_of() { # file_of NAME
    local at
    for at in "$folder" "$folder/large"; do
        [ ! -f "$at/$1.sh" ] || { echo "$at/$1.sh"; return; }
    done
}

# report AT FIELD
report() { sed -n "s/.*\"$2\": \(\[[^]]*\]\|[^,}]*\).*/\1/p" "$1/report.json"; }

judge() { # judge NAME SECONDS
    local plain=$scratch/$1/plain keel=$scratch/$1/keel
    if [ "$(report "$plain" status)" != 0 ]; then
        printf 'FAIL %s fails without Keel too (status %s)\n' "$1" "$(report "$plain" status)"
        tail -n 20 "$plain/err"
    elif grep -q 'cannot be preloaded' "$keel/err"; then
        printf 'FAIL %s: the library could not be preloaded\n' "$1"
        grep -m 1 'cannot be preloaded' "$keel/err"
    elif [ "$(report "$keel" status)" != 0 ]; then
        printf 'FAIL %s ended with status %s with Keel\n' "$1" "$(report "$keel" status)"
        tail -n 20 "$keel/err"
    elif ! cmp -s "$plain/out" "$keel/out"; then
        printf 'FAIL %s has different output with Keel:\n' "$1"
        diff "$plain/out" "$keel/out" | head -n 20
    elif [ ! -s "$plain/out" ]; then
        printf 'FAIL %s has no output to compare\n' "$1"
    elif [ "$(report "$keel" left)" != '[]' ] || [ "$(report "$plain" left)" != '[]' ]; then
        printf 'FAIL %s left processes behind: %s with Keel, %s without\n' "$1" \
            "$(report "$keel" left)" "$(report "$plain" left)"
    else
        printf 'ok   %s (%s s, %s lines equal)\n' "$1" "$2" "$(wc -l <"$plain/out")"
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
[ ${#names[@]} -gt 0 ] || for file in "$folder"/*.sh ${large:+"$folder"/large/*.sh}; do
    case $(basename "$file") in
        run.sh | once.sh) ;;
        *) names+=("$(basename "$file" .sh)") ;;
    esac
done
for name in "${names[@]}"; do
    file=$(file_of "$name")
    if [ -z "$file" ]; then
        echo "FAIL there is no program $name"
        failed=$((failed + 1))
        continue
    fi
    command=$(missing needs "$file")
    [ -n "$command" ] || [ -z "$large" ] || command=$(missing optional "$file")
    if [ -n "$command" ]; then
        printf 'SKIP %s: %s is missing\n' "$name" "$command"
        [[ $command == "\$KEEL_SOURCES"* ]] || packages+=($(sed -n 's/^# debian: //p' "$file"))
        if [ -n "${CI:-}" ]; then failed=$((failed + 1)); else skipped=$((skipped + 1)); fi
        continue
    fi
    [ -z "$(missing optional "$file")" ] || continue
    start=$SECONDS
    mkdir "$scratch/$name"
    if ! "$folder/once.sh" prepare "$tools" "$file" "$scratch/$name" >"$scratch/log" 2>&1; then
        printf 'FAIL %s: its input could not be prepared\n' "$name"
        tail -n 20 "$scratch/log"
        failed=$((failed + 1))
        continue
    fi
    "$folder/once.sh" run "$tools" "$file" "$scratch/$name" plain &
    "$folder/once.sh" run "$tools" "$file" "$scratch/$name" keel \
        env LD_PRELOAD="$library" PRELOADED="$library"
    wait
    judge "$name" $((SECONDS - start))
    rm -rf "${scratch:?}/$name"
done
[ ${#packages[@]} -eq 0 ] ||
    echo "to run the skipped programs: apt-get install --no-install-recommends ${packages[*]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
