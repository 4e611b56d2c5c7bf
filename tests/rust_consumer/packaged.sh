#!/usr/bin/env bash
# Tests the crate `keel-malloc` without its repository: packs it, unpacks it in an empty folder,
# and builds and runs the consumer with it.
#
#     packaged.sh LIBRARY_FOLDER FOLDER      FOLDER is emptied first
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
libraries=$(cd "$1" && pwd)
rm -rf "$2"
mkdir -p "$2"
folder=$(cd "$2" && pwd)
# Not below the repository, so that its files cannot be found.
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT

"$here/../../scripts/crate.sh" "$folder"
tar -C "$empty" -xzf "$folder"/keel-malloc-*.crate
mv "$empty"/keel-malloc-* "$empty/keel-malloc"
for file in LICENSE README.md Cargo.toml build.rs src/lib.rs src/sys.rs c/keel.c c/keel.h; do
    [ -s "$empty/keel-malloc/$file" ] || { echo "$file is not in the package" >&2; exit 1; }
done

# Its C has all that the libraries have.
for override in 0 1; do
    cc -w -fvisibility=hidden -DKEEL_OVERRIDE=$override -c "$empty/keel-malloc/c/keel.c" \
        -o "$empty/keel$override.o"
done
"$here/../linking/bundled.py" "$libraries/libkeel_api.so" "$empty/keel0.o"
"$here/../linking/bundled.py" "$libraries/libkeel.so" "$empty/keel1.o"

mkdir "$empty/consumer"
cp -r "$here"/{Cargo.lock,src} "$empty/consumer"
sed 's|path = "[^"]*"|path = "../keel-malloc"|' "$here/Cargo.toml" >"$empty/consumer/Cargo.toml"
cd "$empty/consumer"
export CARGO_TARGET_DIR=$folder/target
for features in "" override keel-malloc/secure keel-malloc/debug; do
    echo "-- packaged, features: ${features:-none}"
    skipped=()
    # These count Keel's own blocks, or expect that a resize does not move the block.
    [ "$features" != keel-malloc/debug ] ||
        skipped=(-- --skip can_be_controlled --skip is_counted --skip grows_in_place)
    cargo test --release --locked --quiet --features "$features" "${skipped[@]}"
    cargo run --release --locked --quiet --features "$features"
done
if grep in_process "$CARGO_TARGET_DIR"/release/build/keel-*/output; then
    echo "the consumer was built with files of the repository" >&2
    exit 1
fi

# The examples in its documentation.
cargo test --release --locked --quiet --doc --manifest-path ../keel-malloc/Cargo.toml
