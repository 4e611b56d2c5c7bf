#!/usr/bin/env bash
# install.sh PREFIX: copies what `make build` made to PREFIX/{bin,lib,include}.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${1:?usage: install.sh PREFIX}
install -d "$prefix/bin" "$prefix/lib/keel/peers" "$prefix/include/keel"
install -m 755 build/bin/keel "$prefix/bin/"
install -m 755 build/lib/libkeel.so build/lib/libkeel_recorder.so build/lib/libkeel_record.so "$prefix/lib/"
install -m 644 build/lib/libkeel.a build/lib/libkeel_record.a "$prefix/lib/"
install -m 755 build/lib/keel/keel-player build/lib/keel/keel-workload "$prefix/lib/keel/"
install -m 755 build/lib/keel/peers/*.so "$prefix/lib/keel/peers/"
install -m 644 build/include/keel/* "$prefix/include/keel/"
echo "installed into $prefix" >&2
