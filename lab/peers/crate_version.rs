//! Build script of every peer: passes the version of the allocator's crate, as in the lockfile, to
//! the shim as `PEER_CRATE` ("tikv-jemalloc-sys 0.7.1+5.3.1").

fn main() {
    println!("cargo:rerun-if-changed=Cargo.lock");
    let root = std::path::PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect(
        "set by \
        cargo",
    ));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect(
        "Cargo.toml is \
        readable",
    );
    let carrier = manifest
        .lines()
        .find_map(|line| line.strip_prefix("carrier = "))
        .expect("Cargo.toml names its carrier")
        .trim_matches('"');
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).expect("Cargo.lock is readable");
    let entry = lock.split("[[package]]").find(|entry| {
        entry.contains(&format!(
            "name = \
        \"{carrier}\"\n"
        ))
    });
    let version = entry
        .and_then(|entry| entry.lines().find_map(|line| line.strip_prefix("version = ")))
        .expect("the carrier is in Cargo.lock")
        .trim_matches('"');
    println!("cargo:rustc-env=PEER_CRATE={carrier} {version}");
}
