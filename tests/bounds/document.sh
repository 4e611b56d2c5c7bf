#!/usr/bin/env bash
# Compares the table of the document with that of the test.
#
#     document.sh BOUNDED DOCUMENT
set -euo pipefail

stated() { sed -n '/^| operation/,/^| relief lock/p;/^## Measured/q' "$1"; }
difference=$(diff <("$1" --table) <(stated "$2")) || {
    echo "FAIL $2 differs from \`bounded --table\`:" >&2
    echo "$difference" >&2
    exit 1
}
