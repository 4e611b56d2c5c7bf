#!/usr/bin/env bash
# Compares the table of the document with that of the test.
#
#     document.sh BOUNDED DOCUMENT
set -euo pipefail

difference=$(diff <("$1" --table) <(sed -n '/^| operation/,/^| relief lock/p;/^## Measured/q' "$2")) || {
    echo "FAIL $2 differs from \`bounded --table\`:" >&2
    echo "$difference" >&2
    exit 1
}
