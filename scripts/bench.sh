#!/usr/bin/env bash
# The benchmarks. Every raw result goes to bench/runs/<date>-<machine>/, a folder that must not exist yet.
# bench.sh [workloads|journals|record ...]; workloads by default. RUNS=N sets the repeats.
set -euo pipefail
cd "$(dirname "$0")/.."
keel=build/bin/keel
machine=$(awk -F ': ' '/model name/ { print tolower($2); exit }' /proc/cpuinfo | tr -cs 'a-z0-9' '-' | sed 's/^-//; s/-$//')
out=bench/runs/$(date +%Y-%m-%d-%H%M)-$machine-$(nproc)cpu
mkdir -p bench/runs
mkdir "$out" # fails if it exists: results are never overwritten

{
    echo "date: $(date -u +%FT%TZ)"
    echo "commit: $(git describe --always --dirty)"
    echo "kernel: $(uname -r)"
    echo "thp: $(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || echo unknown)"
} >"$out/machine.txt"

for part in "${@:-workloads}"; do
    case $part in
        workloads) $keel bench --runs "${RUNS:-5}" -o "$out/workloads.json" | tee "$out/workloads.txt" ;;
        journals)
            for journal in samples/*.journal.parquet; do
                name=$(basename "$journal" .journal.parquet)
                $keel compare "$journal" --pace max --runs "${RUNS:-5}" -o "build/bench/$name" | tee "$out/$name.txt"
                cp "build/bench/$name/results.json" "$out/$name.json"
            done ;;
        record) bench/record-overhead/run.py --runs "${RUNS:-5}" ;; # keeps its own file under bench/runs
        *) echo "bench: there is no part $part; known are workloads, journals, record" >&2; exit 2 ;;
    esac
done
echo "raw results: $out" >&2
