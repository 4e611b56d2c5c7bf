#!/usr/bin/env bash
# tarball.sh [FOLDER]: packs FOLDER/prefix (packaging/prefix.sh) as FOLDER/keel-VERSION-ARCH.tar.xz.
# It runs in any folder: every file finds its parts relative to itself. The same prefix gives the
# same bytes.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${1:-$root/build/packages}")
source "$root/packaging/version.sh"
name=keel-$VERSION-linux-$KEEL_MACHINE
tar --create --directory "$out/prefix/.." --transform "s,^prefix,$name,S" --sort=name --format=gnu \
    --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --mode=u+w,go=rX prefix |
    xz -9 --threads=1 >"$out/$name.tar.xz"
bytes=$(stat -c %s "$out/$name.tar.xz")
[ "$bytes" -le 40000000 ] || { echo "tarball: $bytes bytes, more than 40 MB" >&2; exit 1; }
echo "$out/$name.tar.xz"
