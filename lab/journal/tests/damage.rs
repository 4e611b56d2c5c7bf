//! A damaged file, or a file that is not a journal, always causes an error that states what to do.
//! It never causes a panic or a wrong event.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use keel_journal::{Error, Event, Op, Reader, Selection, analysis, slice};
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

/// A number as Thrift writes it, in ten bytes.
fn thrift(number: i64) -> [u8; 10] {
    let bits = ((number << 1) ^ (number >> 63)) as u64;
    std::array::from_fn(|index| {
        let more = if index < 9 { 0x80 } else { 0 };
        (bits >> (7 * index)) as u8 & 0x7f | more
    })
}

/// A journal of three row groups whose footer states `rows` rows for each of them.
fn with_rows(path: &Path, rows: i64) {
    use parquet::file::metadata::{
        ParquetMetaDataBuilder, ParquetMetaDataReader, ParquetMetaDataWriter,
    };
    // Numbers of ten bytes whose sum does not overflow in the library that writes them.
    const STATED: [i64; 3] = [(1 << 62) + 1, -(1 << 62) - 1, (1 << 62) + 1];
    let (events, metadata) = common::sample(160);
    common::write(path, &events, &metadata, 60);
    let bytes = std::fs::read(path).unwrap();
    let file = std::fs::File::open(path).unwrap();
    let parquet = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    assert_eq!(parquet.num_row_groups(), STATED.len());
    let mut damaged = ParquetMetaDataBuilder::new(parquet.file_metadata().clone());
    for (group, stated) in parquet.row_groups().iter().zip(STATED) {
        let group = group.clone().into_builder().set_num_rows(stated).build().unwrap();
        damaged = damaged.add_row_group(group);
    }
    let length = bytes.len();
    let footer = u32::from_le_bytes(bytes[length - 8..length - 4].try_into().unwrap()) as usize;
    let mut copy = bytes[..length - 8 - footer].to_vec();
    ParquetMetaDataWriter::new(&mut copy, &damaged.build()).finish().unwrap();
    let mut found = 0;
    for at in 0..copy.len() - 10 {
        if STATED.iter().any(|stated| copy[at..at + 10] == thrift(*stated)) {
            copy[at..at + 10].copy_from_slice(&thrift(rows));
            found += 1;
        }
    }
    assert!(found >= STATED.len(), "{found} numbers of rows");
    rewrite(path, &copy);
}

#[test]
fn a_footer_may_state_any_number_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    for rows in [i64::MAX, i64::MIN, -1, 0, 1 << 40] {
        with_rows(&path, rows);
        let Ok(reader) = Reader::open(&path) else { continue };
        assert!(reader.rows() >= u64::try_from(rows).unwrap());
        assert!(reader.column_sizes().iter().all(|column| column.compressed < 1 << 20));
        assert_eq!(read_all(&path).is_err(), rows != 0, "{rows}");
    }
}

/// A journal of one malloc, which a foreign tool wrote: some columns have these values.
fn with_values(path: &Path, values: &[(&str, i64)]) {
    with_rows_of_values(path, &[values]);
}

