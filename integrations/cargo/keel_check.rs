//! `tests/keel_check.rs` of a Rust package: its program keeps `budget.toml`. Change the name of the
//! program in `CARGO_BIN_EXE_program`. The lines of the program are named if the profile of the
//! tests has debug information, as it has by default.

use std::process::Command;

#[test]
fn the_program_keeps_its_budget() {
    let mut keel = Command::new("keel");
    keel.args(["check", "--budget", "budget.toml", "--", env!("CARGO_BIN_EXE_program")]);
    let output = match keel.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: keel is not installed");
            return;
        }
        Err(error) => panic!("keel: {error}"),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
