#!/usr/bin/env bash
# The crate `keel` without its repository: packs it, unpacks that in an empty folder, and builds and runs the consumer
# against it.
#
#     packaged.sh FOLDER      an empty one is made of it
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$1"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
# Not below the repository, where files of it might still be found.
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT

"$here/../../scripts/crate.sh" "$folder"
tar -C "$empty" -xzf "$folder"/keel-*.crate
mv "$empty"/keel-* "$empty/keel"
for file in LICENSE README.md Cargo.toml build.rs src/lib.rs src/sys.rs c/keel.c c/keel.h; do
    [ -s "$empty/keel/$file" ] || { echo "$file is not in the package" >&2; exit 1; }
done

mkdir "$empty/consumer"
cp -r "$here"/{Cargo.lock,src} "$empty/consumer"
sed 's|path = "[^"]*"|path = "../keel"|' "$here/Cargo.toml" >"$empty/consumer/Cargo.toml"
cd "$empty/consumer"
export CARGO_TARGET_DIR=$folder/target
for features in "" override; do
    echo "-- packaged, features: ${features:-none}"
    cargo test --release --locked --quiet --features "$features"
    cargo run --release --locked --quiet --features "$features"
done
if grep in_process "$CARGO_TARGET_DIR"/release/build/keel-*/output; then
    echo "the consumer was built with files of the repository" >&2
    exit 1
fi

# Its own examples in the documentation.
cargo test --release --locked --quiet --doc --manifest-path ../keel/Cargo.toml

# What does not exist is refused by name, with what to do.
for flavour in secure debug; do
    if cargo build --release --quiet --features "keel/$flavour" 2>refused; then
        echo "a flavour that does not exist was built: $flavour" >&2
        exit 1
    fi
    grep "the feature \`$flavour\` is a name kept for a flavour of Keel that does not exist yet" refused
done
