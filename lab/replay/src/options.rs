//! The options of a replay.

use keel_plan::{ClockChoice, Eviction};
use std::str::FromStr;
use std::time::Duration;

/// When operations are due.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// At once, each thread as fast as it can.
    #[default]
    Max,
    /// As recorded, this many times as fast.
    Times(f64),
    /// As recorded, but no pause between two operations is longer than 1 ms.
    Compressed,
}

/// The bytes that are written into a fresh block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Touch {
    /// Nothing.
    None = 0,
    /// Its first byte.
    FirstByte = 1,
    /// A byte in each of its pages.
    #[default]
    Page = 2,
    /// All of it.
    All = 3,
}

/// The runs whose calls are all kept; summaries are kept of every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// No run.
    None,
    /// The median run of each allocator.
    #[default]
    Median,
    /// All runs.
    All,
}

/// All options.
#[derive(Clone, Debug)]
pub struct Options {
    /// See [`Pace`].
    pub pace: Pace,
    /// What each thread reads between two calls, to evict caches, until the next call is due. At
    /// pace max, calls are always due.
    pub evict: Eviction,
    /// See [`Touch`].
    pub touch: Touch,
    /// Whether touching counts as a part of the call.
    pub touch_timed: bool,
    /// Runs of each allocator, at least 1.
    pub runs: u32,
    /// The most runs of an allocator whose p50 or p99.9 is not yet precise
    /// ([`keel_results::needing_rounds`]); values below `runs` mean `runs`.
    pub max_runs: u32,
    /// At pace max, repeat runs with interference of the machine, and discard the affected ones.
    pub repeat: bool,
    /// Seed of the order of runs.
    pub seed: u64,
    /// All operations on one thread, in journal order.
    pub serial: bool,
    /// Fill every block with a pattern and check it when it is freed (blocks are then not touched
    /// inside the calls).
    pub verify: bool,
    /// See [`Keep`].
    pub keep: Keep,
    /// The clock that times calls.
    pub clock: ClockChoice,
    /// At pace max, a second run of each allocator in each round, without a clock around each call.
    pub throughput: bool,
    /// After all rounds, a run of each allocator that sums up the usable sizes of its blocks.
    pub usable_sizes: bool,
    /// Further rounds end when the rounds agree which allocators are slower, even if the figures
    /// are not precise yet.
    pub decide: bool,
    /// A player that completes no operation for this long, in addition to the pauses of the pace,
    /// is stopped.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            pace: Pace::default(),
            evict: Eviction::None,
            touch: Touch::default(),
            touch_timed: true,
            runs: 5,
            max_runs: 0,
            repeat: true,
            seed: 1,
            serial: false,
            verify: false,
            keep: Keep::default(),
            clock: ClockChoice::default(),
            throughput: true,
            usable_sizes: true,
            decide: false,
            timeout: Duration::from_secs(60),
        }
    }
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Pace, String> {
        let wrong = || format!("`{text}` is not a pace: give max, 1x, 4x, 0.5x ... or compressed");
        match text {
            "max" => Ok(Pace::Max),
            "compressed" => Ok(Pace::Compressed),
            _ => {
                let times: f64 = text
                    .strip_suffix('x')
                    .and_then(|times| times.parse().ok())
                    .ok_or_else(wrong)?;
                if (0.01..=1000.0).contains(&times) { Ok(Pace::Times(times)) } else { Err(wrong()) }
            }
        }
    }
}

impl std::fmt::Display for Pace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Pace::Max => formatter.write_str("max"),
            Pace::Times(times) => write!(formatter, "{times}x"),
            Pace::Compressed => formatter.write_str("compressed"),
        }
    }
}

impl Touch {
    /// All policies.
    pub const ALL_POLICIES: [Touch; 4] = [Touch::None, Touch::FirstByte, Touch::Page, Touch::All];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Touch::None => "none",
            Touch::FirstByte => "first-byte",
            Touch::Page => "page",
            Touch::All => "all",
        }
    }
}

impl FromStr for Touch {
    type Err = String;

    fn from_str(text: &str) -> Result<Touch, String> {
        let found = Touch::ALL_POLICIES.into_iter().find(|touch| touch.name() == text);
        found.ok_or_else(|| {
            format!("`{text}` is not a way to touch: give none, first-byte, page or all")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_parsed_and_printed() {
        for text in ["max", "1x", "4x", "0.5x", "compressed"] {
            assert_eq!(Pace::from_str(text).map(|pace| pace.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "x", "0x", "-1x", "2", "NaNx", "infx", "fast"] {
            assert!(
                Pace::from_str(text).is_err_and(|error| error.contains("compressed")),
                "{text}"
            );
        }
    }
}
