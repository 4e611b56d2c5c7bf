#!/usr/bin/env bash
# Builds the consumer of the crate `keel-malloc` with Cargo and runs its tests in four ways: with
# Keel compiled from source or installed, each with and without replacing malloc.
#
#     run.sh LIBRARY_FOLDER TARGET_FOLDER
set -euo pipefail
libraries=$(cd "$1" && pwd)
CARGO_TARGET_DIR=$(mkdir -p "$2" && cd "$2" && pwd)
export CARGO_TARGET_DIR
cd "$(dirname "$0")"

consumer() { # consumer FEATURES: runs the tests and the program itself
    echo "-- features: ${1:-none}"
    cargo test --release --locked --quiet --features "$1"
    cargo run --release --locked --quiet --features "$1"
}
compiled() { # compiled FEATURES LIBRARY: checks that the crate has all files of the library
    archive=$(cargo build --release --locked --quiet --features "$1" --message-format=json |
        sed -n '/"build-script-executed"/s|.*"out_dir":"\([^"]*/keel-[^"/]*/out\)".*|\1|p')
    ../linking/bundled.py "$libraries/$2" "$archive/libkeel_bundled.a"
}

consumer ""
compiled "" libkeel_api.so
consumer override
compiled override libkeel.so
export KEEL_LIB_DIR=$libraries LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
consumer system
consumer system,override
