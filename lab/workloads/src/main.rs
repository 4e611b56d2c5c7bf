//! `keel-workload`: started by `keel bench`, one fresh process for each run; not for people.
//!
//! `keel-workload TARGET WORKLOAD` prints one line of JSON; `keel-workload --list` names the workloads.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of its own, whose output is its result"
)]

mod heap;
mod latency;
mod random;
mod single;
mod threaded;

use heap::Heap;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Instant;

/// What a workload yields.
enum Kind {
    /// Pairs performed; the time of the whole is divided by it.
    Throughput(fn(&Heap) -> u64),
    /// The slowest call.
    Latency(fn(&Heap) -> latency::Worst),
    /// Bytes.
    Memory(fn(&Heap) -> u64),
}

const WORKLOADS: [(&str, Kind); 14] = [
    ("lifo-64", Kind::Throughput(single::lifo_64)),
    ("batch-64", Kind::Throughput(single::batch_64)),
    ("mixed-516", Kind::Throughput(single::mixed_516)),
    ("random-free-64k", Kind::Throughput(single::random_free_64k)),
    ("calloc-2k", Kind::Throughput(single::calloc_2k)),
    ("large-churn", Kind::Throughput(single::large_churn)),
    ("producer-consumer", Kind::Throughput(threaded::producer_consumer)),
    ("larson", Kind::Throughput(threaded::larson)),
    ("shared-slots", Kind::Throughput(threaded::shared_slots)),
    ("growing-heap", Kind::Latency(latency::growing_heap)),
    ("malloc-after-burst", Kind::Latency(latency::malloc_after_burst)),
    ("malloc-after-remote-frees", Kind::Latency(latency::malloc_after_remote_frees)),
    ("free-large", Kind::Latency(latency::free_large)),
    ("resident-after-burst", Kind::Memory(latency::resident_after_burst)),
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [flag] if flag == "--list" => Ok(json!(WORKLOADS.map(|(name, _)| name))),
        [target, workload] => run(target, &workload.to_string_lossy()),
        _ => Err("usage: keel-workload TARGET WORKLOAD | keel-workload --list".to_owned()),
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

fn run(target: &std::ffi::OsStr, workload: &str) -> Result<Value, String> {
    let (_, kind) = WORKLOADS
        .iter()
        .find(|(name, _)| *name == workload)
        .ok_or_else(|| format!("there is no workload `{workload}`"))?;
    let table = keel_player::target::load(target)?;
    if let Some(init) = table.init {
        // SAFETY: once, before any other call.
        let code = unsafe { init() };
        if code != 0 {
            return Err(format!("the allocator's initialisation failed with {code}"));
        }
    }
    let heap = Heap(table);
    let mut value = Value::Null;
    heap.thread(|| value = measure(&heap, kind));
    Ok(value)
}

fn measure(heap: &Heap, kind: &Kind) -> Value {
    match kind {
        Kind::Throughput(workload) => {
            let begin = Instant::now();
            let pairs = workload(heap);
            let nanoseconds = begin.elapsed().as_nanos() as f64;
            json!({ "unit": "ns a pair", "value": nanoseconds / pairs as f64, "pairs": pairs, "peak_rss": peak_rss() })
        }
        Kind::Latency(workload) => {
            let worst = workload(heap);
            json!({ "unit": "ns, worst call", "value": worst.worst_ns, "noise": worst.noise_ns, "calls": worst.calls,
                "peak_rss": peak_rss() })
        }
        Kind::Memory(workload) => json!({ "unit": "bytes", "value": workload(heap), "peak_rss": peak_rss() }),
    }
}

/// Peak resident bytes of this process.
fn peak_rss() -> u64 {
    // SAFETY: an all-zero rusage is valid, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    usage.ru_maxrss as u64 * 1024
}
