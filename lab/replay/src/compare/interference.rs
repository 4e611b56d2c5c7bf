//! Detects interference of the machine with runs. It uses the state of the machine, never the run's
//! own measurements: leaving out slow runs would mean choosing the result.

use keel_results::{ProcessorTime, Run, SLOW_PROCESSOR, Throughput};
use std::time::Instant;

/// If an empty pair of clock readings, or the loop, takes longer than in the best run of the
/// comparison by this factor, the processor was slower, for the calls as for them. Without
/// interference the pair varies by half a percent. The loop is up to 4 % longer in runs of an
/// allocator that leaves less of the instrument's code in the caches, and 50 % beside a neighbour.
const SLOWED: Speed = [1.015, 1.06];
/// Share of the processors' time that the hypervisor took.
const STOLEN: f64 = 0.02;
/// Share of the processors' time that other programs took.
const OTHERS: f64 = 0.10;
/// Times of the whole machine have steps of 10 ms for each processor; this many steps mean nothing.
const STEPS: u64 = 3;
const STEP_NS: u64 = 10_000_000;

/// Measures the machine's activity while a player runs.
pub struct Watch {
    begin: Instant,
    machine: ProcessorTime,
    own_ns: u64,
}

/// The machine's activity during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    pub wall_ns: u64,
    pub stolen_ns: u64,
    pub other_programs_ns: u64,
}

impl Watch {
    pub fn start() -> Watch {
        Watch { begin: Instant::now(), machine: ProcessorTime::now(), own_ns: own_ns() }
    }

    /// Excludes the time of this process and of its players, which have ended.
    pub fn stop(&self) -> Activity {
        let (machine, own) = (ProcessorTime::now(), own_ns() - self.own_ns);
        Activity {
            wall_ns: self.begin.elapsed().as_nanos() as u64,
            stolen_ns: machine.stolen_ns.saturating_sub(self.machine.stolen_ns),
            other_programs_ns: machine
                .busy_ns
                .saturating_sub(self.machine.busy_ns)
                .saturating_sub(own),
        }
    }
}

