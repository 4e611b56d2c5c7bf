//! Writes a synthetic result folder that resembles a real one: bursts and frames, sizes over six
//! decades, allocators that differ in median and tail, causes, and several runs of which one keeps
//! its raw rows.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

pub mod mutation;

use keel_results::raw::{
    OPERATIONS_FILE, OperationRows, OperationWriter, RunRows, RunWriter, STACKS_FILE,
};
use keel_results::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names of the operations, by code.
pub const NAMES: [&str; 5] = ["malloc", "free", "calloc", "realloc", "aligned"];
/// Ticks per nanosecond of the synthetic clock.
pub const TICKS_PER_NS: f64 = 2.5;
const FRAME_NS: u64 = 16_666_667;

/// A deterministic random number generator (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Approximately normal, standard deviation 1.
    fn normal(&mut self) -> f64 {
        (0..6).map(|_| self.unit()).sum::<f64>() * 1.41 - 4.23
    }
}

/// The behaviour of an allocator: latency of a typical call in ns, share and latency of slow calls.
pub struct Character {
    pub name: &'static str,
    pub version: &'static str,
    typical: f64,
    slow_share: f64,
    slow: f64,
    memory: f64,
}

pub const CHARACTERS: [Character; 6] = [
    Character {
        name: "keel",
        version: "0.1.0",
        typical: 21.0,
        slow_share: 0.004,
        slow: 140.0,
        memory: 1.12,
    },
    Character {
        name: "system",
        version: "glibc 2.36",
        typical: 34.0,
        slow_share: 0.02,
        slow: 420.0,
        memory: 1.2,
    },
    Character {
        name: "mimalloc",
        version: "3.1",
        typical: 21.5,
        slow_share: 0.006,
        slow: 800.0,
        memory: 1.35,
    },
    Character {
        name: "jemalloc",
        version: "5.3.0",
        typical: 25.0,
        slow_share: 0.01,
        slow: 950.0,
        memory: 1.25,
    },
    Character {
        name: "rpmalloc",
        version: "2.0",
        typical: 21.2,
        slow_share: 0.005,
        slow: 600.0,
        memory: 1.6,
    },
    Character {
        name: "null",
        version: "",
        typical: 17.0,
        slow_share: 0.0,
        slow: 17.0,
        memory: 0.0,
    },
];

/// The operations, which all runs share.
pub struct Journal {
    pub op: Vec<u8>,
    pub size: Vec<u64>,
    pub thread: Vec<u32>,
    pub frame: Vec<u32>,
    pub time: Vec<u64>,
    pub frames: Vec<u64>,
    /// For a free, the number of rows since the allocation of its block; otherwise 0.
    pub age: Vec<u32>,
    pub span: u64,
}

impl Journal {
    pub fn new(rows: usize) -> Journal {
        let mut random = Random(7);
        let span = (rows as u64 * 400).max(FRAME_NS * 40);
        let frames: Vec<u64> = (1..span / FRAME_NS).map(|frame| frame * FRAME_NS).collect();
        let mut time: Vec<u64> =
            (0..rows).map(|row| moment(&mut random, row, rows, span)).collect();
        time.sort_unstable();
        let op = (0..rows).map(|_| match random.next() % 1000 {
            0..=479 => 0,
            480..=969 => 1,
            970..=979 => 2,
            _ => 3,
        });
        let op: Vec<u8> = op.collect();
        let size = (0..rows)
            .map(|_| (5.3 + 2.3 * random.normal()).exp2().clamp(1.0, 4e6) as u64)
            .collect();
        let thread = (0..rows).map(|_| (random.next() % 10).saturating_sub(6) as u32).collect();
        let frame =
            time.iter().map(|time| frames.partition_point(|mark| mark <= time) as u32).collect();
        let age = ages(&op, &mut random);
        Journal { op, size, thread, frame, time, frames, age, span }
    }

    pub fn count(&self, code: u8) -> u64 {
        self.op.iter().filter(|op| **op == code).count() as u64
    }

    fn save(&self, folder: &Path) {
        let mut writer = OperationWriter::create(&folder.join(OPERATIONS_FILE)).unwrap();
        let (op, size, thread) = (&self.op, &self.size, &self.thread);
        let rows = OperationRows { op, size, thread, frame: &self.frame, time: &self.time };
        writer.write_with_ages(rows, &self.age).unwrap();
        writer.finish().unwrap();
    }

    /// Replaces the operations of a folder by the same with call stacks: the number of a stack for
    /// each row.
    pub fn save_with_stacks(&self, folder: &Path, stacks: &[u32], document: &str) {
        let path = folder.join(OPERATIONS_FILE);
        let mut writer = OperationWriter::create_with_stacks(&path).unwrap();
        let (op, size, thread) = (&self.op, &self.size, &self.thread);
        let rows = OperationRows { op, size, thread, frame: &self.frame, time: &self.time };
        writer.write_with_stacks(rows, &self.age, stacks).unwrap();
        writer.finish().unwrap();
        std::fs::write(folder.join(STACKS_FILE), document).unwrap();
    }
}

