//! A budget that the given runs keep.
//!
//! The rule: a count that was the same in all runs (at least two) is the limit. A count that varied
//! is limited to the largest one plus the head-room: the difference between the largest and the
//! smallest, or the given percentage of the largest if that is more. From one run, every count but
//! 0 gets the head-room, because it is unknown whether it varies.

use crate::measure::measure;
use crate::metric::{Metric, RECORDED};
use crate::scope::Scope;
use keel_blame::DebugFolders;
use keel_journal::{Error, Reader};
use std::fmt::Write as _;

/// The largest number of threads that get limits of their own.
const THREADS: usize = 12;

/// The counts of the runs.
#[derive(Debug)]
pub struct Learning {
    warm_up: u64,
    head_room_percent: u64,
    runs: Vec<Run>,
}

/// The counts of one run, by scope.
type Run = Vec<(Scope, [u64; RECORDED.len()])>;

/// A budget as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The budget file.
    pub text: String,
    /// Counts that were the same in all runs, and counts in all.
    pub same: (usize, usize),
}

impl Learning {
    /// `warm_up` frames are left out of the limits of frames.
    pub fn new(warm_up: u64, head_room_percent: u64) -> Learning {
        Learning { warm_up, head_room_percent, runs: Vec::new() }
    }

    /// Adds a run.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn add(&mut self, reader: &Reader, folders: &DebugFolders) -> Result<(), Error> {
        let metadata = reader.metadata();
        let mut scopes = vec![Scope::Run, Scope::Frame { warm_up: self.warm_up }];
        let mut names: Vec<&str> =
            metadata.threads.iter().map(|thread| thread.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        // `*` and `?` in a name would match other names.
        names.retain(|name| !name.is_empty() && !name.contains(['*', '?']));
        if (2..=THREADS).contains(&names.len()) {
            scopes.extend(names.into_iter().map(|name| Scope::Threads(name.to_owned())));
        }
        let measured = measure(reader, &scopes, folders)?;
        let counts = scopes.into_iter().zip(measured).filter_map(|(scope, measured)| {
            let measured = measured.ok()?;
            Some((scope, RECORDED.map(|metric| measured.value(metric))))
        });
        self.runs.push(counts.collect());
        Ok(())
    }

    /// The budget. `origin` is a comment that says how it was made.
    pub fn finish(&self, origin: &str) -> Learned {
        let mut text = format!(
            "# A budget for `keel check`. {}\n#\n# Each value is the greatest accepted one. A \
             count that was the same in all runs is\n# exact; after the others are the counts of \
             the runs.\n",
            origin.replace('\n', " ")
        );
        let (mut same, mut all) = (0, 0);
        let first = self.runs.first().map_or(&[][..], Vec::as_slice);
        for (scope, _) in first {
            let runs: Option<Vec<&[u64; RECORDED.len()]>> =
                self.runs.iter().map(|run| counts_of(run, scope)).collect();
            // A scope that not every run has cannot be checked in every run.
            let Some(runs) = runs else { continue };
            text += &header(scope);
            for (index, metric) in RECORDED.into_iter().enumerate() {
                let counts: Vec<u64> = runs.iter().map(|run| run[index]).collect();
                let (line, is_same) = self.line(metric, &counts);
                text += &line;
                same += usize::from(is_same);
                all += 1;
            }
        }
        Learned { text, same: (same, all) }
    }

    fn line(&self, metric: Metric, counts: &[u64]) -> (String, bool) {
        let least = counts.iter().copied().min().unwrap_or(0);
        let most = counts.iter().copied().max().unwrap_or(0);
        let is_same = counts.len() > 1 && least == most;
        let name = metric.name();
        if is_same || most == 0 {
            return (format!("{name} = {most}\n"), is_same);
        }
        let share = most.saturating_mul(self.head_room_percent).div_ceil(100);
        let limit = most.saturating_add((most - least).max(share));
        // TOML has no greater integers.
        let limit = limit.min(i64::MAX as u64);
        let mut seen = counts.to_vec();
        seen.sort_unstable();
        seen.dedup();
        let mut line = format!("{name} = {limit} #");
        seen.iter().for_each(|count| {
            let _ = write!(line, " {count}");
        });
        (line + "\n", false)
    }
}

fn counts_of<'a>(run: &'a Run, scope: &Scope) -> Option<&'a [u64; RECORDED.len()]> {
    run.iter().find(|(of, _)| of == scope).map(|(_, counts)| counts)
}

fn header(scope: &Scope) -> String {
    match scope {
        Scope::Frame { warm_up } => {
            format!(
                "\n# The largest count of any frame after the first {warm_up}.\n\
                 [frame]\nwarm_up = {warm_up}\n"
            )
        }
        Scope::Threads(name) => format!("\n[[thread]]\nname = {}\n", quoted(name)),
        _ => "\n# The whole recording.\n[run]\n".to_owned(),
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", control as u32);
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;
    use crate::budget::Budget;

    fn learned(runs: &[u64], percent: u64) -> (Vec<u64>, Learned) {
        let run =
            |count: &u64| vec![(Scope::Run, [*count; 7]), (Scope::Threads("a\"\n".into()), [0; 7])];
        let learning = Learning {
            warm_up: 0,
            head_room_percent: percent,
            runs: runs.iter().map(run).collect(),
        };
        let learned = learning.finish("Learned.");
        let budget = Budget::parse(&learned.text).unwrap();
        assert_eq!(budget.limits[1].scope, Scope::Threads("a\"\n".into()));
        (budget.limits[0].limits.iter().map(|(_, limit)| *limit).collect(), learned)
    }

    #[test]
    fn counts_that_are_the_same_are_exact_and_others_get_head_room() {
        let (limits, same) = learned(&[50, 50], 10);
        assert_eq!((limits[0], same.same), (50, (14, 14)));
        assert_eq!(learned(&[50], 10).0[0], 55);
        assert_eq!(learned(&[50, 52], 10).0[0], 58);
        assert_eq!(learned(&[50, 90], 10).0[0], 130);
        assert_eq!(learned(&[0], 10).0[0], 0);
        assert_eq!(learned(&[u64::MAX], 10).0[0], i64::MAX as u64);
    }
}
