//! The examples of docs/guide/other-tools.md run on a shipped journal and give the same results as
//! this crate.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use keel_journal::{Reader, Writer};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

const PACKAGES: &str = "duckdb pandas polars pyarrow";

/// Returns a Python with these packages: the Python of `make test`, or the one on the path.
fn python() -> Option<PathBuf> {
    let candidates = [root().join("build/venv/bin/python"), PathBuf::from("python3")];
    candidates.into_iter().find(|python| {
        let probe = Command::new(python)
            .args(["-c", "import duckdb, pandas, polars, pyarrow.parquet"])
            .output();
        probe.is_ok_and(|output| output.status.success())
    })
}

/// The Python examples of the guide, in order, as one program.
fn examples() -> String {
    let guide = std::fs::read_to_string(root().join("docs/guide/other-tools.md")).unwrap();
    let pieces: Vec<&str> = guide
        .split("```python\n")
        .skip(1)
        .map(|piece| piece.split("```").next().unwrap())
        .collect();
    assert_eq!(pieces.len(), 4, "the guide has an example for each tool");
    pieces.join("\n")
}

/// The expected results: released blocks, blocks released by another thread, peak of live bytes,
/// leaked blocks, operations.
fn facts(journal: &Path) -> [u64; 5] {
    let reader = Reader::open(journal).unwrap();
    let mut live: HashMap<u64, (u64, u32)> = HashMap::new();
    let (mut bytes, mut peak, mut released, mut elsewhere) = (0, 0, 0, 0);
    for event in reader.events().map(|event| event.unwrap()) {
        if let Some((size, thread)) = live.remove(&event.released) {
            bytes -= size;
            released += 1;
            elsewhere += u64::from(thread != event.thread);
        }
        if event.created != 0 {
            live.insert(event.created, (event.size, event.thread));
            bytes += event.size;
        }
        peak = peak.max(bytes);
    }
    [released, elsewhere, peak, live.len() as u64, reader.rows()]
}

#[test]
fn the_guide_s_examples_give_the_right_numbers() {
    let Some(python) = python() else {
        let how = format!("python3 -m venv build/venv && build/venv/bin/pip install {PACKAGES}");
        // `eprintln!` is not used, because the test harness hides its output.
        let message = format!("SKIPPED: the examples of the guide need {PACKAGES}: {how}\n");
        drop(std::io::Write::write_all(&mut std::io::stderr(), message.as_bytes()));
        assert!(std::env::var_os("CI").is_none(), "no test may be skipped in CI: {how}");
        return;
    };
    let shipped = root().join("samples/minetest-slice.journal.parquet");
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("written-now.journal.parquet");
    write_again(&shipped, &written);
    let check = "print(lives[0], lives[2], int(peak), leaked['blocks'][0], \
        int(by_thread.operations.sum()))\n\
                 assert len(sizes) == 10 and len(frames) == 10 and len(threads) == len(by_thread) \
                 and busiest >= 0\n";
    let program = format!("import sys\njournal = sys.argv[1]\n{}\n{check}", examples());
    for journal in [shipped, written] {
        let output = Command::new(&python).arg("-c").arg(&program).arg(&journal).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let found: Vec<u64> = String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .map(|number| number.parse().unwrap())
            .collect();
        assert_eq!(found, facts(&journal), "{}", journal.display());
    }
}

/// Writes the same journal again with the current writer, because an older version may have written
/// the shipped journal.
fn write_again(journal: &Path, output: &Path) {
    let reader = Reader::open(journal).unwrap();
    let mut writer = Writer::create(output).unwrap();
    for batch in reader.batches() {
        writer.push_batch(&batch.unwrap()).unwrap();
    }
    writer.finish(reader.metadata().clone()).unwrap();
}
