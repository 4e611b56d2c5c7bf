//! Causes of slow calls: the bits, and the word for each set of bits.

/// The thread was preempted, migrated or took a signal during the call.
pub const CAUSE_INTERRUPTED: u8 = 1;
/// The call took page faults.
pub const CAUSE_FAULT: u8 = 2;
/// The call made system calls.
pub const CAUSE_SYSCALL: u8 = 4;
/// It is unknown whether the call was interrupted (the allocator uses rseq itself, or the kernel
/// has none).
pub const CAUSE_INTERRUPTED_UNKNOWN: u8 = 8;
/// The thread gave up its processor: it slept, or waited for a lock or a page.
pub const CAUSE_SLEPT: u8 = 16;
/// The processor served a hardware interrupt during the call.
pub const CAUSE_INTERRUPT: u8 = 32;
/// It is unknown whether the call made system calls.
pub const CAUSE_SYSCALL_UNKNOWN: u8 = 64;
/// A call of less than 250 ns directly after a system call of the detectors, which displaced cache
/// lines. It is no cause of a slow call: see [`crate::Run::left_out`].
pub const CAUSE_FOLLOWS_DETECTOR: u8 = 128;

/// Whether a call was preempted, and the kernel did nothing for it: no page fault, no system call,
/// no wait. Only then is the operating system alone responsible for its time.
pub const fn only_preempted(bits: u8) -> bool {
    bits & CAUSE_INTERRUPTED != 0 && bits & (CAUSE_FAULT | CAUSE_SYSCALL | CAUSE_SLEPT) == 0
}

/// The words of [`cause_word`], in the order of tables: the machine, the kernel on behalf of the
/// allocator, the allocator.
pub const CAUSE_WORDS: [&str; 8] = [
    "preempted",
    "interrupt",
    "slept",
    "system call and page fault",
    "system call",
    "page fault",
    "unknown",
    "own work",
];

/// The most expensive cause, as one of [`CAUSE_WORDS`].
///
/// A preemption or a wait takes milliseconds and outweighs everything else. System calls, faults
/// and interrupts take microseconds. `own work` means that all causes could be detected and none
/// was.
pub fn cause_word(bits: u8) -> &'static str {
    let has = |bit| bits & bit != 0;
    match () {
        () if has(CAUSE_INTERRUPTED) => "preempted",
        () if has(CAUSE_SLEPT) => "slept",
        () if has(CAUSE_SYSCALL) && has(CAUSE_FAULT) => "system call and page fault",
        () if has(CAUSE_SYSCALL) => "system call",
        () if has(CAUSE_FAULT) => "page fault",
        () if has(CAUSE_INTERRUPT) => "interrupt",
        () if has(CAUSE_INTERRUPTED_UNKNOWN) || has(CAUSE_SYSCALL_UNKNOWN) => "unknown",
        () => "own work",
    }
}

/// Names of the kinds of system calls in [`crate::Outlier::calls`]: the name of bit 0 first.
pub const SYSTEM_CALLS: [&str; 10] = [
    "mmap",
    "munmap",
    "mremap",
    "madvise",
    "mprotect",
    "brk",
    "futex",
    "sched_yield",
    "clock_nanosleep",
    "other",
];

/// The names of a set of system calls.
pub fn system_calls(kinds: u32) -> impl Iterator<Item = &'static str> {
    SYSTEM_CALLS
        .iter()
        .enumerate()
        .filter(move |(bit, _)| kinds & 1 << bit != 0)
        .map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_bits_has_the_word_of_its_most_expensive_cause() {
        assert!((0..=u8::MAX).all(|bits| CAUSE_WORDS.contains(&cause_word(bits))));
        assert_eq!(cause_word(CAUSE_INTERRUPTED | CAUSE_FAULT | CAUSE_SLEPT), "preempted");
        assert_eq!(cause_word(CAUSE_FAULT | CAUSE_SYSCALL), "system call and page fault");
        assert_eq!(cause_word(CAUSE_INTERRUPT | CAUSE_SYSCALL), "system call");
        assert_eq!(cause_word(CAUSE_SYSCALL_UNKNOWN | CAUSE_FAULT), "page fault");
        assert_eq!(cause_word(CAUSE_SYSCALL_UNKNOWN), "unknown");
        assert_eq!(cause_word(0), "own work");
        assert_eq!(cause_word(CAUSE_FOLLOWS_DETECTOR), "own work");
    }

    #[test]
    fn a_call_for_which_the_kernel_worked_is_not_only_preempted() {
        assert!(only_preempted(CAUSE_INTERRUPTED | CAUSE_INTERRUPT));
        for work in [CAUSE_FAULT, CAUSE_SYSCALL, CAUSE_SLEPT] {
            assert!(!only_preempted(CAUSE_INTERRUPTED | work));
        }
        assert!(!only_preempted(0) && !only_preempted(CAUSE_INTERRUPT));
    }

    #[test]
    fn system_calls_are_named() {
        assert_eq!(
            system_calls(0b1_0000_1001).collect::<Vec<_>>(),
            ["mmap", "madvise", "clock_nanosleep"]
        );
    }
}
