//! Why a slow call was slow, and to what its duration is attributed: the allocator, the operating
//! system, or neither for certain. The page takes the same sentences from its facts.

use crate::figures::FLOOR;
use crate::words::{duration, list};
use keel_results::{
    CAUSE_FAULT, CAUSE_FOLLOWS_DETECTOR, CAUSE_INTERRUPT, CAUSE_INTERRUPTED,
    CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT, CAUSE_SYSCALL, CAUSE_SYSCALL_UNKNOWN, Comparison,
    Outlier, system_calls,
};
use serde::Serialize;
use std::collections::HashMap;

/// Page faults of a call are counted up to this number.
const MOST_FAULTS: u32 = 255;
/// The cause of a call for which none was recorded.
pub const OWN_WORK: &str = "the allocator's own work";

/// To what the duration of a slow call is attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Attribution {
    /// The work of the allocator, or the kernel's work that it asked for.
    Allocator,
    /// The operating system, which preempted the thread.
    System,
    /// The measurements do not decide.
    Unknown,
}

impl Attribution {
    /// The cell of a table.
    const fn short(self) -> &'static str {
        match self {
            Attribution::Allocator => "allocator",
            Attribution::System => "operating system",
            Attribution::Unknown => "unknown",
        }
    }
}

/// The grounds of an attribution. The discriminant is the index in [`SlowCalls`]' verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ground {
    SystemCall,
    PageFault,
    OwnWork,
    Lock,
    Preempted,
    PreemptedInKernel,
    PreemptedOrWaiting,
    Waited,
    NotReported,
    Interrupt,
    Machine,
}

const GROUNDS: [Ground; 11] = [
    Ground::SystemCall,
    Ground::PageFault,
    Ground::OwnWork,
    Ground::Lock,
    Ground::Preempted,
    Ground::PreemptedInKernel,
    Ground::PreemptedOrWaiting,
    Ground::Waited,
    Ground::NotReported,
    Ground::Interrupt,
    Ground::Machine,
];

impl Ground {
    const fn attribution(self) -> Attribution {
        match self {
            Ground::SystemCall | Ground::PageFault | Ground::OwnWork | Ground::Lock => {
                Attribution::Allocator
            }
            Ground::Preempted => Attribution::System,
            _ => Attribution::Unknown,
        }
    }

    /// `machine_ns`: the longest call of the floor that neither the kernel nor an interrupt
    /// explains.
    fn sentence(self, machine_ns: f64) -> String {
        let text = match self {
            Ground::SystemCall => "Attributed to the allocator: it made a system call.",
            Ground::PageFault => {
                "Attributed to the allocator: it used memory that was not resident (page fault)."
            }
            Ground::OwnWork => {
                "Attributed to the allocator, because no interruption explains its time."
            }
            Ground::Lock => {
                "Attributed to the allocator: the call waited for a lock of the allocator, which \
                 another thread held."
            }
            Ground::Preempted => {
                "Attributed to the operating system, because it ran another thread during the call."
            }
            Ground::PreemptedInKernel => {
                "Attribution unknown: the kernel worked for the call, and it also ran another \
                 thread (preemption). It is not known how long each of these took."
            }
            Ground::PreemptedOrWaiting => {
                "Attribution unknown: the system ran another thread during the call, or the call \
                 waited for a lock."
            }
            Ground::Waited => {
                "Attribution unknown: the thread waited for a lock or for the disk. The length of \
                 the wait was not measured."
            }
            Ground::NotReported => "Attribution unknown: this system does not report preemption.",
            Ground::Interrupt => {
                "Attribution unknown: a hardware interrupt occurred during the call. The length of \
                 the interrupt was not measured."
            }
            Ground::Machine => {
                let seen = duration(machine_ns);
                return format!(
                    "Attribution unknown: the machine may have caused the latency. A call of the \
                     null allocator, which does nothing, took {seen}."
                );
            }
        };
        text.to_owned()
    }
}

/// The attribution of a slow call, as the page shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallVerdict {
    /// To what the duration is attributed.
    pub attribution: Attribution,
    /// The same as the cell of a table.
    pub short: &'static str,
    /// The same as a sentence with its reason.
    pub sentence: String,
}

