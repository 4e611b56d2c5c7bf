//! The runs of a comparison, in their order.

use super::instrument::InstrumentLog;
use super::{Progress, Request, touched};
use crate::compile::Compiled;
use crate::digest::{Measured, digest};
use crate::run::{Player, RunFailure};
use crate::sampler::Sampler;
use crate::{Error, Keep, Options, Pace};
use keel_allocators::FLOOR;
use keel_plan::{Kind, Orders, Results};
use keel_results::{Comparison, Run, UsableExcess, total_inside};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Runs of an allocator whose rows are on the disk at the same time, if only one run's are kept at
/// the end. The median of the runs so far seldom leaves the three runs next to it.
pub const ROWS_KEPT: usize = 3;

/// The runs of a comparison.
pub struct Session<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) compiled: &'a Compiled,
    folder: &'a Path,
    results: Results,
    player: Player,
    instrument: InstrumentLog,
    /// For each allocator, the most calls of a run that returned no memory, and the row of the
    /// first.
    pub(super) refused: Vec<(u64, u64)>,
    /// For each allocator, the number of system call instructions in its own code.
    pub(super) inline_syscalls: Vec<u64>,
    /// Why repeats of disturbed runs failed.
    pub(super) failed_repeats: Vec<String>,
    /// Failed runs that sum up usable sizes, a sentence each.
    pub(super) failed_sums: Vec<String>,
}

impl<'a> Session<'a> {
    pub fn new(
        request: &'a Request<'a>,
        compiled: &'a Compiled,
        folder: &'a Path,
    ) -> Result<Session<'a>, Error> {
        let timeout =
            request.options.timeout + std::time::Duration::from_nanos(compiled.longest_pause_ns);
        Ok(Session {
            request,
            compiled,
            folder,
            results: Results::create(compiled.plan.header())?,
            player: Player { executable: request.player.clone(), timeout },
            instrument: InstrumentLog::new(),
            refused: vec![(0, 0); request.allocators.len()],
            inline_syscalls: vec![0; request.allocators.len()],
            failed_repeats: Vec::new(),
            failed_sums: Vec::new(),
        })
    }

    /// After the rounds, one run of each allocator that sums up usable sizes. Returns whether it
    /// was stopped.
    pub(super) fn measure_usable_sizes(
        &mut self,
        comparison: &mut Comparison,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<bool, Error> {
        for (index, result) in comparison.allocators.iter_mut().enumerate() {
            if !self.request.options.usable_sizes
                || result.failure.is_some()
                || result.name == FLOOR
            {
                continue;
            }
            match self.play(index, Clocked::UsableSizes, progress) {
                Ok(_) => result.usable_excess = usable_excess(&self.results),
                Err(RunFailure::Stopped) => return Ok(true),
                // Its other runs succeeded; only this figure is missing.
                Err(RunFailure::Failed(reason)) => {
                    self.failed_sums.push(format!(
                        "The run that sums up the usable sizes of {} failed: {reason}",
                        result.name
                    ));
                }
            }
        }
        Ok(false)
    }

    /// The results of a run with the clock.
    pub(super) fn digested(
        &mut self,
        index: usize,
        position: u32,
        sampler: &Sampler,
        raw: Option<&str>,
    ) -> Result<Run, Error> {
        self.instrument.read(&self.results);
        let control = self.results.control();
        let refused = (control.refused.load(Relaxed), control.first_refused.load(Relaxed));
        self.refused[index] = self.refused[index].max(refused);
        self.inline_syscalls[index] = control.inline_syscalls.load(Relaxed);
        let path = raw.map(|name| self.folder.join(name));
        Ok(digest(&self.measured(sampler), position, path.as_deref())?)
    }

    /// The functions that the last run called for frees with hints, by kind of free.
    pub(super) fn free_functions(&self) -> BTreeMap<String, String> {
        let frees = &self.compiled.facts.frees;
        let names = Kind::HINTED.iter().map(|kind| kind.name().to_owned());
        let by = names.zip(self.results.control().free_functions());
        by.filter(|(kind, _)| frees.contains_key(kind)).collect()
    }

    /// The file name of a run's rows.
    pub(super) fn raw_name(&self, index: usize, round: u32, mark: &str) -> String {
        format!("run-{}-{round}{mark}.parquet", file_part(&self.request.allocators[index].name))
    }

    /// Removes the rows of a run that does not count.
    pub(super) fn remove_rows(&self, name: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        std::fs::remove_file(&path).map_err(Error::io(path))
    }

    pub(super) fn is_throughput_wanted(&self) -> bool {
        let Options { pace, verify, throughput, .. } = self.request.options;
        throughput && pace == Pace::Max && !verify
    }

    pub(super) fn play(
        &self,
        index: usize,
        clocked: Clocked,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Sampler, RunFailure> {
        let allocator = &self.request.allocators[index];
        let Options { touch_timed, verify, clock, evict, .. } = self.request.options;
        let orders = Orders {
            touch: touched(&self.request.options) as u8,
            touch_inside: touch_timed,
            // The floor keeps no contents that could be verified.
            verify: verify && allocator.name != FLOOR && clocked != Clocked::UsableSizes,
            clock,
            evict,
            unclocked: clocked != Clocked::Each,
            usable_sizes: clocked == Clocked::UsableSizes,
        };
        let done = &mut |done| progress(Progress::Done(done));
        self.player.play(
            allocator,
            &self.compiled.plan,
            &self.results,
            orders,
            self.request.stop,
            done,
        )
    }

    pub(super) fn measured<'b>(&'b self, sampler: &'b Sampler) -> Measured<'b> {
        Measured {
            plan: &self.compiled.plan,
            results: &self.results,
            sampler,
            frequency: self.instrument.frequency(),
            frame_starts: &self.compiled.frame_starts,
            peak_live_bytes: self.compiled.facts.peak_live_bytes,
        }
    }

    /// Stores the facts about the instrument.
    pub fn describe_instrument(&self, comparison: &mut Comparison) {
        comparison.instrument = self.instrument.instrument();
        comparison.clock = self.instrument.clock();
        comparison.clock.step_ticks = keel_results::clock_step(comparison);
    }

    /// If only the median run's rows are wanted, keeps those of at most `most` runs of each
    /// allocator: the runs next to the median.
    pub fn keep_rows(&self, comparison: &mut Comparison, most: usize) -> Result<(), Error> {
        if self.request.options.keep != Keep::Median {
            return Ok(());
        }
        for allocator in &mut comparison.allocators {
            for index in far_from_median(&allocator.runs, most) {
                if let Some(name) = allocator.runs[index].raw.take() {
                    self.remove_rows(&name)?;
                }
            }
        }
        Ok(())
    }
}

/// The runs with rows, except the `most` that are next to the median run.
fn far_from_median(runs: &[Run], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by(|&one, &other| total_inside(&runs[one]).total_cmp(&total_inside(&runs[other])));
    let middle = runs.len() / 2;
    let mut ranked: Vec<(usize, usize)> = order.into_iter().enumerate().collect();
    ranked.retain(|(_, index)| runs[*index].raw.is_some());
    ranked.sort_by_key(|(rank, _)| rank.abs_diff(middle));
    ranked.into_iter().skip(most).map(|(_, index)| index).collect()
}

/// The timed part of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Clocked {
    /// Each call.
    Each,
    /// The run as a whole.
    Whole,
    /// Nothing; usable sizes are summed up.
    UsableSizes,
}

