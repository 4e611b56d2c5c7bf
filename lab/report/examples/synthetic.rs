//! Writes a synthetic result folder, to try the page and to measure how long it takes to build:
//! `cargo run --release -p keel-report --example synthetic -- FOLDER [ROWS] [RUNS] [ALLOCATORS]`.
#![allow(clippy::unwrap_used, reason = "a developer's tool")]

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder =
        std::path::PathBuf::from(arguments.next().expect("the first argument is a folder"));
    let rows = arguments.next().map_or(1_000_000, |rows| rows.parse().expect("ROWS is a number"));
    let runs = arguments.next().map_or(5, |runs| runs.parse().expect("RUNS is a number"));
    let allocators =
        arguments.next().map_or(5, |count| count.parse().expect("ALLOCATORS is a number"));
    std::fs::create_dir_all(&folder).unwrap();
    common::write(&folder, rows, allocators, runs);
}
