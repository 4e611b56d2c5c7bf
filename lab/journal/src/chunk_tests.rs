//! The Parquet library reads back every column of numbers, in every encoding.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use super::{Column, DICTIONARY_VALUES, PAGE_ROWS, Packer, SAMPLE_VALUES, Way, WithStatistics};
use crate::encodings::Delta;
use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::reader::ColumnReader;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use std::sync::Arc;

const WAYS: [Way; 6] = [
    Way::Delta(Delta::Bits),
    Way::Delta(Delta::Bytes),
    Way::Delta(Delta::Repeating),
    Way::SmallerDelta,
    Way::Split,
    Way::Dictionary,
];

/// Writes one column and reads it; `None` for a null. Also returns the encodings that the file
/// lists.
fn write_and_read<T: WithStatistics>(
    rows: &[Option<T>],
    way: Way,
) -> (Vec<Option<i64>>, Vec<Encoding>) {
    let kind = if T::BYTES == 4 { "INT32" } else { "INT64" };
    let nullable = rows.iter().any(Option::is_none);
    let repetition = if nullable { "OPTIONAL" } else { "REQUIRED" };
    let schema =
        parse_message_type(&format!("message one {{ {repetition} {kind} number; }}")).unwrap();
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::default()).unwrap();
    let descriptor = file.schema_descr().column(0);
    let values: Vec<T> = rows.iter().copied().flatten().collect();
    let present: Vec<bool> = rows.iter().map(Option::is_some).collect();
    let present = nullable.then_some(present.as_slice());
    let column = Column { values: &values, present, rows: rows.len(), way };
    let mut group = file.next_row_group().unwrap();
    let (bytes, close) = Packer::new(1).unwrap().chunk(&descriptor, &column).unwrap();
    group.append_column(&Bytes::from(bytes), close).unwrap();
    group.close().unwrap();
    read(file.into_inner().unwrap().into())
}

fn read(file: Bytes) -> (Vec<Option<i64>>, Vec<Encoding>) {
    let reader = SerializedFileReader::new(file).unwrap();
    let group = reader.get_row_group(0).unwrap();
    let rows = group.metadata().num_rows() as usize;
    let (mut levels, mut wide) = (Vec::new(), Vec::new());
    match group.get_column_reader(0).unwrap() {
        ColumnReader::Int32ColumnReader(mut reader) => {
            let mut narrow = Vec::new();
            reader.read_records(rows, Some(&mut levels), None, &mut narrow).unwrap();
            wide.extend(narrow.into_iter().map(i64::from));
        }
        ColumnReader::Int64ColumnReader(mut reader) => {
            reader.read_records(rows, Some(&mut levels), None, &mut wide).unwrap();
        }
        _ => panic!("not a column of integers"),
    }
    let encodings = group.metadata().column(0).encodings().collect();
    if levels.is_empty() {
        return (wide.into_iter().map(Some).collect(), encodings);
    }
    let mut values = wide.into_iter();
    (levels.iter().map(|level| if *level == 0 { None } else { values.next() }).collect(), encodings)
}

fn assert_round_trip<T: WithStatistics>(rows: &[Option<T>], way: Way) -> Vec<Encoding> {
    let expected: Vec<Option<i64>> = rows.iter().map(|row| row.map(T::wide)).collect();
    let (found, encodings) = write_and_read(rows, way);
    assert!(found == expected, "{way:?}: {} rows differ", rows.len());
    encodings
}

/// Numbers of every length, with runs of close numbers.
fn numbers() -> impl Strategy<Value = Vec<Option<i64>>> {
    let number = prop_oneof![
        any::<i64>(),
        (0_u32..64).prop_map(|bits| (1_i64 << bits).wrapping_sub(1)),
        (0_u32..64).prop_map(|bits| 1_i64 << bits),
    ];
    let run = (number, prop::collection::vec(prop::option::weighted(0.8, -300_i64..300), 1..200));
    let rows = prop::collection::vec(run, 0..20).prop_map(|runs| {
        let rows = runs.into_iter().flat_map(|(start, steps)| {
            steps.into_iter().map(move |step| Some(start.wrapping_add(step?)))
        });
        rows.collect()
    });
    prop_oneof![rows, prop::collection::vec(prop::option::weighted(0.9, 0_i64..8), 0..3000)]
}

proptest! {
    #[test]
    fn any_numbers_are_read_back(rows in numbers()) {
        let narrow: Vec<Option<i32>> =
            rows.iter().map(|row| row.map(|number| number as i32)).collect();
        let whole: Vec<Option<i64>> = rows.iter().copied().filter(Option::is_some).collect();
        for way in WAYS {
            assert_round_trip(&rows, way);
            assert_round_trip(&narrow, way);
            assert_round_trip(&whole, way);
        }
    }
}

#[test]
fn pages_follow_each_other() {
    let rows = |keep: i64| {
        (0..PAGE_ROWS as i64 * 2 + 77).map(move |row| (row % 5 < keep).then_some(row * 3))
    };
    for way in WAYS {
        assert_round_trip(&rows(5).collect::<Vec<_>>(), way);
        assert_round_trip(&rows(2).collect::<Vec<_>>(), way);
        // A page without values between two pages with values.
        let gap = PAGE_ROWS..2 * PAGE_ROWS;
        let rows = rows(5).enumerate().map(|(row, value)| value.filter(|_| !gap.contains(&row)));
        assert_round_trip(&rows.collect::<Vec<_>>(), way);
    }
}

#[test]
fn too_many_distinct_values_are_not_written_by_dictionary() {
    let few: Vec<Option<i64>> = (0..1000).map(|row| Some(row % 251 * 251)).collect();
    assert!(assert_round_trip(&few, Way::Dictionary).contains(&Encoding::RLE_DICTIONARY));
    let many: Vec<Option<i64>> = (0..3 * DICTIONARY_VALUES as i64).map(Some).collect();
    let encodings = assert_round_trip(&many, Way::Dictionary);
    assert!(encodings.contains(&Encoding::BYTE_STREAM_SPLIT), "{encodings:?}");
    assert!(!encodings.contains(&Encoding::RLE_DICTIONARY), "{encodings:?}");
}

/// If there are few distinct differences, they compress better in whole bytes. Random differences
/// compress better in as few bits as possible.
#[test]
fn the_packing_that_compresses_better_is_chosen() {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state >> 54
    };
    let mut packer = Packer::new(1).unwrap();
    let mut chosen = |step: &mut dyn FnMut() -> u64| {
        let mut sum = 0;
        let mut next = || {
            sum += step() as i64;
            sum
        };
        let values: Vec<i64> = (0..SAMPLE_VALUES).map(|_| next()).collect();
        packer.smaller_delta(&values).unwrap()
    };
    assert_eq!(chosen(&mut random), Delta::Bits);
    let few = [70, 1000, 3, 3, 900, 71, 412, 70];
    assert_eq!(chosen(&mut || few[random() as usize % few.len()]), Delta::Bytes);
}
