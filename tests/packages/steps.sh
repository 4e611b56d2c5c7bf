# shellcheck shell=bash
# Sourced by the tests of packages. Each test installs a package into an empty place, uses it,
# upgrades it and removes it. The last line is the row of the table in docs/reference/packages.md.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(realpath -m "${1:-$root/build/packages}")
work=$(mktemp -d "${TMPDIR:-/tmp}/keel-package.XXXXXX")
trap 'rm -rf "$work"' EXIT
source "$root/packaging/version.sh"
passed=0 failed=0
unset LD_PRELOAD LD_LIBRARY_PATH KEEL_PREFIX PYTHONPATH CFLAGS CXXFLAGS LDFLAGS

# step NAME COMMAND...: runs the command and counts whether it exits with 0.
step() {
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        printf '%-58s ok\n' "$name"
    else
        failed=$((failed + 1))
        printf '%-58s FAILED\n' "$name"
        tail -n 25 "$work/log" | sed 's/^/    /'
    fi
}

# size FILE: in MB, with one digit.
size() { stat -L -c %s "$1" | awk '{ printf "%.1f MB", $1 / 1e6 }'; }

# insight COMMAND...: the step that ends with a page; sets `seconds` to its duration and, in
# brackets, to the time that processors spent on it, which a loaded machine changes little.
insight() {
    local TIMEFORMAT='%R %U %S'
    { time step "first insight: $*" "$@"; } 2>"$work/time"
    seconds=$(awk '{ printf "%.0f s (%.0f s)", $1, $2 + $3 }' "$work/time")
}

# finish PACKAGE FILE CLIENT: prints the row and ends the test.
finish() {
    printf '| %s | %s | %s | %s |\n' "$1" "$(size "$2")" "$3" "${seconds:--}"
    echo "$passed passed, $failed failed, 0 skipped"
    exit $((failed > 0))
}

# The program that the tests record: Python that makes and drops many small objects.
cat >"$work/script.py" <<'SCRIPT'
import json


def make_rows(count):
    return [{"key": str(number), "values": [number] * 5} for number in range(count)]


print(sum(len(json.dumps(make_rows(300))) for _ in range(3)))
SCRIPT
