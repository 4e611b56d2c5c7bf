//! Time inside calls for each frame of the recorded program.

use super::growing;
use keel_plan::Record;
use keel_results::{Frame, FrameSums};

/// The most frames that are listed.
const MAX_FRAMES: usize = 100;

/// Sums up calls in journal order. Frames rise in this order, so only the current one is open.
pub struct Frames<'a> {
    /// Each frame that has operations, with its first row.
    starts: &'a [(u32, u32)],
    /// The index of the open frame in `starts`.
    at: usize,
    calls: u32,
    ticks: Vec<u64>,
    uninterrupted: u64,
    sums: FrameSums,
    ticks_per_ns: f64,
}

impl<'a> Frames<'a> {
    /// For the frames of a plan with `threads` threads.
    pub fn new(starts: &'a [(u32, u32)], threads: usize, ticks_per_ns: f64) -> Frames<'a> {
        let sums = FrameSums {
            all_threads: growing(),
            uninterrupted: Some(growing()),
            busiest_thread: growing(),
            worst: Vec::new(),
        };
        let ticks = vec![0; threads];
        Frames { starts, at: 0, calls: 0, ticks, uninterrupted: 0, sums, ticks_per_ns }
    }

    /// Adds a call of a thread. `cause`: see [`keel_plan::Record::cause`].
    pub fn add(&mut self, row: u32, thread: usize, ticks: u32, cause: u32) {
        while self.starts.get(self.at + 1).is_some_and(|&(_, first)| first <= row) {
            self.close();
            self.at += 1;
        }
        self.calls += 1;
        self.ticks[thread] += u64::from(ticks);
        if !Record::only_preempted(cause) {
            self.uninterrupted += u64::from(ticks);
        }
    }

    fn close(&mut self) {
        let (at, next) = self.around();
        // What comes before the first mark is no frame: there the program starts.
        if at > 0 {
            let ns = |ticks: u64| ticks as f64 / self.ticks_per_ns;
            let frame = Frame {
                frame: at,
                calls: self.calls,
                ns: ns(self.ticks.iter().sum()),
                busiest_ns: ns(self.ticks.iter().copied().max().unwrap_or(0)),
            };
            self.count([frame.ns, frame.busiest_ns, ns(self.uninterrupted)], 1);
            self.sums.worst.push(frame);
            if self.sums.worst.len() >= 8 * MAX_FRAMES {
                self.prune();
            }
        }
        // Frames without a call count with a time of 0.
        let empty = u64::from(next.saturating_sub(at + 1));
        if empty > 0 {
            self.count([0.0; 3], empty);
        }
        self.calls = 0;
        self.ticks.fill(0);
        self.uninterrupted = 0;
    }

    /// The open frame and the next one with operations.
    fn around(&self) -> (u32, u32) {
        let at = self.starts.get(self.at).map_or(0, |&(frame, _)| frame);
        (at, self.starts.get(self.at + 1).map_or(at + 1, |&(next, _)| next))
    }

    /// Counts frames whose calls take these times: of all threads, of the busiest one, and without
    /// those that were only preempted.
    fn count(&mut self, [all, busiest, uninterrupted]: [f64; 3], frames: u64) {
        super::count(&mut self.sums.all_threads, all as u64, frames);
        super::count(&mut self.sums.busiest_thread, busiest as u64, frames);
        if let Some(sums) = &mut self.sums.uninterrupted {
            super::count(sums, uninterrupted as u64, frames);
        }
    }

    fn prune(&mut self) {
        self.sums.worst.sort_by(|one, other| other.ns.total_cmp(&one.ns));
        self.sums.worst.truncate(MAX_FRAMES);
    }

    /// The sums; None if the journal has one frame or none.
    pub fn finish(mut self) -> Option<FrameSums> {
        if self.starts.len() < 2 {
            return None;
        }
        self.close();
        self.prune();
        Some(self.sums)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn calls_are_summed_by_frame_and_empty_frames_count() {
        let starts = [(1, 0), (2, 2), (6, 3)];
        let mut frames = Frames::new(&starts, 2, 2.0);
        for (row, thread, ticks) in [(0, 0, 20), (1, 1, 40), (2, 0, 100), (3, 1, 8), (4, 1, 8)] {
            frames.add(row, thread, ticks, if row == 0 { keel_plan::CAUSE_INTERRUPTED } else { 0 });
        }
        let sums = frames.finish().unwrap();
        assert_eq!(sums.all_threads.0.len(), 6, "frames 3, 4 and 5 are empty");
        assert_eq!(sums.all_threads.0.count_at(0), 3);
        let uninterrupted = sums.uninterrupted.unwrap().0;
        assert_eq!((uninterrupted.len(), uninterrupted.count_at(0)), (6, 3));
        assert_eq!([8, 20, 50].map(|ns| uninterrupted.count_at(ns)), [1, 1, 1]);
        let worst: Vec<_> = sums
            .worst
            .iter()
            .map(|frame| (frame.frame, frame.calls, frame.ns, frame.busiest_ns))
            .collect();
        assert_eq!(worst, [(2, 1, 50.0, 50.0), (1, 2, 30.0, 20.0), (6, 2, 8.0, 8.0)]);
        assert!(Frames::new(&starts[..1], 1, 1.0).finish().is_none());
    }

    #[test]
    fn what_comes_before_the_first_mark_is_no_frame() {
        let starts = [(0, 0), (2, 2), (3, 3)];
        let mut frames = Frames::new(&starts, 1, 1.0);
        for (row, ticks) in [(0, 9000), (1, 9000), (2, 5), (3, 6)] {
            frames.add(row, 0, ticks, 0);
        }
        let sums = frames.finish().unwrap();
        assert_eq!((sums.all_threads.0.len(), sums.all_threads.0.max()), (3, 6), "1 is empty");
        assert_eq!(sums.worst.iter().map(|one| one.frame).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(sums.worst[0].calls, 1);
    }
}
