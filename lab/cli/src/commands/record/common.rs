//! The options that `keel record`, `keel attach` and `keel watch` have in common.

use super::wait::WaitArguments;
use super::{default_spool, refuges, some_seconds};
use crate::format;
use crate::layout::Layout;
use anyhow::Result;
use clap::Args;
use keel_record::{Options, Sample, When};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Stack frames of a sample.
const SAMPLE_STACKS: u32 = 32;

/// What is recorded.
#[derive(Args, Default)]
pub struct ScopeArguments {
    /// End the recording after this many seconds. The program continues
    #[arg(long = "for", value_name = "SECONDS", value_parser = some_seconds)]
    length: Option<Duration>,
    /// Also record the call stack of each operation: the innermost DEPTH frames. `keel blame` needs
    /// them. Each frame costs some nanoseconds. Without this option, keel records only the calling
    /// module, at no cost; with --sample, 32 frames; with `keel watch`, 16
    #[arg(long, value_name = "DEPTH", value_parser = clap::value_parser!(u32).range(0..=100))]
    stacks: Option<u32>,
    /// Record only samples: on average one allocation per BYTES allocated bytes, and the free of
    /// its block. This costs a program about 10 instructions per call, so it can run for days.
    /// `keel info`, `keel blame` and `keel export --to pprof` estimate what all calls did; other
    /// commands refuse samples [without a number: 512K]
    #[arg(long, value_name = "BYTES", num_args = 0..=1, default_missing_value = "512K",
          value_parser = sample)]
    sample: Option<u64>,
    /// With --sample: choose the same samples in each run of a program that makes the same calls
    #[arg(long, value_name = "N", requires = "sample")]
    sample_seed: Option<u64>,
    /// Leave out the calls of this module (a library or the program itself), and all operations on
    /// its blocks. MODULE is a path, or the beginning of a file name (libGLX_nvidia). This option
    /// can be repeated
    #[arg(long, value_name = "MODULE")]
    skip_module: Vec<String>,
    /// The folder for the files through which the program sends its operations to keel [default:
    /// /dev/shm, else TMPDIR]
    #[arg(long, value_name = "FOLDER")]
    spool: Option<PathBuf>,
}

/// What is recorded, until when, and what is printed meanwhile.
#[derive(Args, Default)]
pub struct CommonArguments {
    #[command(flatten)]
    scope: ScopeArguments,
    /// End the recording when a journal has this many operations
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_events: Option<u64>,
    /// End the recording when a journal has about this size, in bytes or with K, M or G (100M)
    #[arg(long, value_name = "SIZE", value_parser = format::parse_size)]
    max_size: Option<u64>,
    #[command(flatten)]
    waiting: WaitArguments,
    /// Print the progress every second. On a terminal, keel always shows the progress
    #[arg(long)]
    pub progress: bool,
    /// Print only errors
    #[arg(short, long)]
    pub quiet: bool,
}

impl ScopeArguments {
    /// These options, with `stacks` frames unless the user says otherwise.
    pub fn options(self, stacks: u32) -> Result<Options> {
        let sample = self.sample.map(|bytes| {
            let seed = self.sample_seed.unwrap_or_else(seed_of_now);
            Sample { bytes, seed }
        });
        Ok(Options {
            recorder_library: Layout::discover()?.shared_library("libkeel_recorder.so")?,
            spool_folder: self.spool.unwrap_or_else(default_spool),
            stacks: self.stacks.unwrap_or(if sample.is_some() { SAMPLE_STACKS } else { stacks }),
            sample,
            skip_modules: self.skip_module,
            length: self.length,
            ..Options::default()
        })
    }
}

impl CommonArguments {
    /// Only --stacks is given.
    pub fn with_stacks(stacks: u32) -> CommonArguments {
        let scope = ScopeArguments { stacks: Some(stacks), ..ScopeArguments::default() };
        CommonArguments { scope, ..CommonArguments::default() }
    }

    /// A recording into this journal. `usual`: what --last waits for unless the user named it.
    pub fn options(self, output: PathBuf, usual: &When) -> Result<Options> {
        Ok(Options {
            output,
            max_operations: self.max_events,
            max_bytes: self.max_size,
            wait: self.waiting.wait(usual),
            refuges: refuges(),
            ..self.scope.options(0)?
        })
    }
}

fn sample(text: &str) -> Result<u64, String> {
    match format::parse_size(text)? {
        bytes if bytes <= Sample::MOST_BYTES => Ok(bytes),
        _ => Err("give at most 8G".to_owned()),
    }
}

fn seed_of_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 48
}