/// The words for the slow calls of all runs. A call refers to them by index.
#[derive(Debug, Serialize)]
pub struct SlowCalls {
    /// Each distinct description of a cause: `preempted, 2 page faults`.
    causes: Vec<String>,
    /// All attributions.
    verdicts: Vec<CallVerdict>,
    #[serde(skip)]
    cause_indices: HashMap<(u8, u32, u32), usize>,
    #[serde(skip)]
    ticks_per_ns: f64,
    #[serde(skip)]
    machine_ns: f64,
}

impl SlowCalls {
    /// The words for a comparison.
    pub fn of(comparison: &Comparison) -> SlowCalls {
        let ticks_per_ns = comparison.clock.ticks_per_ns;
        // A page has the slow calls of the median runs, and the slowest ones of all.
        let all = comparison.allocators.iter().flat_map(|result| &result.runs);
        let own_work = |outlier: &&Outlier| {
            outlier.cause & !(CAUSE_SYSCALL_UNKNOWN | CAUSE_FOLLOWS_DETECTOR) == 0
        };
        let floor = comparison.allocators.iter().filter(|result| result.name == FLOOR);
        let floor = floor.flat_map(|result| &result.runs).flat_map(|run| &run.outliers);
        let longest = floor.filter(own_work).map(|outlier| outlier.ticks).max().unwrap_or(0);
        let machine_ns = f64::from(longest) / ticks_per_ns;
        let (mut causes, mut cause_indices) = (Vec::new(), HashMap::new());
        let mut index_of_words = HashMap::new();
        for outlier in all.flat_map(|run| &run.outliers) {
            cause_indices.entry(cause_key(outlier)).or_insert_with(|| {
                let words = cause_words(outlier);
                *index_of_words.entry(words.clone()).or_insert_with(|| {
                    causes.push(words);
                    causes.len() - 1
                })
            });
        }
        let verdicts = GROUNDS.map(|ground| CallVerdict {
            attribution: ground.attribution(),
            short: ground.attribution().short(),
            sentence: ground.sentence(machine_ns),
        });
        let verdicts = verdicts.to_vec();
        SlowCalls { causes, verdicts, cause_indices, ticks_per_ns, machine_ns }
    }

    /// The index of the cause of a call.
    pub fn cause_index(&self, outlier: &Outlier) -> usize {
        self.cause_indices.get(&cause_key(outlier)).copied().unwrap_or(0)
    }

    /// The index of a call's attribution.
    pub fn verdict_index(&self, outlier: &Outlier) -> usize {
        let ns = f64::from(outlier.ticks) / self.ticks_per_ns;
        ground(outlier, ns, self.machine_ns) as usize
    }

    /// The words for the cause of a call of any run.
    pub fn cause(outlier: &Outlier) -> String {
        cause_words(outlier)
    }

    /// A call's attribution.
    pub fn verdict(&self, outlier: &Outlier) -> &CallVerdict {
        &self.verdicts[self.verdict_index(outlier)]
    }
}

fn cause_key(outlier: &Outlier) -> (u8, u32, u32) {
    (outlier.cause, outlier.faults.min(MOST_FAULTS), outlier.calls)
}

/// The grounds for a call of `ns`.
fn ground(outlier: &Outlier, ns: f64, machine_ns: f64) -> Ground {
    let has = |bits: u8| outlier.cause & bits != 0;
    let futex = || system_calls(outlier.calls).any(|name| name == "futex");
    if has(CAUSE_INTERRUPTED) {
        // The fault of a huge page may take milliseconds too, so even one fault leaves it
        // undecided.
        return match () {
            () if has(CAUSE_FAULT | CAUSE_SYSCALL) => Ground::PreemptedInKernel,
            () if has(CAUSE_SLEPT) => Ground::PreemptedOrWaiting,
            () => Ground::Preempted,
        };
    }
    match () {
        () if has(CAUSE_SLEPT) && !has(CAUSE_FAULT) && futex() => Ground::Lock,
        () if has(CAUSE_SLEPT) => Ground::Waited,
        () if has(CAUSE_INTERRUPTED_UNKNOWN) => Ground::NotReported,
        () if has(CAUSE_SYSCALL) => Ground::SystemCall,
        () if has(CAUSE_FAULT) => Ground::PageFault,
        () if has(CAUSE_INTERRUPT) => Ground::Interrupt,
        () if machine_ns * 2.0 >= ns => Ground::Machine,
        () => Ground::OwnWork,
    }
}

