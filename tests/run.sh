#!/usr/bin/env bash
# Runs all C tests: unit tests of the allocator and the recorder, the contract of malloc, stress
# tests, and real programs. Prints the counts of each suite and `total: N passed, N failed, N
# skipped`.
#
#     tests/run.sh [-B BUILD_DIRECTORY] [-L LABELS] [-E TESTS] [-j JOBS] [--reference] [--progress]
#
#     -L run only tests whose labels match this regular expression, such as contract, stress
#                  or linking (`ctest --print-labels` lists them)
#     -E           leave out tests whose names match this regular expression
#     --fast LABELS  leave out tests whose labels match this regular expression
#     --reference  also run the contract against the C library
#     --progress   print on stderr when each program ends
#
# The closing line of a program, `N passed, N failed, N skipped`, is added to the counts; a program
# without one counts as one test.
set -uo pipefail
cd "$(dirname "$0")/.."
build=build/cmake
selection=(-LE reference)
jobs=$(($(nproc) + 1)) # some tests sleep
exec 3>/dev/null # progress
while [ $# -gt 0 ]; do
    case $1 in
        -B) build=$2; shift 2 ;;
        -L) selection+=(-L "$2"); shift 2 ;;
        -E) selection+=(-E "$2"); shift 2 ;;
        -j) jobs=$2; shift 2 ;;
        --fast) selection=(-LE "$2"); shift 2 ;;
        --progress) exec 3>&2; shift ;;
        --reference) selection=("${selection[@]:2}"); shift ;;
        *) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ ! -f "$build/CMakeCache.txt" ]; then
    cmake -S . -B "$build" -G Ninja >"$log" 2>&1 || { cat "$log"; exit 1; }
fi
echo "building $build" >&3
cmake --build "$build" >"$log" 2>&1 || { cat "$log"; exit 1; }

ctest --test-dir "$build" -V -j "$jobs" "${selection[@]}" 2>&1 | tee "$log" |
    grep --line-buffered -E "^ *[0-9]+/[0-9]+ +Test " >&3
status=${PIPESTATUS[0]}

# The output of ctest -V: `    Start  7: NAME`, then lines `7: OUTPUT`, then
# `3/40 Test  #7: NAME ....   Passed  0.1 sec`.
awk -v status="$status" '
    /^ *Start +[0-9]+: / { sub(/:/, "", $2); name[$2] = $3; next }
    /^[0-9]+: / {
        id = $1; sub(/:/, "", id)
        line = $0; sub(/^[0-9]+: ?/, "", line)
        if (line ~ /^(total: )?[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/) counts[id] = line
        else if (line ~ /^(FAIL|SKIP|skip|explored [^:]*: [0-9]+ schedules)/)
            notable[id] = notable[id] "    " line "\n"
        # The last line before the output of the test itself.
        if (line ~ /^Test timeout computed to be:/) { output[id] = ""; next }
        if (!(id in output)) order[++suites] = id
        output[id] = output[id] "    " line "\n"
        next
    }
    /^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: / {
        match($0, /#[0-9]+:/); id = substr($0, RSTART + 1, RLENGTH - 2)
        verdict[id] = /Passed/ ? "ok" : /Skipped/ ? "skip" : "FAIL"
        seconds[id] = $(NF - 1)
        if (!(id in output)) { order[++suites] = id; output[id] = "" }
    }
    END {
        for (i = 1; i <= suites; i++) {
            id = order[i]
            if (!(id in verdict)) continue
            p = verdict[id] == "ok"; f = verdict[id] == "FAIL"; s = verdict[id] == "skip"
            if (id in counts) {
                split(counts[id], word, /[^0-9]+/)
                first = word[1] == "" ? 2 : 1
                p = word[first]; s = word[first + 2] + 0
                if (f && word[first + 1] == 0) f = 1; else f = word[first + 1] + 0
            }
            passed += p; failed += f; skipped += s
            printf "%-4s %-44s %4d passed, %d failed, %d skipped  (%s s)\n",
                f ? "FAIL" : "ok", name[id], p, f, s, seconds[id]
            if (f) printf "%s", output[id]; else printf "%s", notable[id]
        }
        if (passed + failed == 0) { print "no test was run"; failed = 1 }
        else if (status && !failed) { print "ctest itself failed with status " status; failed = 1 }
        printf "total: %d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit failed > 0
    }' "$log"
