#!/usr/bin/env bash
# same.sh: builds the prefix in a copy of the repository in another folder, with a target folder of
# its own, and compares every file with build/packages/prefix. Takes as long as `make packages`.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
first=$root/build/packages/prefix
[ -e "$first/bin/keel" ] || { echo "same: run make packages first" >&2; exit 1; }
copy=${1:-$(mktemp -d)/another/folder}
mkdir -p "$copy"
git -C "$root" archive HEAD | tar -x -C "$copy"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
"$copy/packaging/prefix.sh" "$copy/build/packages"
if diff -rq --no-dereference "$first" "$copy/build/packages/prefix"; then
    echo "same: $(find "$first" -type f | wc -l) files are equal bit by bit"
else
    exit 1
fi