/// All that was recorded about a slow call.
fn cause_words(outlier: &Outlier) -> String {
    let has = |bits: u8| outlier.cause & bits != 0;
    let mut words: Vec<String> = Vec::new();
    if has(CAUSE_INTERRUPTED) {
        words.push("preempted".into());
    }
    if has(CAUSE_SLEPT) {
        words.push("waited for a lock or the disk".into());
    }
    if has(CAUSE_INTERRUPT) {
        words.push("hardware interrupt".into());
    }
    match outlier.faults {
        0 if has(CAUSE_FAULT) => words.push("page fault".into()),
        0 => {}
        1 => words.push("1 page fault".into()),
        MOST_FAULTS.. => words.push(format!("{MOST_FAULTS} or more page faults")),
        faults => words.push(format!("{faults} page faults")),
    }
    let made: Vec<&str> = system_calls(outlier.calls).collect();
    if made.iter().any(|name| *name != "other") {
        let names: Vec<&str> =
            made.iter().map(|name| if *name == "other" { "others" } else { *name }).collect();
        words.push(format!(
            "system call{} {}",
            if made.len() == 1 { "" } else { "s" },
            list(&names)
        ));
    } else if has(CAUSE_SYSCALL) || !made.is_empty() {
        words.push("system call".into());
    }
    match words.is_empty() {
        false => words.join(", "),
        true if has(CAUSE_INTERRUPTED_UNKNOWN | CAUSE_SYSCALL_UNKNOWN) => "unknown".into(),
        true => OWN_WORK.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ground_is_at_its_own_index() {
        for (index, ground) in GROUNDS.into_iter().enumerate() {
            assert_eq!(ground as usize, index, "{ground:?}");
        }
    }

    #[test]
    fn causes_name_all_that_was_recorded() {
        let words = |cause, faults, calls| {
            cause_words(&Outlier { cause, faults, calls, ..Outlier::default() })
        };
        assert_eq!(words(0, 0, 0), "the allocator's own work");
        assert_eq!(words(CAUSE_SYSCALL_UNKNOWN, 0, 0), "unknown");
        assert_eq!(words(CAUSE_INTERRUPTED | CAUSE_FAULT, 2, 0), "preempted, 2 page faults");
        assert_eq!(words(CAUSE_FAULT, 900, 0), "255 or more page faults");
        assert_eq!(words(CAUSE_SYSCALL, 0, 0b1_0000_0001), "system calls mmap and clock_nanosleep");
    }

    #[test]
    fn a_call_no_longer_than_twice_the_machines_is_not_attributed() {
        let ground = |cause, ns, machine_ns| {
            ground(&Outlier { cause, ..Outlier::default() }, ns, machine_ns)
        };
        assert_eq!(ground(0, 20.0, 10.0), Ground::Machine);
        assert_eq!(ground(0, 21.0, 10.0), Ground::OwnWork);
        assert_eq!(ground(CAUSE_INTERRUPTED | CAUSE_SLEPT, 1.0, 0.0), Ground::PreemptedOrWaiting);
    }

    #[test]
    fn a_wait_in_the_allocators_own_futex_call_is_attributed_to_it() {
        let futex = (0..32).map(|bit| 1 << bit).find(|calls| {
            let mut names = system_calls(*calls);
            names.any(|name| name == "futex")
        });
        let of = |cause, calls| ground(&Outlier { cause, calls, ..Outlier::default() }, 9.0, 0.0);
        let futex = futex.unwrap_or_default();
        assert_eq!(of(CAUSE_SLEPT | CAUSE_SYSCALL, futex), Ground::Lock);
        assert_eq!(of(CAUSE_SLEPT, 0), Ground::Waited);
        assert_eq!(of(CAUSE_SLEPT | CAUSE_FAULT, futex), Ground::Waited, "a page read can sleep");
        let preempted = CAUSE_SLEPT | CAUSE_INTERRUPTED | CAUSE_SYSCALL;
        assert_eq!(of(preempted, futex), Ground::PreemptedInKernel);
    }
}
