//! Runs a program under the recorder and drains its rings into a journal.
//!
//! ```text
//! program's threads                  this process
//!   ring ring ring    ->  collector ->  encoder thread  ->  journal::Writer
//!   (journal/ring.h)      copies,       orders, numbers      (its own thread)
//!                         never waits   the objects
//! ```
//!
//! That needs Linux. The import of what a program has recorded itself (`keel/recorder.h`) and the
//! removal of modules from a journal exist on every system.

#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only recordings use it"))]

mod apply;
mod assemble;
mod caches;
mod clock;
mod described;
mod filter;
mod live;
mod log;
mod origins;
mod prologue;
mod ring;
mod rows;
mod spool;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod attach;
#[cfg(all(target_os = "linux", not(target_arch = "x86_64")))]
#[path = "attach/unsupported.rs"]
mod attach;
#[cfg(target_os = "linux")]
mod beside;
#[cfg(target_os = "linux")]
mod collector;
#[cfg(target_os = "linux")]
mod contained;
#[cfg(target_os = "linux")]
mod encode;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod image;
#[cfg(target_os = "linux")]
mod latest;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod lineage;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod output;
#[cfg(target_os = "linux")]
mod paths;
#[cfg(target_os = "linux")]
mod perf_map;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod program_file;
#[cfg(target_os = "linux")]
mod recent;
#[cfg(target_os = "linux")]
mod recording;
#[cfg(target_os = "linux")]
mod session;
#[cfg(target_os = "linux")]
mod unseen;
#[cfg(target_os = "linux")]
mod wait;
#[cfg(target_os = "linux")]
mod watch;

pub use filter::{Kept, skip_modules};
pub use log::{Imported, LogError, import_log, is_log};
#[cfg(target_os = "linux")]
pub use {
    attach::attach_with,
    error::Error,
    recording::{check, record, record_with},
    wait::{Last, Signal, Wait, When},
    watch::{Counts, Latency, Snapshot, StackCounts},
};

#[cfg(target_os = "linux")]
use std::{
    ffi::OsString,
    path::PathBuf,
    process::ExitStatus,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// The options of a recording.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The program as the user named it: a path, or a name in `search_path`.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The journal. With `follow_children`, `<name>.journal.parquet` means
    /// `<name>.<pid>.journal.parquet`.
    pub output: PathBuf,
    /// Write a journal for each process of the program's tree, and wait for all of them. Otherwise
    /// only the program's own process is recorded. Each program that a process executes has a
    /// journal of its own: see [`Recorded::journals`].
    pub follow_children: bool,
    /// `libkeel_recorder.so`.
    pub recorder_library: PathBuf,
    /// A library that is preloaded after the recorder, such as `libkeel_calls.so`.
    pub further_library: Option<PathBuf>,
    /// The folder of the shared memory; a memory file system is best.
    pub spool_folder: PathBuf,
    /// The environment's `PATH`.
    pub search_path: Option<OsString>,
    /// The environment's `LD_PRELOAD`, which is kept, after these libraries.
    pub preload: Option<OsString>,
    /// Added to the program's environment.
    pub environment: Vec<(&'static str, OsString)>,
    /// Record the calls that the program reports (`keel/recorder.h`) instead of its malloc.
    pub embedded: bool,
    /// Return addresses to record of each operation, innermost first; 0: only the calling module.
    pub stacks: u32,
    /// Record only samples. Not with `embedded`.
    pub sample: Option<Sample>,
    /// Leave out operations that these modules call: the beginning of the file's name, or its path.
    /// Operations on their blocks are left out too.
    pub skip_modules: Vec<String>,
    /// Begin this long after the program's start, with the blocks that are live then.
    pub after: Option<Duration>,
    /// End this long after the beginning; the program continues.
    pub length: Option<Duration>,
    /// End when a journal has this many operations.
    pub max_operations: Option<u64>,
    /// End when a journal has about this many bytes.
    pub max_bytes: Option<u64>,
    /// This process has no children but those of the recording. It then becomes the parent of the
    /// program's orphans, and reaps every child. So it knows all living processes that the program
    /// has started. Otherwise it knows those that record.
    pub only_children: bool,
    /// Write nothing until something happens. The program's own process only, so not with
    /// `follow_children`.
    pub wait: Option<Wait>,
    /// Write no journal, and report sums ([`Progress::watched`]). The program's own process only.
    pub watch: Option<Watch>,
    /// Folders for the journal if its own folder disappears or its disk becomes full.
    pub refuges: Vec<PathBuf>,
}

/// Which allocations are recorded, if not all ([`keel_journal::Sampling`]).
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The mean distance of samples in allocated bytes; 1 to [`Sample::MOST_BYTES`].
    pub bytes: u64,
    /// The choice is the same for the same seed and the same calls of a thread.
    pub seed: u64,
}

