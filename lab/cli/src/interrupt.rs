//! Ctrl-C: stops the work under way and keeps what is complete.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

extern "C" fn request_stop(signal: libc::c_int) {
    // A closed terminal may be reported by the system and by the shell.
    if REQUESTED.swap(true, Ordering::Relaxed) && signal != libc::SIGHUP {
        // SAFETY: allowed in a signal handler; ends the process at once.
        unsafe { libc::_exit(130) };
    }
}

/// From now on the first Ctrl-C (or SIGTERM, or the end of the terminal, unless that is ignored as
/// under nohup) sets the flag that is returned; a second Ctrl-C ends the process.
pub fn stop_requested() -> &'static AtomicBool {
    let handler = request_stop as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler calls only what is allowed in a signal handler.
    unsafe {
        libc::signal(libc::SIGINT, handler);
        libc::signal(libc::SIGTERM, handler);
        if libc::signal(libc::SIGHUP, handler) == libc::SIG_IGN {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
        }
    }
    &REQUESTED
}
