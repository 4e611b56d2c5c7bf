//! The binary blocks of the page, decoded again: every operation is counted once and in the right
//! cell.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use base64::Engine as _;
use keel_report::{Options, ReportError, build};
use keel_results::Comparison;
use serde_json::Value;
use std::io::Read as _;

/// The text of an element of the page.
fn element<'a>(html: &'a str, id: &str) -> &'a str {
    let start = html.find(&format!("id=\"{id}\">")).unwrap_or_else(|| panic!("no element {id}"));
    let text = &html[start + id.len() + 6..];
    &text[..text.find("</script>").unwrap()]
}

fn inflate(html: &str, id: &str) -> Vec<u8> {
    let packed = base64::engine::general_purpose::STANDARD.decode(element(html, id)).unwrap();
    let mut bytes = Vec::new();
    flate2::read::ZlibDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// A second decoder of the varints, independent of the library.
struct Varints<'a>(&'a [u8]);

impl Varints<'_> {
    fn next(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.0[0];
            self.0 = &self.0[1..];
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return value;
            }
            shift += 7;
        }
    }
}

/// (column, row, count) of every cell, and the number of interrupted calls.
fn cells(html: &str, id: &str, columns: usize) -> (Vec<(usize, u64, u64)>, u64) {
    let bytes = inflate(html, id);
    let mut stream = Varints(&bytes);
    let lengths: Vec<u64> = (0..columns).map(|_| stream.next()).collect();
    let mut cells = Vec::new();
    for (column, length) in lengths.iter().enumerate() {
        let mut row = 0;
        for _ in 0..*length {
            row += stream.next();
            cells.push((column, row, 0));
        }
    }
    cells.iter_mut().for_each(|cell| cell.2 = stream.next());
    stream.0 = &stream.0[cells.len()..];
    for _ in &cells {
        stream.next();
    }
    let interrupted = cells.iter().map(|_| stream.next()).sum();
    stream.0 = &stream.0[cells.len()..];
    for cell in &cells {
        assert!(
            stream.next() <= cell.2,
            "votes against the leading thread exceed the calls of the cell"
        );
    }
    assert!(stream.0.is_empty(), "bytes are left over");
    (cells, interrupted)
}

fn page(folder: &std::path::Path, max_cells: usize) -> (String, Value) {
    let report = build(
        &[folder.to_path_buf()],
        Options { threads: 2, max_cells, ..Options::default() },
        &|_, _| {},
    )
    .unwrap();
    let facts = serde_json::from_str(element(&report.html, "facts")).unwrap();
    (report.html, facts)
}

#[test]
fn every_call_is_counted_in_its_cell() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, comparison) = common::write(folder.path(), 60_000, 2, 1);
    for max_cells in [usize::MAX, 20_000] {
        let (html, facts) = page(folder.path(), max_cells);
        let columns = facts["columns"].as_u64().unwrap() as usize;
        assert_eq!(columns == 16384, max_cells == usize::MAX);
        for (index, result) in comparison.allocators.iter().enumerate() {
            check_run(folder.path(), &html, &facts, index, result, &journal, columns);
        }
    }
}

/// Ticks and causes of the run that an allocator keeps.
fn measured(
    folder: &std::path::Path,
    result: &keel_results::AllocatorResult,
) -> (Vec<u32>, Vec<u8>) {
    let path = folder.join(result.runs[0].raw.as_ref().unwrap());
    let mut reader = keel_results::raw::RunReader::open(&path).unwrap();
    let (mut ticks, mut cause) = (Vec::new(), Vec::new());
    while let Some(rows) = reader.next_rows().unwrap() {
        ticks.extend_from_slice(rows.ticks);
        cause.extend_from_slice(rows.cause);
    }
    (ticks, cause)
}

fn check_run(
    folder: &std::path::Path,
    html: &str,
    facts: &Value,
    index: usize,
    result: &keel_results::AllocatorResult,
    journal: &common::Journal,
    columns: usize,
) {
    let (ticks, cause) = measured(folder, result);
    for code in 0..4u8 {
        let name = common::NAMES[usize::from(code)];
        let (cells, interrupted) = cells(html, &format!("tiles-{index}-{name}"), columns);
        let mut expected = std::collections::BTreeMap::new();
        let mut hit = 0;
        for row in (0..journal.op.len()).filter(|row| journal.op[*row] == code) {
            let column = (u128::from(journal.time[row]) * columns as u128
                / u128::from(journal.span)) as usize;
            let ns = (f64::from(ticks[row]) / common::TICKS_PER_NS).max(1.0);
            *expected.entry((column, (ns.log2() * 12.0).floor() as u64)).or_insert(0u64) += 1;
            hit += u64::from(cause[row] & 1 != 0);
        }
        let found: std::collections::BTreeMap<_, _> =
            cells.iter().map(|cell| ((cell.0, cell.1), cell.2)).collect();
        assert_eq!(found, expected, "{} {name}", result.name);
        assert_eq!(interrupted, hit);
        assert_eq!(facts["allocators"][index]["tiles"][name]["calls"], journal.count(code));
    }
}

