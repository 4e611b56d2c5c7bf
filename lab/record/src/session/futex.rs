//! Sleeping on a word of shared memory, and waking who sleeps there.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // SAFETY: the word lives for the call; a spurious return is allowed by all callers.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const timeout,
        )
    };
}

pub fn futex_wake(word: &AtomicU32, threads: u32) {
    // SAFETY: the kernel only compares the address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, threads) };
}
