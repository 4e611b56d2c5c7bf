#!/usr/bin/env bash
# Runs tests of other projects twice, as they are and with Keel preloaded, and compares the
# verdicts: a test passes here if it ends with Keel as it ends with the C library's malloc.
#
#     tests/others/run.sh LIBKEEL.SO [--only TEST] SUITE[=SOURCES] ...
#
#     glibc=FOLDER      the source of the GNU C library: its malloc/tst-*.c
#     jemalloc=FOLDER   the source of jemalloc: the integration tests of the standard functions
#     ltp=FOLDER        the source of the Linux Test Project, configured (`make autotools`,
#                       `./configure`): its tests of malloc
#     stress-ng         Debian's package: its stressors that allocate, with --verify
#     redis=FOLDER      the source of redis, built with `make MALLOC=libc`: its tests
#     git=FOLDER        the source of git, built with `make NO_GETTEXT=1`: its tests
#     postgres=FOLDER   the source of PostgreSQL, configured and built (also src/test/regress): its
#                       regression tests
#     netsurf=FOLDER    the source of the browser NetSurf with its libraries: their tests
#     python            Debian's package libpython3-testsuite: CPython's own tests, with
#                       PYTHONMALLOC=malloc
#
# No code of these projects is part of the repository, and nothing is fetched. A suite whose source
# or package is missing is skipped with one line. SUITE.sh SOURCES PLACE builds the tests: it
# creates an executable PLACE/tests/NAME for each test, which takes no argument and exits with 0 if
# the test passes, and with 77 or 32 if it cannot run here. Lines `verdict: TEXT` of its output are
# part of the verdict; they may be in any order. Tests that cannot be built alone are listed in
# PLACE/left-out. PLACE/seconds may contain the time limit of one test (default: 300).
#
# A test whose verdicts differ runs again, up to twice, because a busy machine exceeds time limits.
# The differences that are known, with their reasons, are in differences.txt.
set -uo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 2 ] || [ ! -f "$1" ]; then sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
library=$scratch/libkeel.so
cp -L "$1" "$library"
shift
only='*'
if [ "$1" = --only ]; then only=$2; shift 2; fi
ulimit -c 0
passed=0 failed=0 skipped=0

# once FILE PLACE COMMAND...: runs a test in an empty folder and prints its verdict.
once() {
    local file=$1 place=$2 status
    shift 2
    rm -rf "$place"
    mkdir -p "$place/work"
    (cd "$place/work" && TMPDIR=$place/work HOME=$place/work LC_ALL=C.UTF-8 \
        timeout -k 10 "$seconds" "$@" "$file" >"$place/out" 2>"$place/err" </dev/null)
    status=$?
    case $status in
        0) echo pass ;;
        77 | 32) echo unsupported ;;
        124 | 137) echo "time limit" ;;
        *) echo "status $status" ;;
    esac
    sed -n 's/^verdict: //p' "$place/out" | sort
}

compare() { # compare SUITE FILE
    local name attempt plain keel differs results
    name=$(basename "$2")
    for attempt in 1 2 3; do
        plain=$(once "$2" "$scratch/plain" env)
        keel=$(once "$2" "$scratch/keel" env "LD_PRELOAD=$library")
        differs=yes
        if [ "$plain" = "$keel" ]; then differs=; break; fi
    done
    if grep -q 'cannot be preloaded' "$scratch/keel/err"; then
        printf 'FAIL %s %s: the library could not be preloaded\n' "$1" "$name"
        failed=$((failed + 1))
    elif [ -z "$differs" ]; then
        results=$(grep -c '' <<<"$plain")
        printf 'ok   %s %s: %s%s\n' "$1" "$name" "${plain%%$'\n'*}" \
            "$([ "$results" = 1 ] || echo ", $((results - 1)) results equal")"
        passed=$((passed + 1))
    elif grep -q "^$1 $name: " "$folder/differences.txt"; then
        printf 'ok   %s %s: known difference, %s\n' "$1" "$name" \
            "$(sed -n "s/^$1 $name: //p" "$folder/differences.txt")"
        passed=$((passed + 1))
    else
        printf 'FAIL %s %s, C library (-) and Keel (+):\n' "$1" "$name"
        diff -U0 <(echo "$plain") <(echo "$keel") | sed '1,3d;s/^/    /' | head -n 10
        tail -n 3 "$scratch/keel/out" "$scratch/keel/err" | sed 's/^/    /'
        failed=$((failed + 1))
    fi
}

if [[ $(LD_PRELOAD=$library cat /proc/self/maps 2>/dev/null) != *"$library"* ]]; then
    echo "FAIL $library is not loaded by LD_PRELOAD"
    echo "total: 0 passed, 1 failed, 0 skipped"
    exit 1
fi
for argument in "$@"; do
    suite=${argument%%=*}
    sources=
    [ "$suite" = "$argument" ] || sources=${argument#*=}
    if [ ! -x "$folder/$suite.sh" ]; then
        echo "FAIL there is no suite $suite"
        failed=$((failed + 1))
        continue
    fi
    [ -z "$sources" ] || sources=$(realpath -m "$sources")
    mkdir -p "$scratch/$suite/tests"
    if ! "$folder/$suite.sh" "$sources" "$scratch/$suite" >"$scratch/log" 2>&1; then
        echo "SKIP $suite: $(tail -n 1 "$scratch/log")"
        skipped=$((skipped + 1))
        continue
    fi
    [ ! -s "$scratch/$suite/left-out" ] ||
        echo "note $suite leaves out: $(paste -sd' ' "$scratch/$suite/left-out")"
    seconds=300
    [ ! -f "$scratch/$suite/seconds" ] || seconds=$(<"$scratch/$suite/seconds")
    ran=0
    for file in "$scratch/$suite/tests"/$only; do
        [ -x "$file" ] || continue
        compare "$suite" "$file"
        ran=$((ran + 1))
    done
    [ "$ran" -gt 0 ] || { echo "FAIL $suite has no test"; failed=$((failed + 1)); }
    rm -rf "${scratch:?}/$suite"
done
echo "total: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