/// The same with a malloc for each list of values.
fn with_rows_of_values(path: &Path, rows: &[&[(&str, i64)]]) {
    // -1 is no value.
    let row = [
        ("time", 5),
        ("begin", -1),
        ("thread", 0),
        ("op", i64::from(Op::Malloc as u8)),
        ("size", 8),
        ("align", -1),
        ("created", 1),
        ("released", -1),
        ("frame", 0),
        ("module", -1),
        ("stack", -1),
        ("free_hint", -1),
        ("hint_size", -1),
        ("hint_align", -1),
    ];
    let columns: String = row.iter().map(|(name, _)| format!("REQUIRED INT64 {name};")).collect();
    let schema = Arc::new(parse_message_type(&format!("message m {{ {columns} }}")).unwrap());
    let file = std::fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (name, value) in row {
        let of_row = |values: &&[(&str, i64)]| {
            let changed = values.iter().find(|(changed, _)| *changed == name);
            changed.map_or(value, |(_, value)| *value)
        };
        let values: Vec<i64> = rows.iter().map(of_row).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    let metadata = r#"{"version": 1, "threads": [{"id": 7}]}"#;
    writer.append_key_value_metadata(KeyValue::new("keel.journal".to_owned(), metadata.to_owned()));
    writer.close().unwrap();
}

/// A fuzzer found that `analyse` panicked here.
#[test]
fn times_that_decrease_are_an_error_of_the_rules_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("times.parquet");
    let later: &[(&str, i64)] = &[("time", 2100), ("created", 1)];
    with_rows_of_values(&path, &[later, &[("time", 5), ("created", 2)]]);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(read_all(&path).unwrap().len(), 2);
    assert_eq!(analysis::analyse(&reader, &mut |_| {}).unwrap().duration_ns, 2100);
    assert!(analysis::verify(&reader, &mut |_| {}).unwrap().is_some());
    let selection = Selection { from: 1000, ..Selection::default() };
    let sliced = slice(&reader, &selection, &folder.path().join("out"), &mut |_| {});
    assert!(sliced.unwrap_err().to_string().contains("is before"));
}

/// Readers index tables by these numbers: a row that names thread 4,294,967,295 made `analyse` ask
/// for 53.8 GB.
#[test]
fn numbers_that_no_rule_allows_are_errors_before_a_table_is_indexed_by_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    with_values(&path, &[]);
    assert_eq!(read_all(&path).unwrap().len(), 1);
    for (column, value, expected) in [
        ("thread", u32::MAX.into(), "row 0: it is of thread 4294967295, but the metadata lists 1"),
        ("thread", 1, "row 0: it is of thread 1, but the metadata lists 1"),
        ("created", i64::MAX, "row 0: it creates object 9223372036854775807, but at most 1 can"),
    ] {
        with_values(&path, &[(column, value)]);
        let reader = Reader::open(&path).unwrap();
        let read = read_all(&path).unwrap_err().to_string();
        let analysed = analysis::analyse(&reader, &mut |_| {}).unwrap_err().to_string();
        let selection = Selection { threads: Some([0].into()), ..Selection::default() };
        let sliced = slice(&reader, &selection, &folder.path().join("out"), &mut |_| {});
        for error in [read, analysed, sliced.unwrap_err().to_string()] {
            assert!(error.contains(expected) && error.contains("numbers.parquet"), "{error}");
        }
    }
}

#[test]
fn an_unfinished_journal_is_not_overwritten() {
    use keel_journal::{Options, Writer};
    let folder = tempfile::tempdir().unwrap();
    let (path, partial) =
        (folder.path().join("j.parquet"), folder.path().join("j.parquet.partial"));
    std::fs::write(&partial, "of a writer that was killed").unwrap();
    let error = Writer::create(&path).err().unwrap();
    assert!(matches!(error, Error::Unfinished { .. }), "{error}");
    assert!(error.to_string().contains("keel import"), "{error}");
    assert_eq!(std::fs::read(&partial).unwrap(), b"of a writer that was killed");
    let options = Options { replace_partial: true, ..Options::default() };
    drop(Writer::with_options(&path, options).unwrap());
    assert!(!partial.exists());
}

#[test]
fn links_with_temporary_names_are_not_followed() {
    use keel_journal::{Options, Writer};
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    let path = folder.path().join("j.parquet");
    let link = |name: &str| std::os::unix::fs::symlink(&precious, folder.path().join(name));
    link("j.parquet.partial").unwrap();
    assert!(Writer::create(&path).is_err());
    let options = Options { replace_partial: true, rows_per_group: 60, ..Options::default() };
    let mut writer = Writer::with_options(&path, options).unwrap();
    let (events, metadata) = common::sample(160);
    writer.push_batch(&events).unwrap();
    writer.finish(metadata).unwrap();
    // A finished journal without its footer is what a killed writer leaves.
    let bytes = std::fs::read(&path).unwrap();
    let partial = folder.path().join("cut");
    rewrite(&partial, &bytes[..bytes.len() - 100]);
    link("salvaged.salvage").unwrap();
    keel_journal::salvage(&partial, &folder.path().join("salvaged")).unwrap();
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
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