#[cfg(target_os = "linux")]
impl Sample {
    /// The largest distance.
    pub const MOST_BYTES: u64 = 1 << 33;
}

/// How a program is watched.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug)]
pub struct Watch {
    /// The length of an interval.
    pub interval: Duration,
    /// Another thread sets it to end the recording; the program continues.
    pub stop: Arc<AtomicBool>,
    /// The program gets an empty standard input, and its output goes to this file.
    pub output: Option<PathBuf>,
}

/// The progress of a recording.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Since its start.
    pub seconds: f64,
    /// Recorded, in all processes.
    pub operations: u64,
    /// In live blocks, of all processes.
    pub live_bytes: u64,
    /// Reported once for each event that a recording waits for, in words.
    pub event: Option<String>,
    /// The sums at the end of each new interval of [`Options::watch`].
    pub watched: Vec<Snapshot>,
    /// Reported once, when the program has ended and the recording waits for these processes.
    pub follows: Option<String>,
}

/// A recording that has ended.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Recorded {
    /// How the program ended; success if it still runs.
    pub status: ExitStatus,
    /// A signal ended the recording before the program had ended.
    pub still_runs: bool,
    /// The last signal that reached this process during the recording.
    pub signal: Option<i32>,
    /// One for each program image of each recorded process, in the order of their ends; the
    /// program's own is the last. Of a process with several images (it called exec), the one that
    /// requested the most bytes has the process's name, and the others
    /// `NAME.image-N.journal.parquet`.
    pub journals: Vec<Journal>,
    /// The stops of an attached program's threads.
    pub visits: Vec<Visit>,
    /// The most memory that the events of [`Last`] have taken, bytes.
    pub kept_bytes: usize,
    /// Those that were not reported as progress; the last ones are those at the end.
    pub watched: Vec<Snapshot>,
    /// Problems during the recording, as text.
    pub problems: Vec<String>,
    /// Other programs of the tree that were not recorded, and why.
    pub notes: Vec<String>,
}

/// A stop of one of the threads of an attached program, and what it cost.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Visit {
    /// The thread.
    pub thread: u32,
    /// How long it did not run its own code.
    pub pause: Duration,
    /// The processor time that it took in the pause. Waits for a processor make the pause longer.
    pub work: Duration,
    /// How often it was stopped, by ptrace's count.
    pub stops: u32,
}

/// The journal of one program image.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Journal {
    /// The file; `None` for an image without any operation, which gets none.
    pub path: Option<PathBuf>,
    /// Operations seen.
    pub operations: u64,
    /// Bytes that they requested.
    pub allocated_bytes: u64,
    /// From the first operation that was wanted to the last one, or to the image's end.
    pub seconds: f64,
    /// The metadata in the file's footer.
    pub metadata: keel_journal::Metadata,
    /// Rows and bytes of the file, or why it is not complete.
    pub written: Result<keel_journal::Written, keel_journal::Error>,
    /// It ended at a limit, before the program did.
    pub limited: bool,
}