#[test]
fn frame_sums_contain_all_time_in_calls() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, comparison) = common::write(folder.path(), 30_000, 1, 1);
    let (html, _) = page(folder.path(), usize::MAX);
    let bytes = inflate(&html, "frames-0");
    let mut stream = Varints(&bytes);
    let sums: Vec<u64> = (0..=journal.frames.len()).map(|_| stream.next()).collect();
    let (ticks, _) = measured(folder.path(), &comparison.allocators[0]);
    let mut expected = vec![0u64; sums.len()];
    for (frame, ticks) in journal.frame.iter().zip(ticks) {
        expected[*frame as usize] += u64::from(ticks);
    }
    let expected: Vec<u64> = expected
        .iter()
        .map(|ticks| (*ticks as f64 / common::TICKS_PER_NS).round() as u64)
        .collect();
    assert_eq!(sums, expected);
}

/// Calls of a plane, by (size step, row).
fn plane(bytes: &[u8], cells: usize, rows: u64) -> std::collections::BTreeMap<(u64, u64), u64> {
    let mut stream = Varints(bytes);
    let mut at = 0;
    let mut places = Vec::new();
    for _ in 0..cells {
        at += stream.next();
        places.push((at / rows, at % rows));
    }
    let found = places.into_iter().map(|place| (place, stream.next())).collect();
    assert!(stream.0.is_empty(), "bytes are left over");
    found
}

fn size_step(size: u64) -> u64 {
    (1.0 + 4.0 * (size as f64).log2()).round() as u64
}

#[test]
fn every_call_is_counted_once_by_size_and_latency() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, comparison) = common::write(folder.path(), 40_000, 2, 1);
    let (html, facts) = page(folder.path(), usize::MAX);
    let (ticks, _) = measured(folder.path(), &comparison.allocators[1]);
    let cells = facts["allocators"][1]["planes"]["malloc"]["cells"].as_u64().unwrap() as usize;
    let found =
        plane(&inflate(&html, "plane-1-malloc"), cells, facts["latency_rows"].as_u64().unwrap());
    let mut expected = std::collections::BTreeMap::new();
    for row in (0..ticks.len()).filter(|row| journal.op[*row] == 0) {
        let ns = (f64::from(ticks[row]) / common::TICKS_PER_NS).max(1.0);
        let place = (size_step(journal.size[row]), (ns.log2() * 12.0).floor() as u64);
        *expected.entry(place).or_insert(0u64) += 1;
    }
    assert_eq!(found, expected);
}

#[test]
fn lifetimes_cover_every_freed_block() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = common::write(folder.path(), 40_000, 1, 1);
    let (html, facts) = page(folder.path(), usize::MAX);
    let bytes = inflate(&html, "block-lifetimes");
    let mut stream = Varints(&bytes);
    let cells = stream.next() as usize;
    let found = plane(stream.0, cells, facts["lifetime_steps"].as_u64().unwrap());
    let mut expected = std::collections::BTreeMap::new();
    for row in (0..journal.age.len()).filter(|row| journal.age[*row] != 0) {
        let allocated = row - journal.age[row] as usize;
        let lived = journal.time[row] - journal.time[allocated];
        let step = if lived < 2 { 0 } else { ((lived as f64).log2() * 4.0) as u64 };
        *expected.entry((size_step(journal.size[allocated]), step)).or_insert(0u64) += 1;
    }
    assert_eq!(found, expected);
    let freed: u64 = expected.values().sum();
    let allocated = journal.op.iter().filter(|op| **op != 1).count() as u64;
    assert_eq!(facts["lifetimes"], serde_json::json!([freed, allocated - freed]));
}

