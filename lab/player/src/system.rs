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
    resident().anonymous
}

/// Resident bytes of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Anonymous pages.
    pub anonymous: u64,
    /// Pages of files and of shared memory.
    pub others: u64,
    /// The most of both together since [`reset_peak`].
    pub peak: u64,
}

impl Resident {
    /// The most anonymous bytes since `start`, which was read after [`reset_peak`]. The other pages
    /// that are resident now count as resident at the peak.
    pub fn anonymous_peak(&self, start: &Resident) -> u64 {
        let before = start.anonymous + start.others;
        let others = self.others.saturating_sub(start.others);
        start.anonymous + self.peak.saturating_sub(before).saturating_sub(others)
    }
}

/// Reads `/proc/self/status`; zeros if that is not possible.
pub fn resident() -> Resident {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    Resident {
        anonymous: bytes("RssAnon:"),
        others: bytes("RssFile:") + bytes("RssShmem:"),
        peak: bytes("VmHWM:"),
    }
}

/// Lets the kernel's high-water mark of resident memory begin again. Returns whether it does.
pub fn reset_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// CPU time of all threads of this process, ns.
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
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

/// Sleeps for `ns` nanoseconds; the kernel extends other sleeps by 50 µs. The setting ends with the
/// sleep, because threads that an allocator creates inherit it from the thread that creates them.
pub fn sleep_exactly_ns(ns: u64) {
    // SAFETY: sets a number of the calling thread; 0 restores the default.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    sleep_ns(ns);
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 0) };
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
