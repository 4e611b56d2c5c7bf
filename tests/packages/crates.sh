#!/usr/bin/env bash
# crates.sh [FOLDER]: tests the Rust crates as Cargo packs them, away from the repository:
# `keel-malloc`, the allocator, and a program that gets it by a path; `keel-lab` and the crates of
# which it is made, as `cargo install` compiles them. `cargo publish --dry-run` compiles each crate
# from its package (30 minutes for the lab on 2 processors; LAB=0 leaves it out).
source "$(dirname "$0")/steps.sh"
cd "$work" || exit 1
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$work/target}

packed() {
    "$root/scripts/crate.sh" "$work/crate" && tar xzf crate/keel-malloc-*.crate &&
        mv keel-malloc-*/ keel-malloc
}
publishes() { cargo publish --dry-run --allow-dirty --manifest-path crate/keel-malloc/Cargo.toml; }
documents() { cargo doc --no-deps --manifest-path keel-malloc/Cargo.toml; }
program() ( # its Vec is memory of Keel
    cargo new --quiet program && cd program && cargo add --quiet --path ../keel-malloc &&
        cat >src/main.rs <<'RUST' && cargo run --quiet
#[global_allocator]
static ALLOCATOR: keel::Keel = keel::Keel;
fn main() {
    let numbers: Vec<u64> = (0..1000).collect();
    assert!(keel::contains(numbers.as_ptr()));
}
RUST
)

lab_packed() {
    "$root/packaging/crates.py" "$work/lab" && for file in lab/*.crate; do
        tar xzf "$file" -C lab || return 1
    done
}
lab_publishes() { # every crate, in the order of their dependencies
    cargo publish --dry-run --workspace --allow-dirty --manifest-path lab/source/Cargo.toml \
        2>&1 | tee published &&
        [ "$(grep -c '^   Verifying' published)" = "$(ls lab/*.crate | wc -l)" ] &&
        [ "$(grep -c 'aborting upload' published)" = "$(ls lab/*.crate | wc -l)" ]
}
lab_installs() { # from the packed crates alone: those that a registry would have are patched in;
    # without optimization, as `cargo publish` has compiled the other crates
    mkdir -p .cargo && echo '[patch.crates-io]' >.cargo/config.toml &&
        for folder in lab/keel-*/; do
            folder=${folder%/}
            [[ $folder == */keel-lab-"$VERSION" ]] || printf '%s = { path = "%s" }\n' \
                "$(basename "${folder%-*}")" "$work/$folder" >>.cargo/config.toml
        done && sed -i '/^name = "keel-/,/^$/{/^source = /d;/^checksum = /d}' \
            "lab/keel-lab-$VERSION/Cargo.lock" &&
        cargo install --debug --locked --path "lab/keel-lab-$VERSION" --root installed &&
        ls installed/bin/keel installed/bin/keel-player installed/bin/keel-workload
}
lab_tries() { # with nothing but the programs that Cargo installed
    mv lab packed && XDG_CACHE_HOME=$work/cache installed/bin/keel try --no-open -a keel,glibc \
        -r 2 -o tried -- python3 script.py && test -s tried/report.html
}
lab_peers() { # from the cache of the first run; another version of the libraries has its own
    local keel=(env XDG_CACHE_HOME="$work/cache" installed/bin/keel)
    "${keel[@]}" allocators >list && cat list && ! grep -v tcmalloc list | grep 'not available' &&
        [ "$(ls cache/keel)" = "$(basename cache/keel/"$VERSION"-*)" ] &&
        "${keel[@]}" bench --suite --quick --help >/dev/null
}

step "pack" packed
step "cargo publish --dry-run" publishes
step "documentation" documents
step "a program allocates from it" program
if [ "${LAB:-1}" = 1 ]; then
    step "the lab: pack" lab_packed
    step "the lab: cargo publish --dry-run" lab_publishes
    step "the lab: cargo install" lab_installs
    insight lab_tries
    step "the lab: every peer loads" lab_peers
fi
finish "Rust crate" "$(ls "$work"/crate/keel-malloc-*.crate)" cargo