/// Each free releases a random live block, if there is one.
fn ages(op: &[u8], random: &mut Random) -> Vec<u32> {
    let mut live = Vec::new();
    (0..op.len())
        .map(|row| {
            if op[row] != 1 {
                live.push(row);
                return 0;
            }
            let chosen = random.next() as usize % live.len().max(1);
            if live.is_empty() { 0 } else { (row - live.swap_remove(chosen)) as u32 }
        })
        .collect()
}

/// A third of the operations is at the start (loading); the rest is in one burst per frame.
fn moment(random: &mut Random, row: usize, rows: usize, span: u64) -> u64 {
    if row < rows / 3 {
        return (random.unit() * 0.16 * span as f64) as u64;
    }
    let frame = random.next() % (span / FRAME_NS);
    let busy = 0.05 + 0.5 * random.unit() * random.unit();
    (frame * FRAME_NS + (busy * FRAME_NS as f64) as u64).min(span - 1)
}

/// Ticks and cause of one call.
fn call(random: &mut Random, character: &Character, op: u8, size: u64, part: f64) -> (u32, u8) {
    let draw = random.unit();
    if draw < 4e-6 {
        return ((random.unit() * 2.5e6 + 2e4) as u32, CAUSE_INTERRUPTED);
    }
    let large = (size as f64 / 16384.0).min(60.0);
    let base = character.typical * if op == 1 { 0.8 } else { 1.0 } * (0.1 * random.normal()).exp();
    let real = character.slow_share > 0.0;
    let (ns, cause) = if real && draw < 0.0009 {
        (900.0 + 700.0 * random.unit() + 250.0 * large, CAUSE_FAULT)
    } else if real && draw < 0.0009 + character.slow_share * (1.4 - part) {
        (character.slow * (0.8 * random.normal()).exp() * (1.0 + large * 0.1), 0)
    } else {
        (base, 0)
    };
    ((ns * TICKS_PER_NS) as u32, cause)
}

struct Measured {
    start: Vec<u64>,
    ticks: Vec<u32>,
    cause: Vec<u8>,
}

fn measure(journal: &Journal, character: &Character, seed: u64) -> Measured {
    let mut random = Random(seed);
    let rows = journal.op.len();
    let mut measured = Measured { start: vec![], ticks: vec![], cause: vec![] };
    let mut clock = 0;
    for row in 0..rows {
        let part = row as f64 / rows as f64;
        let (ticks, cause) = call(&mut random, character, journal.op[row], journal.size[row], part);
        measured.start.push(clock);
        measured.ticks.push(ticks);
        measured.cause.push(cause);
        clock += (f64::from(ticks) / TICKS_PER_NS) as u64 + 30;
    }
    measured
}

fn summarize(journal: &Journal, measured: &Measured, character: &Character, position: u32) -> Run {
    let mut latency: BTreeMap<String, Histogram> = BTreeMap::new();
    let mut inside: BTreeMap<String, f64> = BTreeMap::new();
    for (row, ticks) in measured.ticks.iter().enumerate() {
        let name = NAMES[usize::from(journal.op[row])];
        if !latency.contains_key(name) {
            latency.insert(name.into(), Histogram::default());
        }
        latency.get_mut(name).unwrap().0.record(u64::from(*ticks)).unwrap();
        *inside.entry(name.into()).or_default() += f64::from(*ticks) / TICKS_PER_NS;
    }
    let mut frames = FrameSums::default();
    frames.all_threads.0.auto(true);
    let mut sums = vec![0.0; journal.frames.len() + 1];
    for (row, ticks) in measured.ticks.iter().enumerate() {
        sums[journal.frame[row] as usize] += f64::from(*ticks) / TICKS_PER_NS;
    }
    // The time before the first mark is not a frame.
    sums.iter().skip(1).for_each(|ns| frames.all_threads.0.record(*ns as u64).unwrap());
    let elapsed = measured.start.last().copied().unwrap_or(0) + 100;
    let memory: Vec<MemorySample> = (0..3000u64).map(|at| sample(at, elapsed, character)).collect();
    let peak = memory.iter().map(|sample| sample.resident).max().unwrap();
    Run {
        position,
        elapsed_ns: elapsed,
        cpu_ns: elapsed,
        inside_ns: inside,
        outliers: outliers(journal, measured, &latency),
        latency,
        minor_faults: peak / 4096 + u64::from(position),
        peak_rss_bytes: peak + u64::from(position) * 8192,
        frames: Some(frames),
        memory,
        ..Run::default()
    }
}

fn sample(at: u64, elapsed: u64, character: &Character) -> MemorySample {
    let part = at as f64 / 3000.0;
    let live = 120e6 * (part * 6.0).min(1.0) * (0.8 + 0.2 * (part * 25.0).sin());
    let resident = 126e6 * (part * 6.0).min(1.0) * character.memory * (0.92 + 0.1 * part);
    MemorySample {
        time: (elapsed as f64 * part) as u64,
        resident: resident as u64,
        live: live as u64,
    }
}

