#!/usr/bin/env bash
# The benchmarks: bench.sh [latency|throughput|journals|record ...]; throughput by default.
# RUNS=N repeats them. ONLY=WORKLOAD,... selects workloads of a suite. KEEL_BENCH_PEERS=DIR names a
# folder with more allocators, each a library for LD_PRELOAD.
# Results go to bench/runs/<date>-<machine>/: tables as Markdown, samples as .json.zst. A run never
# overwrites an earlier one.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh bench
keel=build/bin/keel
runs=${RUNS:-5}
export LC_ALL=C

# As in bench/archive.py: two words of the processor's name, its processors, and whether virtual.
machine() {
    local words virtual=
    words=$(awk -F ': ' '/^model name/ { print tolower($2); exit }' /proc/cpuinfo \
        | grep -oE '[a-z0-9]+' | grep -vxE 'amd|intel|r|tm|cpu|processor|core' |
        head -2 | paste -sd- || true)
    if grep -q ' hypervisor' /proc/cpuinfo; then virtual=-vm; fi
    echo "${words:-unknown}-$(nproc --all)core$virtual"
}

out=bench/runs/$(date +%Y-%m-%d)-$(machine)
mkdir -p "$out"

# suite NAME: measures, prints the tables with the targets, archives tables and samples.
# To read samples: keel bench --from <(zstdcat FILE.json.zst)
suite() {
    "$keel" bench "${ONLY:-$1}" --runs "$runs" --archive "$out" --bars \
        --commit "$(git describe --always --dirty 2>/dev/null || echo unknown)"
    zstd -q -19 --rm "$out"/*.json
}

# free_name NAME EXTENSION: the first of NAME, NAME-2, ... for which there is no file
free_name() {
    local name=$1 number=2
    while [ -e "$out/$name.$2" ]; do name=$1-$number; number=$((number + 1)); done
    echo "$out/$name"
}

for part in "${@:-throughput}"; do
    case $part in
        latency | throughput) suite "$part" ;;
        journals)
            for journal in samples/*.journal.parquet; do
                name=$(basename "$journal" .journal.parquet)
                kept=$(free_name "$name" json.zst)
                rm -rf "build/bench/$name"
                $keel compare "$journal" --pace max --runs "$runs" -o "build/bench/$name" \
                    | tee "$kept.txt"
                zstd -q -19 "build/bench/$name/results.json" -o "$kept.json.zst"
            done ;;
        record) bench/record-overhead/run.py --runs "$runs" ;; # archives its own results
        *) echo "bench: no part $part; use latency, throughput, journals or record" >&2; exit 2 ;;
    esac
done
