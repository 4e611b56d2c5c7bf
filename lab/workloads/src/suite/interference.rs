//! Watches the machine during the runs of a suite, as `keel compare` does: a run that the machine
//! disturbed is repeated. The run's own measurements are never looked at: leaving out slow runs
//! would mean choosing the result.

use keel_player::clock::{Clock, Counter, Monotonic, trustworthy};
use keel_results::ProcessorTime;
use std::time::Instant;

/// An empty pair of clock readings that is longer than the best one by this factor: the processor
/// was slower.
const SLOWED: f64 = 1.015;
/// Share of the processors' time that the hypervisor took.
const STOLEN: f64 = 0.02;
/// Share of the processors' time that other programs took.
const OTHERS: f64 = 0.10;
/// Times of the machine have steps of 10 ms; less than this means nothing.
const LEAST_NS: u64 = 30_000_000;
/// Pairs of readings of which the shortest counts; 0.1 ms.
const PAIRS: usize = 4000;
/// The most repeats of a run.
const REPEATS: usize = 3;
/// After this many repeats in a row that were disturbed too, the machine is taken as it is.
const HOPELESS: usize = 6;
const SLOW: &str = "slow processor";

/// The processors that this process and its children may use, by number.
pub fn processors() -> Vec<usize> {
    // SAFETY: all zeroes is an empty set, which is then written to; its size is passed.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        set
    };
    // SAFETY: reads a bit of the set.
    let has = |one: &usize| unsafe { libc::CPU_ISSET(*one, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(has).collect()
}

/// The activity of these processors during a run.
pub struct Watch {
    processors: Vec<usize>,
    begin: Instant,
    before: ProcessorTime,
    pair: u64,
}

/// What a [`Watch`] found.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// Elapsed time times processors, ns.
    pub whole_ns: f64,
    /// Of all programs, ns.
    pub busy_ns: u64,
    /// Taken by the hypervisor, ns.
    pub stolen_ns: u64,
    /// The longer one of the shortest empty pairs before and after, in ticks.
    pub pair: u64,
}

impl Watch {
    /// Begins.
    pub fn start() -> Watch {
        let processors = processors();
        let before = ProcessorTime::now_on(&processors);
        Watch { processors, begin: Instant::now(), before, pair: shortest_pair() }
    }

    /// Ends.
    pub fn stop(self) -> Activity {
        let after = ProcessorTime::now_on(&self.processors);
        let elapsed = self.begin.elapsed().as_nanos() as f64;
        Activity {
            whole_ns: elapsed * self.processors.len().max(1) as f64,
            busy_ns: after.busy_ns.saturating_sub(self.before.busy_ns),
            stolen_ns: after.stolen_ns.saturating_sub(self.before.stolen_ns),
            pair: self.pair.max(shortest_pair()),
        }
    }
}

impl Activity {
    /// The share of the processors that others used, if the run itself used `own_ns`.
    pub fn others(&self, own_ns: f64) -> f64 {
        let others = (self.busy_ns + self.stolen_ns) as f64 - own_ns;
        if self.whole_ns > 0.0 { (others / self.whole_ns).clamp(0.0, 1.0) } else { 0.0 }
    }
}

fn shortest_pair() -> u64 {
    fn of<C: Clock>() -> u64 {
        let pair = || {
            let begin = C::begin();
            C::end().saturating_sub(begin)
        };
        (0..PAIRS).map(|_| pair()).min().unwrap_or(0)
    }
    if trustworthy() { of::<Counter>() } else { of::<Monotonic>() }
}

/// Judges runs, and counts repeats.
#[derive(Debug, Default)]
pub struct Judge {
    best_pair: u64,
    failed_repeats: usize,
}

impl Judge {
    /// Measures the speed of the processor for some time before the first run.
    pub fn new() -> Judge {
        let best_pair = (0..50).map(|_| shortest_pair()).min().unwrap_or(0);
        Judge { best_pair, failed_repeats: 0 }
    }