fn outliers(
    journal: &Journal,
    measured: &Measured,
    latency: &BTreeMap<String, Histogram>,
) -> Vec<Outlier> {
    let limit =
        NAMES.map(|name| latency.get(name).map_or(0, |counts| counts.0.value_at_quantile(0.999)));
    let mut found: Vec<Outlier> = (0..measured.ticks.len())
        .filter(|row| u64::from(measured.ticks[*row]) > limit[usize::from(journal.op[*row])])
        .map(|row| Outlier {
            row: row as u64,
            start: measured.start[row],
            ticks: measured.ticks[row],
            cause: measured.cause[row],
            ..Outlier::default()
        })
        .collect();
    found.sort_by_key(|outlier| std::cmp::Reverse(outlier.ticks));
    found.truncate(20_000);
    found
}

fn allocator(
    folder: &Path,
    journal: &Journal,
    character: &Character,
    runs: u64,
    plant: Plant<'_>,
) -> AllocatorResult {
    let mut result = AllocatorResult {
        name: character.name.into(),
        version: character.version.into(),
        ..Default::default()
    };
    for number in 0..runs {
        let seed = number * 1000 + character.typical.to_bits();
        let mut measured = measure(journal, character, seed);
        plant(character.name, journal, &mut measured.ticks, &mut measured.cause);
        let mut run = summarize(journal, &measured, character, number as u32);
        if number == 0 {
            let name = format!("run-{}-{number}.parquet", character.name);
            let mut writer = RunWriter::create(&folder.join(&name)).unwrap();
            let (start, ticks, cause) = (&measured.start, &measured.ticks, &measured.cause);
            writer.write(RunRows { start, ticks, cause }).unwrap();
            writer.finish().unwrap();
            run.raw = Some(name);
        }
        result.runs.push(run);
    }
    result
}

/// Changes ticks and causes of an allocator's calls, the same in each run.
pub type Plant<'a> = &'a dyn Fn(&str, &Journal, &mut [u32], &mut [u8]);

/// Writes a result folder of `rows` operations on the first `allocators` of [`CHARACTERS`] and
/// `null`.
pub fn write(folder: &Path, rows: usize, allocators: usize, runs: u64) -> (Journal, Comparison) {
    write_planted(folder, rows, allocators, runs, &|_, _, _, _| ())
}

/// Like [`write`], with some calls changed by `plant`.
pub fn write_planted(
    folder: &Path,
    rows: usize,
    allocators: usize,
    runs: u64,
    plant: Plant<'_>,
) -> (Journal, Comparison) {
    let journal = Journal::new(rows);
    journal.save(folder);
    let floor = CHARACTERS.len() - 1;
    let chosen = CHARACTERS.iter().take(allocators.min(floor)).chain(&CHARACTERS[floor..]);
    let mut empty_pair = Histogram::default();
    let mut random = Random(3);
    (0..10_000).for_each(|_| empty_pair.0.record(40 + random.next() % 6).unwrap());
    let comparison = Comparison {
        version: RESULTS_VERSION,
        keel_version: env!("CARGO_PKG_VERSION").into(),
        started: "2026-01-02T03:04:05Z".into(),
        machine: Machine {
            cpu: "Synthetic 2.5 GHz".into(),
            cpus: 2,
            memory_bytes: 24 << 30,
            kernel: "6.1.0".into(),
            libc: "glibc 2.36".into(),
            huge_pages: "madvise".into(),
            ..Machine::default()
        },
        journal: facts(&journal),
        settings: Settings {
            pace: "max".into(),
            touch: "page".into(),
            runs: runs as u32,
            command: ["keel", "compare", "synthetic.journal.parquet"].map(String::from).to_vec(),
            ..Settings::default()
        },
        clock: Clock {
            name: "tsc".into(),
            ticks_per_ns: TICKS_PER_NS,
            empty_pair,
            ..Clock::default()
        },
        allocators: chosen
            .map(|character| allocator(folder, &journal, character, runs, plant))
            .collect(),
        notes: vec!["4 threads on 2 CPUs: waiting threads sleep first and spin then.".into()],
        ..Comparison::default()
    };
    comparison.save(folder).unwrap();
    (journal, comparison)
}

/// Writes the page of these results to the first of their folders.
pub fn page(folders: &[&Path]) -> PathBuf {
    let paths: Vec<PathBuf> = folders.iter().map(|folder| folder.to_path_buf()).collect();
    let report = keel_report::build(&paths, keel_report::Options::default(), &|_, _| {}).unwrap();
    let page = folders[0].join("report.html");
    std::fs::write(&page, report.html).unwrap();
    page
}

fn facts(journal: &Journal) -> JournalFacts {
    let occurring = (0..5u8).filter(|code| journal.count(*code) > 0);
    JournalFacts {
        name: "synthetic.journal.parquet".into(),
        program: "synthetic --level 3 <script>".into(),
        operations: occurring
            .map(|code| (NAMES[usize::from(code)].into(), journal.count(code)))
            .collect(),
        threads: 4,
        cross_thread_frees: journal.op.len() as u64 / 100,
        duration_ns: journal.span,
        peak_live_bytes: 120_000_000,
        peak_live_objects: 95_000,
        total_bytes: journal.size.iter().sum(),
        frames: journal.frames.clone(),
        ..JournalFacts::default()
    }
}
