#!/usr/bin/env bash
# crates.sh [FOLDER]: tests the Rust crate `keel` as Cargo packs it, away from the repository:
# everything that `cargo publish` checks, and a program that gets it by a path.
source "$(dirname "$0")/steps.sh"
cd "$work" || exit 1
export CARGO_TARGET_DIR=$work/target

packed() {
    "$root/scripts/crate.sh" "$work/crate" && tar xzf crate/keel-*.crate && mv keel-*/ keel
}
publishes() { cargo publish --dry-run --allow-dirty --manifest-path crate/keel/Cargo.toml; }
documents() { cargo doc --no-deps --manifest-path keel/Cargo.toml; }
program() { # its Vec is memory of Keel
    cargo new --quiet program && cd program && cargo add --quiet --path ../keel &&
        cat >src/main.rs <<'RUST' && cargo run --quiet
#[global_allocator]
static ALLOCATOR: keel::Keel = keel::Keel;
fn main() {
    let numbers: Vec<u64> = (0..1000).collect();
    assert!(keel::contains(numbers.as_ptr()));
}
RUST
}

step "pack" packed
step "cargo publish --dry-run" publishes
step "documentation" documents
step "a program allocates from it" program
finish "Rust crate" "$(ls "$work"/crate/keel-*.crate)" cargo
