#!/bin/bash
# Runs in a system: the contract suites and programs, on the C library's malloc and on each flavour.
#
#     inside.sh [small] FLAVOUR...        plain, secure, debug
#
# The folder of this file holds the suites, the libraries and programs.sh. A line of the output is
#     result FLAVOUR NAME PASSED FAILED LEFT_OUT
# or has more about a failure. `small` is for a system with little memory. Tests that fail on the C
# library's malloc, too (for lack of memory, say), are left out.
here=$(cd "$(dirname "$0")" && pwd)
export CHECK_SECONDS=300 CHECK_FORKS=50
suites="sizes contents aligned loading threads fork large"
# Keel guarantees more than the C library in these.
own_suites="footprint misuse"
programs="ls bash python3 perl git apt late"
if [ "$1" = small ]; then
    shift
    suites="aligned loading threads" own_suites="misuse" programs="ls bash late"
fi
echo "wanted $(wc -w <<<"$suites $own_suites $programs")"
echo "system $(ldd --version | sed -n '1s/.* //p') $(uname -r)"

failed_tests() { sed -n 's/^FAIL \([a-z0-9_]*\):.*/\1/p' "$1"; }

run_suite() { # run_suite NAME LOG TEST...
    local name=$1 log=$2
    shift 2
    timeout 900 env "${environment[@]}" CHECK_LEAVE_OUT=" $leave_out " "$here/$name" "$@" \
        >"$log" 2>&1
}

suite() { # suite FLAVOUR NAME: with the caller's variables `environment` and `leave_out`
    local log=/tmp/$1-$2.log failed left=0 name status counts
    local not_run=($leave_out)
    run_suite "$2" "$log"
    status=$?
    mapfile -t failed < <(failed_tests "$log")
    if [ ${#failed[@]} -gt 0 ] && [[ " $suites " == *" $2 "* ]]; then
        (environment=() && run_suite "$2" "/tmp/none-$2.log" "${failed[@]}")
        for name in $(failed_tests "/tmp/none-$2.log"); do
            [[ " ${failed[*]} " != *" $name "* ]] || left=$((left + 1))
            leave_out+=" $name"
        done
    fi
    counts=$(sed -En 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' "$log")
    [ -n "$counts" ] || counts="0 1 0"
    read -r passed broken skipped <<<"$counts"
    if [ $((broken - left)) -gt 0 ]; then grep -A 3 FAIL "$log" | cut -c 1-300; fi
    [ "$status" -le 1 ] || { echo "$2 ended with status $status"; tail -n 5 "$log"; }
    # shellcheck disable=SC2086
    [ -z "${leave_out// /}" ] || echo "left out of $2:" $leave_out
    echo "result $1 $2 $passed $((broken - left)) $((skipped + left + ${#not_run[@]}))"
}

program() { # program FLAVOUR NAME
    local at=/tmp/$1-$2 passed=0
    mkdir -p "$at"
    (cd "$at" && env "${environment[@]}" timeout 600 bash "$here/programs.sh" "$2") \
        >"$at.out" 2>"$at.err"
    echo "status $?" >>"$at.out"
    if [ "$(tail -n 1 "$at.out")" != "status 0" ] || [ "$(wc -l <"$at.out")" -lt 5 ]; then
        echo "$2: $(tail -n 1 "$at.out")"; tail -n 3 "$at.err"
    elif grep -q 'cannot be preloaded' "$at.err"; then
        grep -m 1 'cannot be preloaded' "$at.err"
    elif ! cmp -s "/tmp/none-$2.out" "$at.out"; then
        diff "/tmp/none-$2.out" "$at.out" | head -n 5
    else
        passed=1
    fi
    rm -rf "$at"
    echo "result $1 $2 $passed $((1 - passed)) 0"
}

environment=()
for name in $programs; do program none "$name"; done
for flavour; do
    library=$here/libkeel-$flavour.so
    [ "$flavour" != plain ] || library=$here/libkeel.so
    environment=("LD_PRELOAD=$library" "CHECK_MALLOC_IN=libkeel")
    # As in tests/contract.cmake: other sentences than those that the suite expects.
    other="a_second_free_of_a_large_block_is_detected"
    [ "$flavour" = plain ] || environment+=(KEEL_FOREIGN_FREE=off)
    for name in $suites $own_suites; do
        leave_out=
        case $flavour-$name in
            debug-footprint) # freed blocks stay resident
                echo "result debug footprint 0 0 1"
                continue ;;
            secure-misuse) leave_out=$other ;;
            debug-misuse) leave_out="$other a_free_of_a_block_that_never_was_is_detected" ;;
        esac
        suite "$flavour" "$name"
    done
    leave_out=
    for name in $programs; do program "$flavour" "$name"; done
done
