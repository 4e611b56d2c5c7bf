#!/usr/bin/env bash
# same.sh [FOLDER]: makes the packages of this commit a second time, in another folder (a new one,
# or a clone of the repository), and compares their checksums with those of build/packages. Takes as
# long as `make packages`. If packages differ, it names the files of the two prefixes that do.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
copy=${1:-$(mktemp -d)/another/folder}
first=$root/build/packages second=$copy/build/packages
[ -e "$first/SHA256SUMS" ] || { echo "same: run make packages first" >&2; exit 1; }
git init --quiet "$copy"
git -C "$copy" fetch --quiet "$root" HEAD
git -C "$copy" checkout --quiet --detach FETCH_HEAD
make --no-print-directory -C "$copy" packages
# `make release` makes more files than `make packages`.
if grep -vxF -f "$first/SHA256SUMS" "$second/SHA256SUMS"; then
    echo "same: the packages above differ from those in $first" >&2
    diff -rq --no-dereference "$first/prefix" "$second/prefix" || true
    exit 1
fi
echo "same: $(wc -l <"$second/SHA256SUMS") packages are equal bit by bit"
