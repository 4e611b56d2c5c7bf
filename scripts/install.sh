#!/usr/bin/env bash
# install.sh PREFIX: installs what `make build` made into PREFIX/{bin,lib,include}. DESTDIR, if set, goes before it.
# It is `cmake --install`, and sees to it that the lab's programs, which CMake does not build, are there.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${1:?usage: [DESTDIR=FOLDER] install.sh PREFIX}
case $prefix in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac
for program in build/bin/keel build/lib/keel/keel-player build/lib/keel/keel-workload; do
    [ -x "$program" ] || { echo "install: $program is not built; run make build" >&2; exit 1; }
done
cmake --install build/cmake --prefix "$prefix" >build/install.log || { cat build/install.log >&2; exit 1; }
echo "installed into ${DESTDIR:-}$prefix" >&2
