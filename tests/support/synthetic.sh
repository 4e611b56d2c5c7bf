#!/usr/bin/env bash
# Runs every synthetic workload on the C library and on Keel behind the bridge, and compares the
# checksums. Then a pattern with threads: Keel, which dlopen loads there, starts its keeper.
# synthetic.sh PROGRAM PATTERNS BRIDGE LIBKEEL
set -uo pipefail
program=$1 patterns=$2 bridge=$3 library=$4
passed=0 failed=0

# checksum NAME COMMAND...: what the workload reports about its data.
checksum() {
    local name=$1
    shift
    "$@" "$program" "$name" --scale 0.01 --threads 3 | grep -o '"checksum":"[^"]*"'
}

# expect_status TEXT STATUS COMMAND...
expect_status() {
    local text=$1 status=$2
    shift 2
    "$@" >/dev/null 2>&1
    if [ $? = "$status" ]; then passed=$((passed + 1)); else
        echo "FAIL $text"
        failed=$((failed + 1))
    fi
}

for name in $("$program" --list | cut -f1); do
    plain=$(checksum "$name" env)
    keel=$(checksum "$name" env LD_PRELOAD="$bridge" KEEL_BRIDGE="prefix:kl_:$library" \
        GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536)
    if [ -n "$plain" ] && [ "$plain" = "$keel" ]; then passed=$((passed + 1)); else
        echo "FAIL $name: ${plain:-no result} on the C library, ${keel:-no result} on Keel"
        failed=$((failed + 1))
    fi
done
# Each call is timed: 30 rounds of 100 blocks, malloc and free.
times=$(mktemp -u)
timed=$(LD_PRELOAD="$bridge" KEEL_BRIDGE=next KEEL_BRIDGE_TIMES="$times" \
    "$program" simple --scale 0.0001 >/dev/null && cat "$times")
rm -f "$times"
if [[ $timed =~ \"calls\":\ 60[0-9][0-9],.*\"worst_ns\":\ [1-9] ]]; then
    passed=$((passed + 1))
else
    echo "FAIL the times of the calls on the C library: ${timed:-no result}"
    failed=$((failed + 1))
fi
# Three processes of 6,000 calls each count together with the shell that starts them.
shared=$(mktemp) times=$(mktemp)
three="for i in 1 2 3; do '$program' simple --scale 0.0001 >/dev/null & done; wait"
LD_PRELOAD="$bridge" KEEL_BRIDGE=next KEEL_BRIDGE_TIMES="$times" KEEL_BRIDGE_SHARED="$shared" \
    bash -c "$three"
together=$(cat "$times")
rm -f "$shared" "$times"
if [[ $together =~ \"calls\":\ ([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge 18000 ]; then
    passed=$((passed + 1))
else
    echo "FAIL the calls of three processes: ${together:-no result}"
    failed=$((failed + 1))
fi
# Each workload and each pattern states what it stresses, its source and what it does not show.
for listed in "$program" "$patterns"; do
    incomplete=$("$listed" --list | awk -F '\t' 'NF != 5 || /^\t|\t\t|\t$/ { print $1 }')
    if [ -z "$incomplete" ]; then passed=$((passed + 1)); else
        echo "FAIL the description of $incomplete"
        failed=$((failed + 1))
    fi
done
expect_status "a pattern with the keeper" 0 timeout 100 env LD_PRELOAD="$bridge" \
    KEEL_BRIDGE="prefix:kl_:$library" GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536 \
    "$patterns" remote-random
expect_status "an unknown workload" 1 "$program" no-such-workload
expect_status "a scale of 0" 1 "$program" larson --scale 0
expect_status "a bridge without a target" 126 env LD_PRELOAD="$bridge" "$program" --list
expect_status "a library without these functions" 126 env LD_PRELOAD="$bridge" \
    KEEL_BRIDGE="prefix:none_:$library" "$program" --list
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
