//! A damaged file, or a file that is not a journal, always causes an error that states what to do.
//! It never causes a panic or a wrong event.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use keel_journal::{Error, Event, Reader};
use parquet::data_type::Int64Type;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

fn read_all(path: &Path) -> Result<Vec<Event>, Error> {
    let reader = Reader::open(path)?;
    reader.events().collect()
}

/// Makes a new file each time, because some file systems wait for the disk when an old file is
/// overwritten.
fn rewrite(path: &Path, bytes: &[u8]) {
    drop(std::fs::remove_file(path));
    std::fs::write(path, bytes).unwrap();
}

fn small_journal() -> (Vec<u8>, Vec<Event>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j.parquet");
    let (events, metadata) = common::sample(160);
    common::write(&path, &events, &metadata, 60);
    (std::fs::read(&path).unwrap(), events)
}

#[test]
fn every_truncation_is_an_error() {
    let (bytes, _) = small_journal();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.parquet");
    for length in 0..bytes.len() {
        rewrite(&path, &bytes[..length]);
        let error = read_all(&path).unwrap_err();
        if length >= 4 {
            // If the file has a complete row group, it can be salvaged.
            let known = matches!(error, Error::Truncated { .. } | Error::Partial { .. });
            assert!(known, "{length} bytes: {error}");
        }
    }
}

#[test]
fn every_flipped_byte_is_detected_or_harmless() {
    let (bytes, events) = small_journal();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flipped.parquet");
    for position in 0..bytes.len() {
        let mut copy = bytes.clone();
        copy[position] ^= 1 << (position % 8);
        rewrite(&path, &copy);
        // A byte of the footer may belong to data that is not read, such as statistics.
        if let Ok(read) = read_all(&path) {
            assert!(read == events, "byte {position} changed what was read");
        }
    }
}

#[test]
fn a_damaged_page_is_named_with_its_place() {
    let (mut bytes, _) = small_journal();
    bytes[40] ^= 1;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.parquet");
    rewrite(&path, &bytes);
    let error = read_all(&path).unwrap_err().to_string();
    assert!(error.contains("damaged.parquet is damaged: row group 0, bytes 4 to"), "{error}");
    assert!(error.contains("checksum"), "{error}");
}

#[test]
fn other_kinds_of_files_are_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    let cases: [(&[u8], &str); 4] = [
        (b"", "it is empty"),
        (b"a 16 1000 0 5\nf 1000 0 9\n", "it is text. Turn it into a journal first: keel import"),
        (&[0x28, 0xb5, 0x2f, 0xfd, 0, 0], "compressed with zstd. Turn it into a journal"),
        (&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0], "not a Parquet file"),
    ];
    for (bytes, expected) in cases {
        rewrite(&path, bytes);
        let error = read_all(&path).unwrap_err();
        assert!(
            matches!(error, Error::NotParquet { .. }) && error.to_string().contains(expected),
            "{error}"
        );
    }
    let missing = read_all(Path::new("/nonexistent.parquet")).unwrap_err().to_string();
    assert!(
        missing.contains("/nonexistent.parquet") && missing.contains("No such file"),
        "{missing}"
    );
}

/// A Parquet file with one column and these footer entries.
fn foreign_parquet(path: &Path, entries: Vec<KeyValue>) {
    let schema = Arc::new(parse_message_type("message m { REQUIRED INT64 price; }").unwrap());
    let file = std::fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[1, 2, 3], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    for entry in entries {
        writer.append_key_value_metadata(entry);
    }
    writer.close().unwrap();
}

#[test]
fn foreign_parquet_and_later_versions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.parquet");
    foreign_parquet(&path, vec![]);
    let error = read_all(&path).unwrap_err();
    assert!(
        matches!(error, Error::NotJournal { .. }) && error.to_string().contains("price"),
        "{error}"
    );

    let entry = |text: &str| vec![KeyValue::new("keel.journal".to_owned(), text.to_owned())];
    foreign_parquet(&path, entry("{\"version\": 99, \"new\": [1]}"));
    let error = read_all(&path).unwrap_err();
    assert!(matches!(error, Error::Future { version: 99, .. }), "{error}");

    foreign_parquet(&path, entry("{\"version\": 1}"));
    let error = read_all(&path).unwrap_err().to_string();
    assert!(error.contains("no column `time`"), "{error}");

    foreign_parquet(&path, entry("not json"));
    let error = read_all(&path).unwrap_err().to_string();
    assert!(error.contains("footer, entry keel.journal"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn arbitrary_bytes_never_panic(
        middle in prop::collection::vec(any::<u8>(), 0..300),
        footer in 0u32..400,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("random.parquet");
        rewrite(&path, &middle);
        prop_assert!(read_all(&path).is_err());
        let framed = [b"PAR1", &middle[..], &footer.to_le_bytes(), b"PAR1"].concat();
        rewrite(&path, &framed);
        prop_assert!(read_all(&path).is_err());
    }

    #[test]
    fn a_mangled_journal_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
    ) {
        let (mut bytes, _) = small_journal();
        for (index, value) in changes {
            let position = index.index(bytes.len());
            bytes[position] = value;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mangled.parquet");
        rewrite(&path, &bytes);
        drop(read_all(&path));
    }
}
