#!/usr/bin/env bash
# Tests the overseer's reports: overseer.sh OVERSEER
set -uo pipefail
overseer=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0

# expect NAME STATUS PATTERN SECONDS COMMAND: checks the status and matches the report with PATTERN,
# an extended regular expression.
expect() {
    local status
    "$overseer" "$folder/report" "$4" bash -c "$5" >/dev/null 2>&1
    status=$?
    if [ "$status" = "$2" ] && grep -qE "\"status\": $2,.*$3" "$folder/report"; then
        passed=$((passed + 1))
    else
        echo "FAIL $1: status $status, $(cat "$folder/report")"
        failed=$((failed + 1))
    fi
}

expect "a command that ends" 3 '"left": \[\]' 60 'exit 3'
expect "a command ended by a signal" 143 '"left": \[\]' 60 'kill -TERM $$'
expect "an orphan that ends by itself" 0 '"left": \[\]' 60 \
    '(setsid bash -c "sleep 0.3; sleep 0.3" &)'
# Waits until the last started process has become `sleep`.
sleeps='until [ "$(cat /proc/$!/comm)" = sleep ]; do sleep 0.05; done'
expect "a process left behind, in its own session" 0 '"left": \["sleep"\]' 60 \
    "setsid sleep 100 & $sleeps; exit 0"
cat >"$folder/parent" <<PARENT
sleep 100 & $sleeps; : >$folder/ready; wait
PARENT
expect "the child of a process left behind" 0 '"left": \["bash","sleep"\]' 60 \
    "setsid bash $folder/parent & until [ -e $folder/ready ]; do sleep 0.05; done; exit 0"
# The process may be killed before it has become `sleep`.
expect "a command that takes too long" 124 '"left": \["(sleep|bash|overseer)"\]' 0.5 \
    'exec sleep 100'
expect "CPU time of a grandchild" 0 '"user_s": ([1-9]|0\.[1-9])' 60 \
    '(bash -c "for ((i = 0; i < 200000; i++)); do :; done")'
expect "faults and context switches" 0 \
    '"minor_faults": [1-9][0-9]*, "major_faults": [0-9]+, "voluntary_switches": [1-9]' 60 \
    'sleep 0.01'
expect "the average of the memory of all processes" 0 '"average_bytes": [2-9][0-9]{7}' 60 \
    '(bash -c "printf -v a %30000000s; sleep 0.6; :"); :'
# A parent that is killed: the command is ended, within a second and the time that it has to end.
cat >"$folder/parent" <<PARENT
"$overseer" "$folder/orphaned" 60 bash -c 'echo \$\$ >$folder/process; exec sleep 50' & wait
PARENT
bash "$folder/parent" &
parent=$!
until [ -s "$folder/process" ]; do sleep 0.05; done
disown $parent
kill -KILL $parent
for ((i = 0; i < 100; i++)); do
    kill -0 "$(cat "$folder/process")" 2>/dev/null || break
    sleep 0.1
done
if [ $i -lt 100 ]; then passed=$((passed + 1)); else
    echo "FAIL the command outlives a parent that was killed"
    failed=$((failed + 1))
fi
expect "no count of system calls unless it is asked for" 0 '"system_calls": -1' 60 'true'
"$overseer" --calls "$folder/report" 60 bash -c 'for i in {1..300}; do kill -0 $$; done; (:)'
count=$(grep -oE '"system_calls": [0-9]+' "$folder/report" | grep -oE '[0-9]+')
if [ "${count:-0}" -ge 300 ] && [ "$count" -lt 2000 ]; then passed=$((passed + 1)); else
    echo "FAIL the count of system calls: $(cat "$folder/report")"
    failed=$((failed + 1))
fi
expect "the peak of a grandchild" 0 '"peak_bytes": [4-9][0-9]{7}' 60 \
    '(bash -c "printf -v a %30000000s; :")'
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
