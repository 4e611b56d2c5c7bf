#!/usr/bin/env bash
# install.sh BUILD ROOT: installs the libraries of BUILD under ROOT/prefix, having staged them for another prefix first:
# what is installed must not know where it was meant to lie.
set -euo pipefail
build=$1 root=$2
rm -rf "$root"
mkdir -p "$root"
DESTDIR=$root/stage cmake --install "$build" --prefix /opt/keel --component libraries >"$root/install.log"
mv "$root/stage/opt/keel" "$root/prefix"
found=$(grep -rIl -e /opt/keel -e "$root/stage" "$root/prefix" || true)
if [ -n "$found" ]; then
    echo "knows its prefix: $found"
    exit 1
fi
