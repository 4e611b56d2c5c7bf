//! Fuzzes the importers: `fuzz [--seconds N] [--seed N] [TARGET...]`, `make fuzz`.
//!
//! A target is a form of text, `packed` for the archives around them, `frames` for the file of
//! `--frames`, a file of an unfinished recording (`spool`, `rings`, `partial`), or a complete
//! `journal` (left.rs). A form begins with the samples and with texts that `keel export` writes,
//! and changes bytes, numbers, fields and lines. Inputs with a new behaviour of the importer
//! (another fault, another kind of repair, other operations) are kept for further changes. For each
//! input the following must hold:
//!
//! - no panic, with and without `--repair`;
//! - with `--repair`, only lines that cannot be read are faults;
//! - the events keep every rule of journals;
//! - written by `keel export` and read again, they are the same.
//!
//! An input that violates one of them is written to `fuzz-findings/`, and the exit code is 1. The
//! fuzzer needs no instrumented build, so it runs with any compiler that builds Keel.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is its job")]

mod left;

use keel_export::{TraceForm, trace_events};
use keel_import::{Error, Form, Options, import, parse};
use keel_journal::{Event, Metadata, Reader, Rules};
use left::Left;
use rustc_hash::{FxHashSet, FxHasher};
use std::hash::{Hash as _, Hasher as _};
use std::io::{Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest input, bytes.
const LONGEST: usize = 4000;
/// Inputs that are kept for further changes.
const MOST_KEPT: usize = 4000;
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/samples");

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let (mut seconds, mut seed, mut targets) = (60, 1, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => seconds = arguments.next().ok_or("--seconds needs a number")?.parse()?,
            "--seed" => seed = arguments.next().ok_or("--seed needs a number")?.parse()?,
            _ => targets.push(argument),
        }
    }
    if targets.is_empty() {
        targets = Form::ALL.iter().map(|form| form.name().to_owned()).collect();
        targets.extend(["packed".to_owned(), "frames".to_owned()]);
        targets.extend(Left::ALL.map(|(name, _)| name.to_owned()));
    }
    // Panics are caught and reported with their input; the default message is suppressed.
    std::panic::set_hook(Box::new(|_| {}));
    println!("| target | inputs | a second | kept | read whole | findings |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let mut found = 0;
    for name in targets {
        let target = Target::named(&name).ok_or_else(|| format!("there is no target {name}"))?;
        found += Campaign::new(target, seed).run(&name, Duration::from_secs(seconds))?;
    }
    if found > 0 { Err(format!("{found} findings: see fuzz-findings/").into()) } else { Ok(()) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Form(Form),
    Packed,
    Frames,
    Left(Left),
}

impl Target {
    fn named(name: &str) -> Option<Target> {
        let left =
            Left::ALL.iter().find(|(its, _)| *its == name).map(|(_, left)| Target::Left(*left));
        let other = match name {
            "packed" => Some(Target::Packed),
            "frames" => Some(Target::Frames),
            _ => None,
        };
        left.or(other).or_else(|| Form::from_name(name).map(Target::Form))
    }

    fn longest(self) -> usize {
        if let Target::Left(left) = self { left.longest() } else { LONGEST }
    }
}

/// One target's run.
struct Campaign {
    target: Target,
    random: Random,
    corpus: Vec<Vec<u8>>,
    seen: FxHashSet<u64>,
    folder: tempfile::TempDir,
}

/// How an input went: what distinguishes it from others.
struct Outcome {
    behaviour: u64,
    whole: bool,
}

impl Campaign {
    fn new(target: Target, seed: u64) -> Campaign {
        let folder =
            tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Campaign { target, random, corpus: seeds(target), seen: FxHashSet::default(), folder }
    }

    fn run(mut self, name: &str, time: Duration) -> Result<u64, Failure> {
        let started = Instant::now();
        let (mut inputs, mut whole, mut findings) = (0_u64, 0_u64, 0_u64);
        let mut next_seed = 0;
        while started.elapsed() < time && findings < 10 {
            let input = match self.corpus.get(next_seed) {
                Some(seed) if inputs == next_seed as u64 => {
                    next_seed += 1;
                    seed.clone()
                }
                _ => self.mutated(),
            };
            inputs += 1;
            match catch_unwind(AssertUnwindSafe(|| self.check(&input))) {
                Ok(Ok(outcome)) => {
                    whole += u64::from(outcome.whole);
                    if self.seen.insert(outcome.behaviour) {
                        self.keep(input);
                    }
                }
                Ok(Err(complaint)) => findings += save(name, &input, &complaint)?,
                Err(_) => findings += save(name, &input, "a panic")?,
            }
        }
        let rate = inputs as f64 / started.elapsed().as_secs_f64();
        println!(
            "| {name} | {inputs} | {rate:.0} | {} | {whole} | {findings} |",
            self.corpus.len()
        );
        Ok(findings)
    }

    fn keep(&mut self, input: Vec<u8>) {
        if self.corpus.len() < MOST_KEPT {
            self.corpus.push(input);
        } else {
            let place = self.random.below(MOST_KEPT);
            self.corpus[place] = input;
        }
    }

    fn check(&self, input: &[u8]) -> Result<Outcome, String> {
        match self.target {
            Target::Form(form) => check_form(form, input),
            Target::Packed => self.check_packed(input),
            Target::Frames => self.check_frames(input),
            Target::Left(left) => left.check(input, self.folder.path()),
        }
    }

    fn check_packed(&self, input: &[u8]) -> Result<Outcome, String> {
        let (path, output) = (self.folder.path().join("input"), self.folder.path().join("output"));
        std::fs::write(&path, input).map_err(|error| error.to_string())?;
        let options = Options { repair: true, ..Options::default() };
        let result = import(&[path], &output, &options, &mut |_| {});
        let mut hasher = FxHasher::default();
        match &result {
            Ok(summary) => (summary.rows.ilog2(), summary.repairs.len()).hash(&mut hasher),
            Err(error) => shape(&error.to_string()).hash(&mut hasher),
        }
        Ok(Outcome { behaviour: hasher.finish(), whole: result.is_ok() })
    }

    /// Imports a trace of two operations with the input as its file of frames.
    fn check_frames(&self, input: &[u8]) -> Result<Outcome, String> {
        let [trace, frames, output] =
            ["trace", "frames", "output"].map(|name| self.folder.path().join(name));
        std::fs::write(&trace, "a 8 10 0 5\nf 10 0 6\n").map_err(|error| error.to_string())?;
        std::fs::write(&frames, input).map_err(|error| error.to_string())?;
        let mut hasher = FxHasher::default();
        let mut read = [false, true].map(|repair| {
            let options = Options { repair, frames: Some(frames.clone()), ..Options::default() };
            let times = import(std::slice::from_ref(&trace), &output, &options, &mut |_| {})
                .map_err(|error| error.to_string())
                .and_then(|_| Reader::open(&output).map_err(|error| error.to_string()))
                .map(|reader| reader.metadata().frames.clone());
            match &times {
                Ok(times) => (times.len().min(5), times.last().map(|last| last.leading_zeros()))
                    .hash(&mut hasher),
                Err(error) => shape(error).hash(&mut hasher),
            }
            times
        });
        let [strict, repaired] = &mut read;
        if strict.is_ok() && strict != repaired {
            return Err("--repair changes frames that have no fault".to_owned());
        }
        if repaired.as_ref().is_ok_and(|times| !times.is_sorted()) {
            return Err("the frames of the journal are not in order".to_owned());
        }
        Ok(Outcome { behaviour: hasher.finish(), whole: strict.is_ok() })
    }

    fn mutated(&mut self) -> Vec<u8> {
        let pick = self.random.below(self.corpus.len());
        let mut input = self.corpus[pick].clone();
        for _ in 0..1 << self.random.below(5) {
            self.mutate(&mut input);
        }
        input.truncate(self.target.longest());
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let random = &mut self.random;
        if let Target::Left(left) = self.target
            && random.below(8) != 0
        {
            return left.mutate(input, random);
        }
        if input.is_empty() {
            input.push(b'a');
        }
        let at = random.below(input.len());
        match random.below(9) {
            0 => input[at] = random.next() as u8,
            1 => input[at] ^= 1 << random.below(8),
            2 => input.truncate(at),
            3 => drop(input.drain(at..(at + 1 + random.below(20)).min(input.len()))),
            4 => input.splice(at..at, TOKENS[random.below(TOKENS.len())].bytes()).for_each(drop),
            5 => replace_number(input, at, random),
            6 => move_line(input, at, random, true),
            7 => move_line(input, at, random, false),
            _ => {
                let other = random.below(self.corpus.len());
                let other = &self.corpus[other];
                let from = self.random.below(other.len().max(1));
                let to = (from + self.random.below(400)).min(other.len());
                let piece = other.get(from..to).unwrap_or_default().to_vec();
                input.splice(at..at, piece).for_each(drop);
            }
        }
    }
}

const TOKENS: [&str; 24] = [
    "0",
    "0x0",
    "(nil)",
    "18446744073709551615",
    "9223372036854775807",
    "9223372036854775808",
    "ffffffffffffffff",
    "\n",
    "\r\n",
    " ",
    "\t",
    "#",
    "(",
    ")",
    ",",
    "=",
    "--",
    "@ ",
    " < ",
    " > ",
    "a ",
    "f ",
    "\u{feff}",
    "\0",
];

/// Replaces a number by another one.
fn replace_number(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
    let start = input[..at].iter().rposition(|byte| !is_digit(byte)).map_or(0, |before| before + 1);
    let end =
        input[at..].iter().position(|byte| !is_digit(byte)).map_or(input.len(), |after| at + after);
    let number = match random.below(4) {
        0 => random.below(8) as u64,
        1 => random.next(),
        2 => 1 << random.below(64),
        _ => random.below(100_000) as u64,
    };
    input.splice(start..end, number.to_string().into_bytes()).for_each(drop);
}

/// Copies or moves a line to another position.
fn move_line(input: &mut Vec<u8>, at: usize, random: &mut Random, keep: bool) {
    let start = input[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |before| before + 1);
    let end = input[at..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(input.len(), |after| at + after + 1);
    let line: Vec<u8> =
        if keep { input[start..end].to_vec() } else { input.splice(start..end, []).collect() };
    let target = random.below(input.len() + 1);
    let target =
        input[..target].iter().rposition(|byte| *byte == b'\n').map_or(0, |before| before + 1);
    input.splice(target..target, line).for_each(drop);
}

fn check_form(form: Form, input: &[u8]) -> Result<Outcome, String> {
    let options = Options { form: Some(form), ..Options::default() };
    let mut hasher = FxHasher::default();
    let strict = parse(input, &options);
    describe(&strict, &mut hasher);
    let repairing = Options { repair: true, ..options };
    let repaired = parse(input, &repairing);
    describe(&repaired, &mut hasher);
    if let (Ok((events, metadata)), Ok((repaired, _))) = (&strict, &repaired)
        && (events != repaired || metadata.repairs.keys().any(|kind| !is_counted_only(kind)))
    {
        return Err("--repair changes what has no fault".to_owned());
    }
    if let Ok((events, metadata)) = &repaired {
        check_events(form, events, metadata)?;
    }
    Ok(Outcome { behaviour: hasher.finish(), whole: strict.is_ok() })
}

/// Whether the importer counts these lines without `--repair` as well.
fn is_counted_only(kind: &str) -> bool {
    kind.contains("used again") || kind.contains("free of NULL")
}

fn check_events(form: Form, events: &[Event], metadata: &Metadata) -> Result<(), String> {
    let mut rules = Rules::new(metadata).map_err(|violation| violation.to_string())?;
    events
        .iter()
        .try_for_each(|event| rules.check(event))
        .map_err(|violation| violation.to_string())?;
    let mut text = Vec::new();
    let trace_form = TraceForm::from_name(form.name()).ok_or("a form that is not exported")?;
    trace_events(events, metadata, trace_form, &mut text).map_err(|error| error.to_string())?;
    let options = Options { form: Some(form), repair: true, ..Options::default() };
    let (again, its_metadata) =
        parse(&text, &options).map_err(|error| format!("exported, then: {error}"))?;
    if again.as_slice() != events {
        let differs = events.iter().zip(&again).find(|(one, other)| one != other);
        return Err(format!("exported and read again it is not the same: {differs:?}"));
    }
    let marks = |metadata: &Metadata| {
        metadata.marks.iter().map(|mark| mark.text.clone()).collect::<Vec<_>>()
    };
    if marks(metadata) != marks(&its_metadata) {
        return Err("exported and read again it has other markers".to_owned());
    }
    Ok(())
}

/// Hashes the behaviour of an input: the fault without its numbers, the kinds of operations and of
/// repairs.
fn describe(result: &Result<(Vec<Event>, Metadata), Error>, hasher: &mut FxHasher) {
    match result {
        Err(error) => shape(&error.to_string()).hash(hasher),
        Ok((events, metadata)) => {
            let kinds = events.iter().fold(0_u32, |kinds, event| kinds | 1 << event.op as u8);
            let pairs = events
                .windows(2)
                .fold(0_u64, |pairs, two| pairs | 1 << (two[0].op as u8 * 7 + two[1].op as u8));
            (kinds, pairs, metadata.threads.len().min(5), metadata.marks.len().min(3)).hash(hasher);
            metadata.repairs.keys().for_each(|kind| kind.hash(hasher));
        }
    }
}

/// A message up to what was found, without digits.
fn shape(message: &str) -> String {
    let end = message.find(", found").unwrap_or(message.len().min(200));
    let start = message.find("expected").unwrap_or(0).min(end);
    message
        .get(start..end)
        .unwrap_or_default()
        .chars()
        .filter(|letter| !letter.is_ascii_digit())
        .collect()
}

/// The samples of a form, and the other forms' samples written in it.
fn seeds(target: Target) -> Vec<Vec<u8>> {
    if let Target::Left(left) = target {
        return left.seeds();
    }
    let frames = ["F 0\nF 16666667\nF 33333334\n", "F 5\n\nF 5\nF 90\n"];
    if target == Target::Frames {
        return frames.map(|text| text.as_bytes().to_vec()).to_vec();
    }
    let mut seeds = Vec::new();
    let entries = std::fs::read_dir(SAMPLES).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let Ok(raw) = std::fs::read(&path) else { continue };
        if target == Target::Packed {
            seeds.extend((raw.len() <= LONGEST).then_some(raw));
            continue;
        }
        let Target::Form(form) = target else { continue };
        let Some(mut text) = unpacked(&path, raw) else { continue };
        text.truncate(LONGEST);
        let options = Options { repair: true, ..Options::default() };
        let Ok((events, metadata)) = parse(&text, &options) else { continue };
        if keel_import::detect(&text) == Some(form) {
            seeds.push(text);
        } else if let Some(trace_form) = TraceForm::from_name(form.name()) {
            let mut written = Vec::new();
            if trace_events(&events, &metadata, trace_form, &mut written).is_ok() {
                written.truncate(LONGEST);
                seeds.push(written);
            }
        }
    }
    if target == Target::Packed {
        let text = b"a 8 10 0 5\nf 10 0 6\n".repeat(9);
        seeds.extend(zstd::encode_all(&text[..], 3));
        seeds.extend(stored_zip(&text));
    }
    seeds
}

fn unpacked(path: &Path, raw: Vec<u8>) -> Option<Vec<u8>> {
    match path.extension()?.to_str()? {
        "zst" => zstd::decode_all(raw.as_slice()).ok(),
        "gz" => {
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(raw.as_slice()).read_to_end(&mut text).ok()?;
            Some(text)
        }
        "txt" | "rep" => Some(raw),
        _ => None,
    }
}

/// A zip archive of one file that is not compressed.
fn stored_zip(text: &[u8]) -> zip::result::ZipResult<Vec<u8>> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    writer.start_file("t", options.compression_method(zip::CompressionMethod::Stored))?;
    writer.write_all(text)?;
    Ok(writer.finish()?.into_inner())
}

fn save(name: &str, input: &[u8], complaint: &str) -> Result<u64, Failure> {
    let mut hasher = FxHasher::default();
    input.hash(&mut hasher);
    let path = Path::new("fuzz-findings").join(format!("{name}-{:016x}", hasher.finish()));
    std::fs::create_dir_all("fuzz-findings")?;
    std::fs::write(&path, input)?;
    eprintln!("{}: {complaint}", path.display());
    Ok(1)
}

/// xorshift64*: the sequence depends on the seed only.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit.max(1)
    }
}
