//! The golden journals decode to the rows and the metadata that lie beside them: by this crate, and by the reference
//! reader in Python, which shares nothing with it but journal/FORMAT.md.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use keel_journal::{Event, Metadata, Reader, Rules};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Path of each golden journal without its extension.
fn golden() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("journal/golden")).unwrap();
    let names = entries.map(|entry| entry.unwrap().path());
    let mut stems: Vec<PathBuf> =
        names.filter_map(|path| path.to_str()?.strip_suffix(".journal.parquet").map(PathBuf::from)).collect();
    stems.sort();
    assert!(stems.len() >= 3, "golden journals are missing: {stems:?}");
    stems
}

fn with(stem: &Path, extension: &str) -> PathBuf {
    PathBuf::from(format!("{}.{extension}", stem.display()))
}

#[test]
fn golden_journals_decode_to_their_rows() {
    for stem in golden() {
        let reader = Reader::open(with(&stem, "journal.parquet")).unwrap();
        let events: Vec<Event> = reader.events().map(|event| event.unwrap()).collect();
        assert_eq!(
            common::as_text(&events),
            std::fs::read_to_string(with(&stem, "rows")).unwrap(),
            "{stem:?}"
        );
        let metadata = std::fs::read_to_string(with(&stem, "metadata.json")).unwrap();
        assert_eq!(reader.metadata(), &serde_json::from_str::<Metadata>(&metadata).unwrap(), "{stem:?}");
        let mut rules = Rules::new(reader.metadata()).unwrap();
        events.iter().for_each(|event| rules.check(event).unwrap());
    }
}

/// A Python that has pyarrow: that of `make test`, or any on the path.
fn python() -> Option<PathBuf> {
    let candidates = [root().join("build/venv/bin/python"), PathBuf::from("python3")];
    candidates.into_iter().find(|python| {
        let probe = Command::new(python).args(["-c", "import pyarrow.parquet"]).output();
        probe.is_ok_and(|output| output.status.success())
    })
}

#[test]
fn the_reference_reader_sees_the_same() {
    let Some(python) = python() else {
        let how = "python3 -m venv build/venv && build/venv/bin/pip install pyarrow";
        // Written past the test harness, which would hide it.
        let message = format!("SKIPPED: the reference reader needs pyarrow: {how}\n");
        drop(std::io::Write::write_all(&mut std::io::stderr(), message.as_bytes()));
        assert!(std::env::var_os("CI").is_none(), "in CI nothing may be skipped: {how}");
        return;
    };
    let run = |arguments: &[&Path]| {
        let output =
            Command::new(&python).arg(root().join("journal/reader.py")).args(arguments).output().unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    for stem in golden() {
        let journal = with(&stem, "journal.parquet");
        let (success, rows, errors) = run(&[&journal]);
        assert!(success, "{errors}");
        assert_eq!(rows, std::fs::read_to_string(with(&stem, "rows")).unwrap(), "{stem:?}");
        let (success, metadata, errors) = run(&[Path::new("--metadata"), &journal]);
        assert!(success, "{errors}");
        let expected = std::fs::read_to_string(with(&stem, "metadata.json")).unwrap();
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(json(&metadata), json(&expected), "{stem:?}");
    }

    // And what this crate writes today, beyond the golden files, with one byte changed too.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.journal.parquet");
    let (events, metadata) = common::sample(5000);
    common::write(&path, &events, &metadata, 1700);
    let (success, rows, errors) = run(&[&path]);
    assert!(success && rows == common::as_text(&events), "{errors}");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5000] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let (success, _, errors) = run(&[&path]);
    assert!(!success && errors.contains("row group 0 is damaged"), "{errors}");
}
