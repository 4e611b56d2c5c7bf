//! The commands that record or replay, on systems other than Linux: each fails with a sentence that
//! states what works there.

use clap::Args;
use std::ffi::OsString;
use std::fmt;

/// Only on Linux
#[derive(Args)]
#[command(hide = true, disable_help_flag = true)]
pub struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _any: Vec<OsString>,
}

/// Why a command does nothing on this system. The exit code is 2.
#[derive(Debug)]
pub struct NeedsLinux(pub &'static str);

impl fmt::Display for NeedsLinux {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            output,
            "{} needs Linux: on this system keel only reads journals, traces and results, with \
             import, capture, info, slice, blame, export, check, report, plot and diff",
            self.0
        )
    }
}

impl std::error::Error for NeedsLinux {}

macro_rules! only_on_linux {
    ($($name:ident $command:literal)*) => {
        $(
            /// Fails.
            pub mod $name {
                pub use super::Arguments;
                use std::borrow::Borrow;
                use std::process::ExitCode;

                pub fn run(_: impl Borrow<Arguments>) -> anyhow::Result<ExitCode> {
                    Err(super::NeedsLinux(concat!("keel ", $command)).into())
                }
            }
        )*
    };
}

only_on_linux! {
    allocators "allocators"
    attach "attach"
    bench "bench"
    compare "compare"
    doctor "doctor"
    record "record"
    time "time"
    r#try "try"
    watch "watch"
}
