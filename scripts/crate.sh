#!/usr/bin/env bash
# Writes the crate `keel-malloc` as a package without dependencies, which contains all of Keel's C
# as two files.
#
#     crate.sh FOLDER        writes FOLDER/keel-malloc-VERSION.crate, and what it contains to
#                            FOLDER/keel-malloc
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
staged=$folder/keel-malloc

rm -rf "$staged" "$folder"/keel-malloc-*.crate
mkdir -p "$staged"
cp -r "$root"/bindings/rust/{Cargo.toml,build.rs,README.md,src} "$root/LICENSE" "$staged"
# The versions that the consumer is tested with; Cargo drops packages that the crate does not use.
cp "$root/tests/rust_consumer/Cargo.lock" "$staged"
python3 "$root/scripts/amalgamate.py" "$staged/c"
# --no-verify: tests/rust_consumer/packaged.sh builds the package in another folder.
cargo package --quiet --no-verify --allow-dirty --manifest-path "$staged/Cargo.toml" \
    --target-dir "$folder/target"
mv "$folder"/target/package/keel-malloc-*.crate "$folder"
rm -rf "$folder/target"
ls "$folder"/keel-malloc-*.crate
