//! What the recorded processes read from the control page.

use crate::ring::Control;
use crate::watch::SLOW_TICKS;
use crate::{Options, Sample};
use std::sync::atomic::Ordering::Relaxed;

/// The settings that the recorded processes read.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `ring::CLOCK_...`.
    pub clock_kind: u32,
    /// Record every process of the tree.
    pub follow: bool,
    /// Return addresses of each call.
    pub stacks: u32,
    /// Record the calls that programs report by keel/recorder.h, not malloc.
    pub embedded: bool,
    /// Record samples.
    pub sample: Option<Sample>,
    /// See `struct kl_control`.
    pub slow_ticks: u64,
}

impl Settings {
    /// Those of the recording of a program from its start.
    pub fn of(options: &Options, clock_kind: u32) -> Settings {
        Settings {
            clock_kind,
            follow: options.follow_children,
            stacks: options.stacks,
            embedded: options.embedded,
            sample: options.sample,
            slow_ticks: if options.watch.is_some() { SLOW_TICKS } else { 0 },
        }
    }

    /// Writes them to the page.
    pub fn write(self, control: &Control) {
        control.clock.store(self.clock_kind, Relaxed);
        control.follow.store(u32::from(self.follow), Relaxed);
        control.stacks.store(self.stacks, Relaxed);
        control.embedded.store(u32::from(self.embedded), Relaxed);
        let Sample { bytes, seed } = self.sample.unwrap_or_default();
        control.sample_bytes.store(bytes, Relaxed);
        control.sample_seed.store(seed, Relaxed);
        control.slow_ticks.store(self.slow_ticks, Relaxed);
    }
}
