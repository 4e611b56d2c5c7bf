//! How a journal is to be replayed.

use keel_plan::ClockChoice;
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

/// What is written into a fresh block.
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

/// Of which runs every call is kept; summaries of all runs always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Of none.
    None,
    /// Of the middle run of each allocator.
    #[default]
    Median,
    /// Of all.
    All,
}

/// Everything that may be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// See [`Pace`].
    pub pace: Pace,
    /// See [`Touch`].
    pub touch: Touch,
    /// Whether touching counts as a part of the call.
    pub touch_timed: bool,
    /// Runs of each allocator, at least 1.
    pub runs: u32,
    /// Runs of an allocator whose medians have not settled ([`keel_results::PRECISION`]), at most; none beyond `runs` if
    /// less.
    pub max_runs: u32,
    /// At pace max, make runs again that the machine disturbed, and set the disturbed ones aside.
    pub repeat: bool,
    /// Seed of the order of runs.
    pub seed: u64,
    /// All operations on one thread, in journal order.
    pub serial: bool,
    /// Fill every block with a pattern and check it when it is released (then nothing is touched inside the calls).
    pub verify: bool,
    /// See [`Keep`].
    pub keep: Keep,
    /// With which clock calls are timed.
    pub clock: ClockChoice,
    /// At pace max, a second run of each allocator in each round without a clock around each call.
    pub throughput: bool,
    /// After all rounds, a run of each allocator that asks every block its usable size.
    pub usable_sizes: bool,
    /// A player that completes no operation for so long, beyond what the pace asks for, is given up.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            pace: Pace::default(),
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
            timeout: Duration::from_secs(60),
        }
    }
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Pace, String> {
        let wrong = || format!("`{text}` is no pace: give max, 1x, 4x, 0.5x ... or compressed");
        match text {
            "max" => Ok(Pace::Max),
            "compressed" => Ok(Pace::Compressed),
            _ => {
                let times: f64 =
                    text.strip_suffix('x').and_then(|times| times.parse().ok()).ok_or_else(wrong)?;
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
    /// Every policy.
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
        found.ok_or_else(|| format!("`{text}` is no way to touch: give none, first-byte, page or all"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_read_and_shown() {
        for text in ["max", "1x", "4x", "0.5x", "compressed"] {
            assert_eq!(Pace::from_str(text).map(|pace| pace.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "x", "0x", "-1x", "2", "NaNx", "infx", "fast"] {
            assert!(Pace::from_str(text).is_err_and(|error| error.contains("compressed")), "{text}");
        }
    }
}