/// The player's sums; None if the allocator does not report usable sizes.
fn usable_excess(results: &Results) -> Option<UsableExcess> {
    let control = results.control();
    let pair = |pair: &[AtomicU64; 2]| (pair[0].load(Relaxed), pair[1].load(Relaxed));
    let ((live_at_peak, usable_at_peak), (requested_total, usable_total)) =
        (pair(&control.live_at_peak), pair(&control.total));
    (usable_total > 0).then_some(UsableExcess {
        usable_at_peak,
        live_at_peak,
        usable_total,
        requested_total,
    })
}

/// A name as a part of a file's name.
fn file_part(name: &str) -> String {
    name.chars().map(|letter| if letter == '/' { '_' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(inside_ns: f64) -> Run {
        Run {
            inside_ns: [("malloc".to_owned(), inside_ns)].into(),
            raw: Some("rows".to_owned()),
            ..Run::default()
        }
    }

    #[test]
    fn rows_of_few_runs_are_kept_at_a_time() {
        let mut runs = Vec::new();
        for inside_ns in [50.0, 90.0, 10.0, 40.0, 60.0, 55.0, 45.0] {
            runs.push(run(inside_ns));
            for index in far_from_median(&runs, ROWS_KEPT) {
                runs[index].raw = None;
            }
            assert!(runs.iter().filter(|run| run.raw.is_some()).count() <= ROWS_KEPT);
        }
        for index in far_from_median(&runs, 1) {
            runs[index].raw = None;
        }
        // 50 is the median of all.
        let kept: Vec<f64> =
            runs.iter().filter(|run| run.raw.is_some()).map(total_inside).collect();
        assert_eq!(kept, [50.0]);
        assert!(far_from_median(&[], 1).is_empty());
    }
}
