//! This crate decodes the golden journals to the rows and the metadata in the files beside them. So
//! does the reference reader in Python, which has no code in common with this crate.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use keel_journal::{Event, Metadata, Origin, Reader, Rules};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Path of each golden journal without its extension.
fn golden() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("journal/golden")).unwrap();
    let names = entries.map(|entry| entry.unwrap().path());
    let mut stems: Vec<PathBuf> = names
        .filter_map(|path| path.to_str()?.strip_suffix(".journal.parquet").map(PathBuf::from))
        .collect();
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
        assert_eq!(
            reader.metadata(),
            &serde_json::from_str::<Metadata>(&metadata).unwrap(),
            "{stem:?}"
        );
        let origins = origins(&reader, &events);
        let expected = std::fs::read_to_string(with(&stem, "origins"));
        let unknown = "- -\n".repeat(events.len());
        assert_eq!(common::origins_as_text(&origins), expected.unwrap_or(unknown), "{stem:?}");
    }
}

/// Reads the journal again, with the origins; the events must be the same.
fn origins(reader: &Reader, events: &[Event]) -> Vec<Origin> {
    let mut rules = Rules::new(reader.metadata()).unwrap();
    let (mut batches, mut all) = (reader.batches(), Vec::new());
    let (mut batch, mut batch_origins) = (Vec::new(), Vec::new());
    while batches.next_with_origins(&mut batch, &mut batch_origins).unwrap() {
        assert_eq!(batch, events[all.len()..all.len() + batch.len()]);
        for (event, origin) in batch.iter().zip(&batch_origins) {
            rules.check(event).and_then(|()| rules.check_origin(*origin)).unwrap();
        }
        all.extend_from_slice(&batch_origins);
    }
    assert_eq!(all.len(), events.len());
    all
}

#[test]
fn a_stack_lists_the_innermost_call_first() {
    let path = root().join("journal/golden/v1-origins.journal.parquet");
    let reader = Reader::open(path).unwrap();
    let stacks = &reader.metadata().stacks;
    assert_eq!(stacks.walk(2).collect::<Vec<_>>(), [(1, 1 << 40), (0, 0x2000), (0, 0x1234)]);
    assert_eq!((stacks.walk(4).count(), stacks.walk(Origin::NONE).count()), (0, 0));
    let broken = keel_journal::Stacks {
        sites: vec![(0, 1)],
        nodes: vec![(1, 0), (0, 0)],
        ..Default::default()
    };
    assert_eq!(broken.walk(1).count(), 2, "a cycle ends");
    let mut rules = Rules::new(reader.metadata()).unwrap();
    rules.check(&reader.events().next().unwrap().unwrap()).unwrap();
    for (module, stack) in [(2, Origin::NONE), (Origin::NONE, 4)] {
        rules.check_origin(Origin { module, stack }).unwrap_err();
    }
}

#[test]
fn sites_have_the_names_of_their_calls() {
    let path = root().join("journal/golden/v1-names.journal.parquet");
    let reader = Reader::open(path).unwrap();
    let stacks = &reader.metadata().stacks;
    assert_eq!(stacks.walk_indices(2).collect::<Vec<_>>(), [2, 1, 0]);
    let functions = |site| -> Vec<&str> {
        stacks.names_of(site).iter().map(|name| name.function.as_str()).collect()
    };
    assert_eq!(functions(0), ["<module>"]);
    assert_eq!(functions(1), ["Vec::new", "load"], "the innermost of inlined functions is first");
    assert_eq!((functions(2), functions(3)), (vec![], vec![""]));
    let mut metadata = reader.metadata().clone();
    metadata.stacks.names.swap(0, 3);
    assert!(Rules::new(&metadata).is_err(), "names out of order");
    metadata.stacks.names = vec![keel_journal::NamedCall { site: 4, ..Default::default() }];
    assert!(Rules::new(&metadata).is_err(), "a name of no site");
}

/// Returns a Python with pyarrow: the Python of `make test`, or the one on the path.
fn python() -> Option<PathBuf> {
    let candidates = [root().join("build/venv/bin/python"), PathBuf::from("python3")];
    candidates.into_iter().find(|python| {
        let probe = Command::new(python).args(["-c", "import pyarrow.parquet"]).output();
        probe.is_ok_and(|output| output.status.success())
    })
}

#[test]
fn the_reference_reader_reads_the_same() {
    let Some(python) = python() else {
        let how = "python3 -m venv build/venv && build/venv/bin/pip install pyarrow";
        // `eprintln!` is not used, because the test harness hides its output.
        let message = format!("SKIPPED: the reference reader needs pyarrow: {how}\n");
        drop(std::io::Write::write_all(&mut std::io::stderr(), message.as_bytes()));
        assert!(std::env::var_os("CI").is_none(), "no test may be skipped in CI: {how}");
        return;
    };
    let run = |arguments: &[&Path]| {
        let output = Command::new(&python)
            .arg(root().join("journal/reader.py"))
            .args(arguments)
            .output()
            .unwrap();
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
        let (success, origins, errors) = run(&[Path::new("--origins"), &journal]);
        assert!(success, "{errors}");
        if let Ok(expected) = std::fs::read_to_string(with(&stem, "origins")) {
            assert_eq!(origins, expected, "{stem:?}");
        } else {
            assert_eq!(origins, "- -\n".repeat(rows.lines().count()), "{stem:?}");
        }
        if let Ok(expected) = std::fs::read_to_string(with(&stem, "calls")) {
            let (success, calls, errors) = run(&[Path::new("--calls"), &journal]);
            assert!(success && calls == expected, "{calls}{errors}");
        }
        let (success, metadata, errors) = run(&[Path::new("--metadata"), &journal]);
        assert!(success, "{errors}");
        let expected = std::fs::read_to_string(with(&stem, "metadata.json")).unwrap();
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(json(&metadata), json(&expected), "{stem:?}");
    }

    // Reads a journal that this crate writes now, and then the same journal with one changed byte.
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