/// Processor time of this process and of its ended children, ns.
fn own_ns() -> u64 {
    let of = |who| {
        // SAFETY: all zeroes is a valid rusage, which is then written to.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &raw mut usage);
            usage
        };
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        ns(usage.ru_utime) + ns(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

/// The durations that show the speed of the processor: of an empty pair, and of the loop; 0 if
/// unknown. See [`Run::empty_pair_ns`] and [`Run::loop_ns`].
pub type Speed = [f64; 2];

/// A run during which the machine was watched.
pub trait Watched {
    /// See [`Speed`].
    fn speed(&self) -> Speed;
    /// See [`Run::interference`].
    fn interference(&self) -> &[String];
    /// The same, to be changed.
    fn interference_mut(&mut self) -> &mut Vec<String>;

    /// Whether the machine disturbed it.
    fn is_disturbed(&self) -> bool {
        !self.interference().is_empty()
    }

    /// Whether the processor was slower. This affects medians; other programs mainly affect tails.
    fn is_slow(&self) -> bool {
        self.interference().iter().any(|word| word == SLOW_PROCESSOR)
    }

    /// Whether it had less interference than another: no slow processor, or fewer kinds, or a
    /// faster processor.
    fn is_less_affected(&self, other: &Self) -> bool {
        let key = |run: &Self| (run.is_slow(), run.interference().len());
        match key(self).cmp(&key(other)) {
            std::cmp::Ordering::Equal => {
                let sum = |run: &Self| run.speed().iter().sum::<f64>();
                sum(self) < sum(other)
            }
            order => order.is_lt(),
        }
    }

    /// Notes whether the processor was slow, compared with the shortest durations of all runs of
    /// this kind, `best`.
    fn mark_slow(&mut self, best: Speed) {
        let mut both = self.speed().into_iter().zip(best).zip(SLOWED);
        let is_slow = both.any(|((own, best), limit)| best > 0.0 && own > limit * best);
        let words = self.interference_mut();
        words.retain(|word| word != SLOW_PROCESSOR);
        if is_slow {
            words.insert(0, SLOW_PROCESSOR.to_owned());
        }
    }
}

impl Watched for Run {
    fn speed(&self) -> Speed {
        [self.empty_pair_ns, self.loop_ns]
    }
    fn interference(&self) -> &[String] {
        &self.interference
    }
    fn interference_mut(&mut self) -> &mut Vec<String> {
        &mut self.interference
    }
}

impl Watched for Throughput {
    fn speed(&self) -> Speed {
        [self.empty_pair_ns, self.loop_ns]
    }
    fn interference(&self) -> &[String] {
        &self.interference
    }
    fn interference_mut(&mut self) -> &mut Vec<String> {
        &mut self.interference
    }
}

impl Activity {
    /// The interference that exceeded its bound, in the words of [`Run::interference`].
    pub fn interference(&self, processors: u32) -> Vec<String> {
        let processors = u64::from(processors.max(1));
        let beyond = |ns: u64, share: f64| {
            ns > STEPS * STEP_NS && ns as f64 > share * self.wall_ns as f64 * processors as f64
        };
        let found = [
            (beyond(self.stolen_ns, STOLEN), "stolen time"),
            (beyond(self.other_programs_ns, OTHERS), "other programs"),
        ];
        found.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn run(empty_pair_ns: f64, words: &[&str]) -> Run {
        let interference = words.iter().map(|&word| word.to_owned()).collect();
        Run { empty_pair_ns, interference, ..Run::default() }
    }

    #[test]
    fn interference_is_detected_from_the_machine() {
        let found = |wall_ms: u64, stolen_ms: u64, other_ms: u64| {
            let [wall_ns, stolen_ns, other_programs_ns] =
                [wall_ms, stolen_ms, other_ms].map(|ms| ms * MS);
            Activity { wall_ns, stolen_ns, other_programs_ns }.interference(2)
        };
        assert_eq!(found(1000, 30, 190), [""; 0], "within the bounds: 95 ms of each processor");
        assert_eq!(found(1000, 60, 300), ["stolen time", "other programs"]);
        assert_eq!(found(50, 30, 30), [""; 0], "steps of the system's count");
    }

    #[test]
    fn a_slow_processor_is_marked_against_the_best_run_known_so_far() {
        let mut one = run(15.2, &["stolen time"]);
        one.mark_slow([15.0, 0.0]);
        assert_eq!(one.interference, ["stolen time"]);
        one.mark_slow([14.8, 0.0]);
        assert_eq!(one.interference, ["slow processor", "stolen time"]);
        one.mark_slow([14.8, 0.0]);
        assert_eq!(one.interference.len(), 2, "noted once");
        let mut unknown = run(0.0, &[]);
        unknown.mark_slow([15.0, 70.0]);
        assert!(!unknown.is_disturbed());
    }

    #[test]
    fn a_neighbour_on_the_core_is_found_by_the_loop_alone() {
        let mut one = Run { empty_pair_ns: 20.0, loop_ns: 75.0, ..Run::default() };
        one.mark_slow([20.0, 72.0]);
        assert!(!one.is_slow());
        one.mark_slow([20.0, 70.0]);
        assert!(one.is_slow());
        let quiet = Run { empty_pair_ns: 20.1, loop_ns: 70.0, ..Run::default() };
        assert!(quiet.is_less_affected(&one) && !one.is_less_affected(&quiet));
    }

    #[test]
    fn the_run_with_less_interference_is_kept() {
        let less = |one: Run, other: Run| one.is_less_affected(&other);
        assert!(less(run(15.0, &[]), run(14.9, &["other programs"])));
        let two = run(15.0, &["stolen time", "other programs"]);
        assert!(less(two, run(16.0, &["slow processor"])));
        assert!(less(run(16.0, &["slow processor"]), run(17.0, &["slow processor"])));
        assert!(!less(run(17.0, &["slow processor"]), run(16.0, &["slow processor"])));
    }

    #[test]
    fn the_work_of_this_process_is_not_interference() {
        let watch = Watch::start();
        let mut sum = 0u64;
        while watch.begin.elapsed().as_millis() < 200 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let own = own_ns() - watch.own_ns;
        let activity = watch.stop();
        assert!(own > 0 && activity.wall_ns >= 200 * MS);
        // The time of other programs is unknown here, but bounded by the time of all processors,
        // also of those that this process may not use. SAFETY: returns a number.
        let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) } as u64;
        let all = activity.wall_ns * processors;
        assert!(activity.other_programs_ns + own <= all + 10 * STEP_NS, "{activity:?}, own {own}");
    }
}