#[test]
fn lanes_and_windows_add_up_to_all_calls() {
    let folder = tempfile::tempdir().unwrap();
    // Some calls are only preempted, and some are preempted during a page fault.
    let plant = |_: &str, _: &common::Journal, _: &mut [u32], causes: &mut [u8]| {
        for (row, cause) in causes.iter_mut().enumerate() {
            match row % 100 {
                10 => *cause = keel_results::CAUSE_INTERRUPTED,
                20 => *cause = keel_results::CAUSE_INTERRUPTED | keel_results::CAUSE_FAULT,
                _ => {}
            }
        }
    };
    let (journal, comparison) = common::write_planted(folder.path(), 30_000, 1, 1, &plant);
    let (html, facts) = page(folder.path(), usize::MAX);
    let lanes = facts["lanes"].as_array().unwrap();
    assert_eq!(lanes.len(), 4);
    let bytes = inflate(&html, "block-lanes");
    let mut stream = Varints(&bytes);
    for lane in lanes {
        let columns = facts["lane_columns"].as_u64().unwrap();
        let calls: u64 = (0..columns).map(|_| stream.next()).sum();
        let thread = lane["thread"].as_u64().unwrap();
        let expected =
            journal.thread.iter().filter(|one| u64::from(**one) == thread).count() as u64;
        assert_eq!((calls, lane["operations"].as_u64().unwrap()), (expected, expected));
    }
    let (ticks, cause) = measured(folder.path(), &comparison.allocators[0]);
    let windows = facts["windows"].as_u64().unwrap() as usize;
    let (mut inside, mut only_preempted) = (vec![[0u64; 4]; windows], vec![0u64; windows]);
    for (row, ticks) in ticks.iter().enumerate() {
        let window = (journal.time[row] / 2_000_000) as usize;
        inside[window][journal.thread[row] as usize] += u64::from(*ticks);
        if keel_results::only_preempted(cause[row]) {
            only_preempted[window] += u64::from(*ticks);
        }
    }
    let ns = |ticks: u64| (ticks as f64 / common::TICKS_PER_NS).round() as u64;
    let bytes = inflate(&html, "windows-0");
    let mut stream = Varints(&bytes);
    let mut read = || (0..windows).map(|_| stream.next()).collect::<Vec<u64>>();
    let (all, interrupted, busiest) = (read(), read(), read());
    assert_eq!(interrupted, only_preempted.into_iter().map(ns).collect::<Vec<_>>());
    assert_eq!(all, inside.iter().map(|lanes| ns(lanes.iter().sum())).collect::<Vec<_>>());
    assert_eq!(
        busiest,
        inside.iter().map(|lanes| ns(*lanes.iter().max().unwrap())).collect::<Vec<_>>()
    );
}

#[test]
fn lateness_is_actual_start_minus_scheduled_start() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut comparison) = common::write(folder.path(), 20_000, 1, 1);
    let (html, facts) = page(folder.path(), usize::MAX);
    assert_eq!(facts["lateness"], false, "pace max has no schedule");
    assert!(!html.contains("id=\"lateness-0\""));
    comparison.settings.pace = "1000x".into();
    comparison.save(folder.path()).unwrap();
    let (html, _) = page(folder.path(), usize::MAX);
    let run = folder.path().join(comparison.allocators[0].runs[0].raw.as_ref().unwrap());
    let mut reader = keel_results::raw::RunReader::open(&run).unwrap();
    let mut greatest = vec![0u64; 2048];
    let mut row = 0;
    while let Some(rows) = reader.next_rows().unwrap() {
        for start in rows.start {
            let late = start.saturating_sub((journal.time[row] as f64 / 1000.0) as u64);
            let column = (u128::from(journal.time[row]) * 2048 / u128::from(journal.span)) as usize;
            if journal.op[row] != 3 {
                greatest[column] = greatest[column].max(late);
            }
            row += 1;
        }
    }
    assert!(greatest.iter().any(|late| *late > 0));
    let bytes = inflate(&html, "lateness-0");
    let mut stream = Varints(&bytes);
    assert_eq!((0..2048).map(|_| stream.next()).collect::<Vec<_>>(), greatest);
}

#[test]
fn slowest_calls_are_looked_up_under_every_allocator() {
    let folder = tempfile::tempdir().unwrap();
    let (_, comparison) = common::write(folder.path(), 50_000, 2, 1);
    let (html, facts) = page(folder.path(), usize::MAX);
    let mut rows: Vec<u64> = Vec::new();
    for result in &comparison.allocators {
        rows.extend(result.runs[0].outliers.iter().take(250).map(|outlier| outlier.row));
    }
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(facts["probes"], rows.len());
    let floor = comparison.allocators.iter().find(|result| result.name == "null");
    let floor = floor.map(|result| measured(folder.path(), result));
    for (index, result) in comparison.allocators.iter().enumerate() {
        let (ticks, _) = measured(folder.path(), result);
        let bytes = inflate(&html, &format!("probes-{index}"));
        let mut stream = Varints(&bytes);
        for row in &rows {
            let row = *row as usize;
            let at_floor = floor.as_ref().is_some_and(|(floor, causes)| {
                causes[row] & 1 == 0 && u64::from(ticks[row]) <= 2 * u64::from(floor[row])
            });
            let expected = 2 * u64::from(ticks[row]) + u64::from(at_floor);
            assert_eq!(stream.next(), expected, "{} row {row}", result.name);
        }
    }
}

