#!/usr/bin/env bash
# Checks that a deterministic program has the same journal in every recording: the same number of
# operations of each kind, and the same requested sizes and freed blocks in the same order.
#
#     tests/recorder/repeat.sh KEEL TOOLS      TOOLS: the folder of the built test programs
set -uo pipefail
[ $# -eq 2 ] && [ -x "$1" ] && [ -x "$2/stress" ] || {
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
keel=$(realpath "$1") stress=$(realpath "$2")/stress
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export TZ=UTC LC_ALL=C.UTF-8 PERL_HASH_SEED=0
passed=0 failed=0 skipped=0

kinds() { "$keel" info --json "$1" | sed -n '/"operations_by_kind"/,/\]/p'; }

compare() { # compare NAME COMMAND...
    local name=$1 run
    shift
    if ! command -v "$1" >/dev/null; then
        echo "SKIP $name: the command $1 is not installed"
        skipped=$((skipped + 1))
        return
    fi
    for run in 1 2 3; do
        "$keel" record --quiet -o "$run.journal.parquet" -- "$@" >"$run.out" ||
            echo "ended with $?" >>"$run.out"
        kinds "$run.journal.parquet" >"$run.said"
        "$keel" export "$run.journal.parquet" --to numbered 2>/dev/null >>"$run.said"
    done
    if [ ! -s 1.said ] || [ "$(grep -c Alloc 1.said)" -lt 1000 ]; then
        echo "FAIL $name: the first journal has fewer than 1000 allocations"
    elif ! cmp -s 1.out 2.out || ! cmp -s 1.out 3.out; then
        echo "FAIL $name printed different output in one of three runs"
    elif ! cmp -s 1.said 2.said || ! cmp -s 1.said 3.said; then
        echo "FAIL $name: three recordings differ:"
        diff 1.said 2.said | sed -n 1,10p
        diff 1.said 3.said | sed -n 1,10p
    else
        count=$(awk -F '[:,]' '/"count"/ { n += $2 } END { print n }' 1.said)
        echo "ok   $name: three recordings of $count operations are equal"
        passed=$((passed + 1))
        return
    fi
    failed=$((failed + 1))
}

cat >work.sql <<'SQL'
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, data BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO item SELECT i, 'item ' || (i * 7919 % 100003), zeroblob(i % 900) FROM n;
CREATE INDEX by_name ON item(name);
SELECT count(*), group_concat(name) FROM item WHERE id % 7 = 0;
SQL
compare sqlite sqlite3 :memory: ".read work.sql"
compare perl perl -e 'my %t; $t{"k" . $_ * 7919 % 977} .= "x" x ($_ % 60) for 1 .. 30000;
    print scalar(keys %t), "\n"; my @s = sort map { scalar reverse } values %t;
    print length("@s"), "\n"'
compare stress "$stress" --seed 3 --threads 1 --operations 60000
echo "total: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