    /// How the machine disturbed a run that used `own_ns` of processor time.
    pub fn interference(&mut self, activity: &Activity, own_ns: f64) -> Vec<String> {
        if activity.pair > 0 && (self.best_pair == 0 || activity.pair < self.best_pair) {
            self.best_pair = activity.pair;
        }
        let beyond = |ns: f64, share: f64| ns > LEAST_NS as f64 && ns > share * activity.whole_ns;
        let found = [
            (activity.pair as f64 > SLOWED * self.best_pair as f64, SLOW),
            (beyond(activity.stolen_ns as f64, STOLEN), "stolen time"),
            (beyond(activity.busy_ns as f64 - own_ns, OTHERS), "other programs"),
        ];
        found.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word.to_owned()).collect()
    }

    /// Whether a run is repeated, after `repeats` repeats.
    pub fn repeats(&self, interference: &[String], repeats: usize) -> bool {
        !interference.is_empty() && repeats < REPEATS && self.failed_repeats < HOPELESS
    }

    /// Takes note of a run: of the first one of a turn (`is_repeat` is false), or of a repeat.
    pub fn note(&mut self, interference: &[String], is_repeat: bool) {
        if interference.is_empty() {
            self.failed_repeats = 0;
        } else if is_repeat {
            self.failed_repeats += 1;
        }
    }
}

/// Whether `one` is less disturbed than `other`: without a slow processor, else of fewer kinds,
/// else with a smaller share of others.
pub fn is_less_disturbed(one: (&[String], f64), other: (&[String], f64)) -> bool {
    let slow = |words: &[String]| words.iter().any(|word| word == SLOW);
    let key = |words: &[String]| (slow(words), words.len());
    (key(one.0), one.1) < (key(other.0), other.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(busy_ms: u64, stolen_ms: u64, pair: u64) -> Activity {
        let ns = |ms: u64| ms * 1_000_000;
        Activity { whole_ns: 2e9, busy_ns: ns(busy_ms), stolen_ns: ns(stolen_ms), pair }
    }

    #[test]
    fn interference_is_what_exceeds_the_run_itself() {
        let mut judge = Judge { best_pair: 100, failed_repeats: 0 };
        let own = 1e9;
        assert!(judge.interference(&activity(1190, 30, 101), own).is_empty());
        let words = judge.interference(&activity(1210, 50, 102), own);
        assert_eq!(words, ["slow processor", "stolen time", "other programs"]);
        assert!(judge.interference(&activity(0, 0, 98), own).is_empty(), "a new best pair");
        assert_eq!(judge.interference(&activity(0, 0, 100), own), [SLOW]);
        assert!((activity(1500, 100, 0).others(own) - 0.3).abs() < 1e-9);
    }

    #[test]
    fn repeats_end_when_they_do_not_help() {
        let mut judge = Judge::default();
        let words = ["other programs".to_owned()];
        assert!(!judge.repeats(&[], 0));
        assert!(judge.repeats(&words, 2) && !judge.repeats(&words, 3));
        (0..6).for_each(|_| judge.note(&words, true));
        assert!(!judge.repeats(&words, 0), "the machine is taken as it is");
        judge.note(&words, false);
        assert!(!judge.repeats(&words, 0));
        judge.note(&[], false);
        assert!(judge.repeats(&words, 0), "until a run is undisturbed");
    }

    #[test]
    fn the_less_disturbed_run_counts() {
        let (slow, others) = ([SLOW.to_owned()], ["other programs".to_owned()]);
        let two = ["stolen time".to_owned(), "other programs".to_owned()];
        assert!(is_less_disturbed((&two, 0.9), (&slow, 0.1)));
        assert!(is_less_disturbed((&others, 0.9), (&two, 0.1)));
        assert!(is_less_disturbed((&others, 0.1), (&others, 0.2)));
        assert!(!is_less_disturbed((&others, 0.1), (&[], 0.2)));
    }

    #[test]
    fn the_processors_of_this_process_are_found() {
        let count = std::thread::available_parallelism().map_or(1, |count| count.get());
        assert!(!processors().is_empty() && processors().len() >= count);
    }
}
