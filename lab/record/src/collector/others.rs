//! The processes that the program started: those that outlive it, and those that worked for it.

use super::Collector;
use crate::launch::{Ended, Orphans};
use crate::{Progress, lineage};
use std::time::{Duration, Instant};

impl Collector<'_> {
    /// Without `follow_children`: the processes that live on unrecorded.
    pub(super) fn note_living(&mut self, orphans: &Orphans) {
        if self.options.follow_children || !orphans.reap(self.root_pid) {
            return;
        }
        let living = living(self.root_pid);
        if !living.is_empty() {
            self.notes.push(format!(
                "the program has ended, and processes that it started still run unrecorded: {}; \
                 --follow-children records them as well",
                lineage::list(&living)
            ));
        }
    }

    /// Without `follow_children`: others that did most of the work, as a compiler's driver has.
    pub(super) fn note_children(&mut self, ended: &Ended) {
        /// Less is not worth a note.
        const LEAST: Duration = Duration::from_millis(50);
        let is_most = ended.children > ended.own && ended.children >= LEAST;
        if self.options.follow_children || !is_most {
            return;
        }
        self.notes.push(format!(
            "the processes that the program started took more processor time ({:.2} s) than the \
             program ({:.2} s), and are not recorded: keel record --follow-children records them",
            ended.children.as_secs_f64(),
            ended.own.as_secs_f64()
        ));
    }

    /// Once, when the program has ended and others have not.
    pub(super) fn say_whom_it_follows(&mut self, report: &mut dyn FnMut(Progress)) {
        /// Most processes end soon after the program.
        const FOLLOWS_AFTER: Duration = Duration::from_secs(1);
        let since = *self.follows_since.get_or_insert_with(Instant::now);
        if self.follows_said || since.elapsed() < FOLLOWS_AFTER {
            return;
        }
        self.follows_said = true;
        let mut living = living(self.root_pid);
        if living.is_empty() {
            let pids = self.images.values().map(|image| image.pid);
            living = pids.filter_map(|pid| Some((pid, lineage::name(pid)?))).collect();
        }
        report(Progress { follows: Some(lineage::list(&living)), ..self.progress() });
    }
}

/// The processes below this one, without the program itself.
fn living(program: u32) -> Vec<(u32, String)> {
    let below = lineage::descendants(std::process::id()).into_iter();
    let others = below.filter(|pid| *pid != program);
    others.filter_map(|pid| Some((pid, lineage::name(pid)?))).collect()
}
