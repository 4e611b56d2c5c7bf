//! The workloads' system calls that concern the whole process.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;

/// Resources used by the process so far.
pub struct Usage {
    /// Processor time of all threads, user and system.
    pub cpu_seconds: f64,
    /// Peak resident bytes.
    pub peak_rss: u64,
}

/// Reads the present values.
pub fn usage() -> Usage {
    // SAFETY: an all-zero rusage is valid, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    Usage {
        cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak_rss: usage.ru_maxrss as u64 * 1024,
    }
}

/// Makes the kernel end this process (SIGALRM) after `seconds`.
pub fn end_after(seconds: libc::c_uint) {
    // SAFETY: sets a timer.
    unsafe { libc::alarm(seconds) };
}

/// Pins the calling thread to the last of its processors, because the first serves most interrupts.
/// Does nothing if this is not allowed.
pub fn stay_on_one_processor() {
    // SAFETY: sets of processors are plain bits, and both calls get the size of ours.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let bytes = size_of::<libc::cpu_set_t>();
        if libc::sched_getaffinity(0, bytes, &raw mut set) != 0 {
            return;
        }
        let all = 0..libc::CPU_SETSIZE as usize;
        let Some(last) = all.rev().find(|&processor| libc::CPU_ISSET(processor, &set)) else {
            return;
        };
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(last, &mut one);
        libc::sched_setaffinity(0, bytes, &raw const one);
    }
}

/// Calls `kl_warm(bytes)` of the libkeel that `target` names.
///
/// # Errors
/// A sentence, if it is not a libkeel or has no such function.
pub fn warm(target: &OsStr, bytes: usize) -> Result<(), String> {
    let file =
        target.as_bytes().strip_prefix(b"keel:").ok_or("only libkeel can prepare warm memory")?;
    let file = CString::new(file).map_err(|_| "a file name with a NUL")?;
    // SAFETY: the library is loaded already; the function has this type (keel.h).
    unsafe {
        let library = libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        let function =
            if library.is_null() { library } else { libc::dlsym(library, c"kl_warm".as_ptr()) };
        if function.is_null() {
            return Err("this libkeel has no kl_warm".to_owned());
        }
        let warm: unsafe extern "C" fn(usize) -> usize = std::mem::transmute(function);
        warm(bytes);
    }
    Ok(())
}
