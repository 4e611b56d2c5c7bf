#!/usr/bin/env bash
# Replays the bundled excerpts of real journals with verified contents, under the C library and
# with Keel preloaded.
#
#     tests/replay/run.sh REPLAY_TEXT LIBKEEL.SO [JOURNAL.zst ...]
set -uo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
program=$1 library=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- "$folder"/*.journal.zst
passed=0 failed=0
if ! command -v zstd >/dev/null; then
    echo "SKIP the journals are compressed, and the command zstd is not installed"
    if [ -n "${CI:-}" ]; then echo "0 passed, 1 failed, 0 skipped"; exit 1; fi
    echo "0 passed, 0 failed, $# skipped"
    exit 0
fi
for journal in "$@"; do
    plain=$(zstd -dc "$journal" | "$program" 2>&1)
    keel=$(zstd -dc "$journal" | LD_PRELOAD=$library "$program" 2>&1)
    if [[ $plain == *"all contents verified" && $plain == "$keel" ]]; then
        passed=$((passed + 1))
        echo "ok   $(basename "$journal"): $keel"
    else
        failed=$((failed + 1))
        printf 'FAIL %s\n    without: %s\n    with:    %s\n' \
            "$(basename "$journal")" "$plain" "$keel"
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
