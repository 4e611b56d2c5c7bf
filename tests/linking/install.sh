#!/usr/bin/env bash
# install.sh BUILD ROOT: installs the libraries of BUILD to ROOT/prefix, after staging them for
# another prefix: installed files must not depend on the prefix.
set -euo pipefail
build=$1 root=$2
rm -rf "$root"
mkdir -p "$root"
DESTDIR=$root/stage cmake --install "$build" --prefix /opt/keel --component libraries \
    >"$root/install.log"
mv "$root/stage/opt/keel" "$root/prefix"
found=$(grep -rIl -e /opt/keel -e "$root/stage" "$root/prefix" || true)
if [ -n "$found" ]; then
    echo "these files contain their prefix: $found"
    exit 1
fi
