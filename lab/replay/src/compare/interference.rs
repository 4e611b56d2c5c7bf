//! Which runs the machine disturbed. Told by what the machine did, never by what the run measured: to leave runs out
//! because they are slow would be to choose the result.

use keel_results::{Comparison, ProcessorTime, Run};
use std::time::Instant;

/// An empty pair of clock readings that takes so much longer than in the best run of the comparison: the processor was
/// slowed, for the calls as for the pair. In undisturbed runs it repeats to half a per cent.
const SLOWED: f64 = 1.015;
/// Share of the processors' time that the hypervisor took.
const STOLEN: f64 = 0.02;
/// Share of the processors' time that other programs took.
const OTHERS: f64 = 0.10;
/// Times of the whole machine come in steps of 10 ms for each processor; so many of them are no sign of anything.
const STEPS: u64 = 3;
const STEP_NS: u64 = 10_000_000;

/// The machine's doings from one moment to another, while players run.
pub struct Watch {
    begin: Instant,
    machine: ProcessorTime,
    own_ns: u64,
}

/// What the machine did in the meantime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meanwhile {
    pub wall_ns: u64,
    pub stolen_ns: u64,
    pub other_programs_ns: u64,
}

impl Watch {
    pub fn start() -> Watch {
        Watch { begin: Instant::now(), machine: ProcessorTime::now(), own_ns: own_ns() }
    }

    /// What this process and its players, which have ended, did is not foreign.
    pub fn stop(&self) -> Meanwhile {
        let (machine, own) = (ProcessorTime::now(), own_ns() - self.own_ns);
        Meanwhile {
            wall_ns: self.begin.elapsed().as_nanos() as u64,
            stolen_ns: machine.stolen_ns.saturating_sub(self.machine.stolen_ns),
            other_programs_ns: machine.busy_ns.saturating_sub(self.machine.busy_ns).saturating_sub(own),
        }
    }
}

/// Processor time of this process and of those that it has waited for, ns.
fn own_ns() -> u64 {
    let of = |who| {
        // SAFETY: all zeroes is a valid rusage, which is then written to.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &raw mut usage);
            usage
        };
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
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

/// By what a run was disturbed beyond the bounds, in the words of [`Run::interference`].
pub fn interference(run: &Run, wall_ns: u64, processors: u32, best_pair_ns: f64) -> Vec<String> {
    let processors = u64::from(processors.max(1));
    let beyond =
        |ns: u64, share: f64| ns > STEPS * STEP_NS && ns as f64 > share * wall_ns as f64 * processors as f64;
    let found = [
        (best_pair_ns > 0.0 && run.empty_pair_ns > SLOWED * best_pair_ns, "slow processor"),
        (beyond(run.stolen_ns, STOLEN), "stolen time"),
        (beyond(run.other_programs_ns, OTHERS), "other programs"),
    ];
    found.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word.to_owned()).collect()
}

/// Whether the processor was slowed: that moves medians, while other programs move little but tails.
pub fn is_slowed(run: &Run) -> bool {
    run.interference.iter().any(|word| word == "slow processor")
}

/// Whether one run was disturbed less than the other: not slowed, or by fewer things, or on a faster processor.
pub fn is_less_affected(one: &Run, other: &Run) -> bool {
    let key = |run: &Run| (is_slowed(run), run.interference.len());
    key(one) < key(other) || (key(one) == key(other) && one.empty_pair_ns < other.empty_pair_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn run(empty_pair_ns: f64, stolen_ms: u64, foreign_ms: u64) -> Run {
        Run { empty_pair_ns, stolen_ns: stolen_ms * MS, other_programs_ns: foreign_ms * MS, ..Run::default() }
    }

    #[test]
    fn runs_are_disturbed_by_what_the_machine_did() {
        let told = |run: &Run| interference(run, 1000 * MS, 2, 15.0);
        assert_eq!(told(&run(15.2, 30, 30)), [""; 0], "within the bounds");
        assert_eq!(told(&run(15.9, 0, 0)), ["slow processor"]);
        assert_eq!(told(&run(15.9, 60, 300)), ["slow processor", "stolen time", "other programs"]);
        assert_eq!(told(&run(0.0, 0, 190)), [""; 0], "no empty pair is known, and 95 ms of each processor");
        assert_eq!(
            interference(&run(15.0, 30, 30), 50 * MS, 2, 15.0),
            [""; 0],
            "steps of the system's count"
        );
    }

    #[test]
    fn of_two_runs_the_less_disturbed_is_kept() {
        let disturbed = |pair, words: &[&str]| Run {
            interference: words.iter().map(|&word| word.to_owned()).collect(),
            ..run(pair, 0, 0)
        };
        assert!(is_less_affected(&disturbed(15.0, &[]), &disturbed(14.9, &["other programs"])));
        assert!(is_less_affected(
            &disturbed(15.0, &["stolen time", "other programs"]),
            &disturbed(16.0, &["slow processor"])
        ));
        assert!(is_less_affected(
            &disturbed(16.0, &["slow processor"]),
            &disturbed(17.0, &["slow processor"])
        ));
        assert!(!is_less_affected(
            &disturbed(17.0, &["slow processor"]),
            &disturbed(16.0, &["slow processor"])
        ));
    }

    #[test]
    fn the_work_of_this_process_is_not_foreign() {
        let watch = Watch::start();
        let mut sum = 0u64;
        while watch.begin.elapsed().as_millis() < 200 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let own = own_ns() - watch.own_ns;
        let meanwhile = watch.stop();
        assert!(own > 0 && meanwhile.wall_ns >= 200 * MS);
        // What the others did is not known here; but it is less than all processors did, also those that are not for
        // this process.
        // SAFETY: asks for a number.
        let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) } as u64;
        let all = meanwhile.wall_ns * processors;
        assert!(meanwhile.other_programs_ns + own <= all + 10 * STEP_NS, "{meanwhile:?}, own {own}");
    }
}
