//! The player's own system calls.

use std::ptr::NonNull;

/// Fresh zeroed private memory; `flags` are added to those of an anonymous mapping.
pub fn anonymous(bytes: usize, flags: i32) -> Option<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a fresh mapping; the result is checked.
    let base = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    if base == libc::MAP_FAILED { None } else { NonNull::new(base.cast()) }
}

/// Anonymous resident bytes of this process, from `/proc/self/status`; 0 if that cannot be read.
pub fn anonymous_resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// CLOCK_MONOTONIC, ns.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, ns.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec, which is ours.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps for about `ns` nanoseconds.
pub fn sleep_ns(ns: u64) {
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    };
    // SAFETY: reads one timespec, which is ours; the rest of an interrupted sleep is not needed.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

/// Counters that the kernel keeps for the calling thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Page faults without and with input.
    pub minor_faults: u64,
    /// See `minor_faults`.
    pub major_faults: u64,
    /// Context switches because it slept, and because it was preempted.
    pub voluntary_switches: u64,
    /// See `voluntary_switches`.
    pub involuntary_switches: u64,
}

impl Usage {
    /// Page faults of both kinds.
    pub fn faults(&self) -> u64 {
        self.minor_faults + self.major_faults
    }
}

/// Reads the counters: a system call of about 0.3 µs.
pub fn thread_usage() -> Usage {
    // SAFETY: all zeroes is a valid rusage, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    Usage {
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
    }
}
