//! `keel-workload`: `keel bench` starts it in a fresh process for each run. It is not a command for
//! users.
//!
//! `keel-workload TARGET WORKLOAD [--count] [--warm=BYTES] [--tiny]` prints one line of JSON;
//! `--list` lists the workloads. `--tiny` reduces everything to a thousandth, for tests.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a separate program, whose output is its result"
)]

mod game;
mod heap;
mod latency;
mod process;
mod random;
mod single;
mod threaded;
mod trap;
mod watch;

use heap::Heap;
use keel_player::bump::Bump;
use keel_workloads::{Measured, Suite, Workload};
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use watch::{Findings, Mode};

/// The workloads' own memory comes from separate mappings: the allocator under test receives only
/// their calls, even if it replaces the process's malloc.
#[global_allocator]
static OWN: Bump = Bump::new();

/// The kind of a workload.
enum Kind {
    /// Returns the number of pairs, by which the time of the run is divided. One thread, on one
    /// processor.
    Single(fn(&Heap) -> u64),
    /// The same with several threads.
    Threaded(fn(&Heap) -> u64),
    /// Measures single calls.
    Latency(fn(&Heap, &mut Findings)),
    /// Both: returns pairs and processor seconds, and measures single calls.
    Program(fn(&Heap, &mut Findings) -> game::Whole),
}

const WORKLOADS: [(&str, &str, Kind); 18] = [
    ("lifo-64", "malloc of 64 B, freed immediately", Kind::Single(single::lifo_64)),
    ("batch-64", "1,000 blocks of 64 B, then free them all", Kind::Single(single::batch_64)),
    (
        "mixed-516",
        "2,000 live blocks of 4 to 516 B, replaced at random",
        Kind::Single(single::mixed_516),
    ),
    (
        "random-free-64k",
        "65,536 blocks of 64 B, freed in random order",
        Kind::Single(single::random_free_64k),
    ),
    ("calloc-2k", "calloc of 16 B to 2 KiB, 256 live", Kind::Single(single::calloc_2k)),
    (
        "large-churn",
        "64 KiB to 4 MiB, 16 live, all pages touched",
        Kind::Single(single::large_churn),
    ),
    (
        "producer-consumer",
        "one thread allocates, another frees, in batches of 256",
        Kind::Threaded(threaded::producer_consumer),
    ),
    ("larson", "blocks outlive the threads that allocated them", Kind::Threaded(threaded::larson)),
    (
        "shared-slots",
        "four threads free each other's blocks",
        Kind::Threaded(threaded::shared_slots),
    ),
    (
        "game-mix",
        "5.5 M mallocs as in Doom 3, 332 MB live, pages touched inside the clock",
        Kind::Program(game::game_mix),
    ),
    (
        "first-touch",
        "malloc in a heap that grows to 64 MiB",
        Kind::Latency(latency::contract::first_touch),
    ),
    (
        "after-burst",
        "malloc and resident memory, 2.5 s after 256 MiB were freed",
        Kind::Latency(latency::contract::after_burst),
    ),
    (
        "after-remote-frees",
        "malloc after another thread freed 200,000 small blocks",
        Kind::Latency(latency::contract::after_remote_frees),
    ),
    (
        "free-large",
        "free of blocks of 64 KiB to 4 MiB",
        Kind::Latency(latency::contract::free_large),
    ),
    (
        "threads",
        "threads that start, allocate 20,000 blocks and end; others free them",
        Kind::Latency(latency::threads::come_and_go),
    ),
    (
        "realloc",
        "arrays that grow by half, by 4 KiB, and large ones",
        Kind::Latency(latency::growth::realloc_growth),
    ),
    (
        "handover",
        "calls on both sides of a queue between two threads",
        Kind::Latency(latency::threads::handover),
    ),
    (
        "frame-loop",
        "frames of 16.6 ms with 3,000 calls each, levels loaded and unloaded between",
        Kind::Latency(latency::frames::frame_loop),
    ),
];

