#!/usr/bin/env bash
# notes.sh FILE...: checks that readelf finds the probes in each library, each with two arguments.
set -uo pipefail
passed=0 failed=0
for file; do
    # readelf prints a provider, a name, a line of addresses and the arguments.
    found=$(readelf -n "$file" 2>log | awk '
        $1 == "Provider:" { provider = $2 } $1 == "Name:" { name = $2 }
        $1 == "Arguments:" { print provider ":" name, NF - 1 }' | sort -u | paste -sd ';')
    if [ "$found" = "keel:purged 2;keel:sampled 2;keel:slow_path 2" ] && [ ! -s log ]; then
        passed=$((passed + 1))
    else
        echo "FAIL $file: the probes are: $found"
        cat log
        failed=$((failed + 1))
    fi
done
rm -f log
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
