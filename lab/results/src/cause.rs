//! Why a call was slow: the bits, and the one word for each set of them.

/// The thread was preempted, migrated or took a signal during the call.
pub const CAUSE_INTERRUPTED: u8 = 1;
/// The call took page faults.
pub const CAUSE_FAULT: u8 = 2;
/// The call made system calls.
pub const CAUSE_SYSCALL: u8 = 4;
/// Whether it was interrupted could not be told (the allocator uses rseq itself, or the kernel has none).
pub const CAUSE_INTERRUPTED_UNKNOWN: u8 = 8;
/// The thread gave its processor up by itself: it slept, or waited for a lock or a page. Since format 2; format 1 tells
/// it as [`CAUSE_INTERRUPTED`].
pub const CAUSE_SLEPT: u8 = 16;
/// The processor served a hardware interrupt during the call. Since format 2.
pub const CAUSE_INTERRUPT: u8 = 32;
/// Whether it made system calls could not be told. Since format 2; format 1 never tells.
pub const CAUSE_SYSCALL_UNKNOWN: u8 = 64;

/// The words of [`cause_word`], in the order of tables: what the machine did, what the allocator asked for, its work.
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

/// The cause that outweighs the others, in one of [`CAUSE_WORDS`].
///
/// A preemption is worth milliseconds, so it explains whatever else happened; a wait likewise; an interrupt is served
/// in microseconds, as system calls and faults are. `own work` is what is left where everything could be told.
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
    SYSTEM_CALLS.iter().enumerate().filter(move |(bit, _)| kinds & 1 << bit != 0).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_bits_has_a_word_and_what_outweighs_wins() {
        assert!((0..=u8::MAX).all(|bits| CAUSE_WORDS.contains(&cause_word(bits))));
        assert_eq!(cause_word(CAUSE_INTERRUPTED | CAUSE_FAULT | CAUSE_SLEPT), "preempted");
        assert_eq!(cause_word(CAUSE_FAULT | CAUSE_SYSCALL), "system call and page fault");
        assert_eq!(cause_word(CAUSE_INTERRUPT | CAUSE_SYSCALL), "system call");
        assert_eq!(cause_word(CAUSE_SYSCALL_UNKNOWN | CAUSE_FAULT), "page fault");
        assert_eq!(cause_word(CAUSE_SYSCALL_UNKNOWN), "unknown");
        assert_eq!(cause_word(0), "own work");
    }

    #[test]
    fn a_set_of_system_calls_is_told_by_name() {
        assert_eq!(system_calls(0b1_0000_1001).collect::<Vec<_>>(), ["mmap", "madvise", "clock_nanosleep"]);
    }
}