#[test]
fn page_of_several_folders_contains_each_of_them() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    common::write(folders[0].path(), 5_000, 1, 1);
    common::write(folders[1].path(), 7_000, 2, 1);
    let paths = folders.each_ref().map(|folder| folder.path().to_path_buf());
    let report =
        build(&paths, Options { threads: 2, max_cells: 100_000, ..Options::default() }, &|_, _| {})
            .unwrap();
    assert_eq!((report.calls, report.drawn), (2 * 5_000 + 3 * 7_000, 5));
    let facts = |id| -> Value { serde_json::from_str(element(&report.html, id)).unwrap() };
    assert_eq!(facts("facts")["prefix"], "");
    assert_eq!(facts("2-facts")["allocators"].as_array().unwrap().len(), 3);
    for id in ["tiles-0-malloc", "tiles-2-0-malloc", "2-block-lanes", "probes-2-2"] {
        assert!(!element(&report.html, id).is_empty(), "{id}");
    }
}

#[test]
fn every_outlier_has_time_and_size() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, comparison) = common::write(folder.path(), 50_000, 1, 1);
    let (html, facts) = page(folder.path(), usize::MAX);
    let outliers = &comparison.allocators[0].runs[0].outliers;
    let count = facts["allocators"][0]["outlier_count"].as_u64().unwrap() as usize;
    assert_eq!(count, outliers.len());
    assert!(count > 20);
    let bytes = inflate(&html, "outliers-0");
    let mut stream = Varints(&bytes);
    let mut time = 0;
    let times: Vec<u64> = (0..count)
        .map(|_| {
            time += stream.next();
            time
        })
        .collect();
    stream.0 = &stream.0[count..];
    let sizes: Vec<u64> = (0..count).map(|_| stream.next()).collect();
    let mut rows: Vec<usize> = outliers.iter().map(|outlier| outlier.row as usize).collect();
    rows.sort_unstable();
    assert_eq!(times, rows.iter().map(|row| journal.time[*row]).collect::<Vec<_>>());
    assert_eq!(sizes, rows.iter().map(|row| journal.size[*row]).collect::<Vec<_>>());
}

#[test]
fn comparison_without_raw_rows_keeps_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut comparison) = common::write(folder.path(), 5_000, 2, 2);
    let runs = comparison.allocators.iter_mut().flat_map(|result| &mut result.runs);
    runs.for_each(|run| run.raw = None);
    comparison.save(folder.path()).unwrap();
    let (_, facts) = page(folder.path(), 1000);
    assert_eq!(facts["columns"], 0);
    assert!(
        facts["allocators"][0]["operations"]["malloc"]["percentiles"]["p50"][0].as_f64().unwrap()
            > 10.0
    );
    assert!(facts["allocators"][0]["memory"].as_array().unwrap().len() > 500);
}

#[test]
fn invalid_folders_are_rejected_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let rejected = || -> ReportError {
        build(&[folder.path().to_path_buf()], Options::default(), &|_, _| {})
            .expect_err("must be rejected")
    };
    assert!(rejected().to_string().contains("not a result folder"), "{}", rejected());
    Comparison { version: keel_results::RESULTS_VERSION, ..Comparison::default() }
        .save(folder.path())
        .unwrap();
    assert!(rejected().to_string().contains("holds no run"), "{}", rejected());

    let (journal, mut comparison) = common::write(folder.path(), 3_000, 1, 1);
    let run = folder.path().join("run-keel-0.parquet");
    std::fs::write(&run, b"PAR1").unwrap();
    assert!(rejected().to_string().contains("run-keel-0.parquet"), "{}", rejected());
    let mut writer = keel_results::raw::RunWriter::create(&run).unwrap();
    writer.write(keel_results::raw::RunRows { start: &[0], ticks: &[1], cause: &[0] }).unwrap();
    writer.finish().unwrap();
    let expected = format!("1 rows, but operations.parquet has {}", journal.op.len());
    assert!(rejected().to_string().contains(&expected), "{}", rejected());

    comparison.clock.ticks_per_ns = 0.0;
    comparison.save(folder.path()).unwrap();
    assert!(rejected().to_string().contains("the clock's frequency"), "{}", rejected());
}

/// A change can leave nothing of a file. The next change of `fuzz_results` then ended it.
#[test]
fn the_fuzzer_changes_files_of_any_length() {
    let mut random = common::Random(1);
    for length in 0..40 {
        for first in [b'{', b'P'] {
            let sound: Vec<u8> = std::iter::once(first).chain([b'7'; 40]).take(length).collect();
            (0..2000).for_each(|_| drop(common::mutation::mutated(&sound, &mut random)));
        }
    }
}
