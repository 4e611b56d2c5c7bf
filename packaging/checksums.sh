#!/usr/bin/env bash
# checksums.sh [FOLDER]: writes FOLDER/SHA256SUMS, the checksums of the packages in FOLDER
# (build/packages) of this version.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/packaging/version.sh"
cd "${1:-$root/build/packages}"
shopt -s nullglob
sha256sum -- *"$VERSION"*.{tar.xz,whl,deb,cdx.json,md} crate{,s}/*-"$VERSION".crate >SHA256SUMS
echo "$PWD/SHA256SUMS"
