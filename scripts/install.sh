#!/usr/bin/env bash
# install.sh PREFIX: installs the output of `make build` into PREFIX/{bin,lib,include}, below
# DESTDIR if it is set. It runs `cmake --install` after a check that the lab's programs, which CMake
# does not build, exist.
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
for flavour in cmake cmake-secure cmake-debug; do
    cmake --install "build/$flavour" --prefix "$prefix" >build/install.log ||
        { cat build/install.log >&2; exit 1; }
done
echo "installed into ${DESTDIR:-}$prefix" >&2
