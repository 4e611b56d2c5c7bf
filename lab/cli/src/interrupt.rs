//! Ctrl-C: asks what is under way to stop, and keeps what is done.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn ask(_: libc::c_int) {
    if ASKED.swap(true, Ordering::Relaxed) {
        // The second time the person means it.
        // SAFETY: allowed in a signal handler; ends the process at once.
        unsafe { libc::_exit(130) };
    }
}

/// From here on the first Ctrl-C (or SIGTERM) sets the flag that is returned; a second one ends the process.
pub fn asked_to_stop() -> &'static AtomicBool {
    let handler = ask as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does only what is allowed in one.
    unsafe {
        libc::signal(libc::SIGINT, handler);
        libc::signal(libc::SIGTERM, handler);
    }
    &ASKED
}