/// A workload that takes longer is considered hung.
const LIMIT_SECONDS: libc::c_uint = 240;
const TINY: f64 = 0.001;
/// The scale of the untimed warm-up run.
const WARM_UP: f64 = 0.1;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [flag] if flag == "--list" => to_json(&list()),
        [target, workload, options @ ..] => run(target, &workload.to_string_lossy(), options)
            .and_then(|measured| to_json(&measured)),
        _ => Err("usage: keel-workload TARGET WORKLOAD [--count] [--warm=BYTES] [--tiny] | --list"
            .to_owned()),
    };
    match outcome {
        Ok(value) => {
            println!("{value}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("keel-workload: {message}");
            ExitCode::from(3)
        }
    }
}

fn to_json(value: &impl serde::Serialize) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}

fn list() -> Vec<Workload> {
    let suite = |kind: &Kind| match kind {
        Kind::Latency(_) => Suite::Latency,
        _ => Suite::Throughput,
    };
    WORKLOADS
        .iter()
        .map(|(name, about, kind)| Workload {
            name: (*name).to_owned(),
            suite: suite(kind),
            about: (*about).to_owned(),
        })
        .collect()
}

/// See the module documentation.
struct Options {
    mode: Mode,
    scale: f64,
    warm_bytes: usize,
}

impl Options {
    fn parse(arguments: &[OsString]) -> Result<Options, String> {
        let mut options = Options { mode: Mode::Timed, scale: 1.0, warm_bytes: 0 };
        for argument in arguments {
            let text = argument.to_string_lossy();
            match text.as_ref() {
                "--count" => options.mode = Mode::Counted,
                "--tiny" => options.scale = TINY,
                _ => {
                    let bytes = text.strip_prefix("--warm=").and_then(|bytes| bytes.parse().ok());
                    options.warm_bytes =
                        bytes.ok_or_else(|| format!("there is no option `{text}`"))?;
                }
            }
        }
        Ok(options)
    }
}

fn run(target: &OsStr, workload: &str, options: &[OsString]) -> Result<Measured, String> {
    let options = Options::parse(options)?;
    let (_, _, kind) = WORKLOADS
        .iter()
        .find(|(name, ..)| *name == workload)
        .ok_or_else(|| format!("there is no workload `{workload}`"))?;
    process::end_after(LIMIT_SECONDS);
    let table = keel_player::target::load(target)?;
    if let Some(init) = table.init {
        // SAFETY: once, before any other call.
        let code = unsafe { init() };
        if code != 0 {
            return Err(format!("the allocator's initialisation failed with {code}"));
        }
    }
    if options.warm_bytes > 0 {
        process::warm(target, options.warm_bytes)?;
    }
    let heap = Heap::new(table, options.scale, options.mode);
    let mut measured = heap.thread(|| measure(&heap, kind));
    measured.peak_rss = process::usage().peak_rss;
    Ok(measured)
}

fn measure(heap: &Heap, kind: &Kind) -> Measured {
    match kind {
        Kind::Single(workload) => {
            // Allocators with a background thread start it at the first call. This must be before
            // the processor is chosen, because threads inherit the choice.
            heap.free(heap.malloc(1));
            process::stay_on_one_processor();
            throughput(heap, *workload)
        }
        Kind::Threaded(workload) => throughput(heap, *workload),
        Kind::Latency(workload) => {
            let mut findings = Findings::default();
            workload(heap, &mut findings);
            reported(findings)
        }
        Kind::Program(workload) => {
            heap.free(heap.malloc(1));
            let mut findings = Findings::default();
            let whole = workload(heap, &mut findings);
            let ns_a_pair = whole.seconds * 1e9 / whole.pairs as f64;
            Measured {
                pairs: whole.pairs,
                ns_a_pair,
                cpu_seconds: whole.cpu_seconds,
                ..reported(findings)
            }
        }
    }
}

fn throughput(heap: &Heap, workload: fn(&Heap) -> u64) -> Measured {
    workload(&heap.at_scale(WARM_UP * heap.scale()));
    let (begin, before) = (std::time::Instant::now(), process::usage());
    let pairs = workload(heap);
    let ns_a_pair = begin.elapsed().as_nanos() as f64 / pairs as f64;
    let cpu_seconds = process::usage().cpu_seconds - before.cpu_seconds;
    Measured { pairs, ns_a_pair, cpu_seconds, ..Measured::default() }
}

fn reported(findings: Findings) -> Measured {
    Measured {
        events: findings.events,
        counted: findings.counted,
        resident: findings.resident,
        ..Measured::default()
    }
}
