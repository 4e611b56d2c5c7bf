//! Detects interference of the machine with runs. It uses the state of the machine, never the run's
//! own measurements: leaving out slow runs would mean choosing the result.

use keel_results::{Comparison, ProcessorTime, Run};
use std::time::Instant;

/// If an empty pair of clock readings takes longer than in the best run of the comparison by this
/// factor, the processor was slower, for the calls as for the pair. Without interference it varies
/// by half a percent.
const SLOWED: f64 = 1.015;
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

/// The shortest empty pair of all runs, ns; 0 without one.
pub fn best_pair(comparison: &Comparison) -> f64 {
    let runs = comparison.allocators.iter().flat_map(|result| &result.runs);
    let pairs = runs.map(|run| run.empty_pair_ns).filter(|&pair| pair > 0.0);
    pairs.min_by(f64::total_cmp).unwrap_or(0.0)
}

/// The interference with a run that exceeds its bound, in the words of [`Run::interference`].
pub fn interference(run: &Run, wall_ns: u64, processors: u32, best_pair_ns: f64) -> Vec<String> {
    let processors = u64::from(processors.max(1));
    let beyond = |ns: u64, share: f64| {
        ns > STEPS * STEP_NS && ns as f64 > share * wall_ns as f64 * processors as f64
    };
    let found = [
        (best_pair_ns > 0.0 && run.empty_pair_ns > SLOWED * best_pair_ns, "slow processor"),
        (beyond(run.stolen_ns, STOLEN), "stolen time"),
        (beyond(run.other_programs_ns, OTHERS), "other programs"),
    ];
    found.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word.to_owned()).collect()
}

/// Whether the processor was slower. This affects medians; other programs mainly affect tails.
pub fn is_slow(run: &Run) -> bool {
    run.interference.iter().any(|word| word == "slow processor")
}

/// Whether a run had less interference than another: no slow processor, or fewer kinds, or a faster
/// processor.
pub fn is_less_affected(one: &Run, other: &Run) -> bool {
    let key = |run: &Run| (is_slow(run), run.interference.len());
    key(one) < key(other) || (key(one) == key(other) && one.empty_pair_ns < other.empty_pair_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn run(empty_pair_ns: f64, stolen_ms: u64, foreign_ms: u64) -> Run {
        Run {
            empty_pair_ns,
            stolen_ns: stolen_ms * MS,
            other_programs_ns: foreign_ms * MS,
            ..Run::default()
        }
    }

    #[test]
    fn interference_is_detected_from_the_machine() {
        let found = |run: &Run| interference(run, 1000 * MS, 2, 15.0);
        assert_eq!(found(&run(15.2, 30, 30)), [""; 0], "within the bounds");
        assert_eq!(found(&run(15.9, 0, 0)), ["slow processor"]);
        assert_eq!(found(&run(15.9, 60, 300)), ["slow processor", "stolen time", "other programs"]);
        assert_eq!(
            found(&run(0.0, 0, 190)),
            [""; 0],
            "no empty pair is known, and 95 ms of each processor"
        );
        assert_eq!(
            interference(&run(15.0, 30, 30), 50 * MS, 2, 15.0),
            [""; 0],
            "steps of the system's count"
        );
    }

    #[test]
    fn the_run_with_less_interference_is_kept() {
        let affected = |pair, words: &[&str]| Run {
            interference: words.iter().map(|&word| word.to_owned()).collect(),
            ..run(pair, 0, 0)
        };
        assert!(is_less_affected(&affected(15.0, &[]), &affected(14.9, &["other programs"])));
        assert!(is_less_affected(
            &affected(15.0, &["stolen time", "other programs"]),
            &affected(16.0, &["slow processor"])
        ));
        assert!(is_less_affected(
            &affected(16.0, &["slow processor"]),
            &affected(17.0, &["slow processor"])
        ));
        assert!(!is_less_affected(
            &affected(17.0, &["slow processor"]),
            &affected(16.0, &["slow processor"])
        ));
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
