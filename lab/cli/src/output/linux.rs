//! What the commands that record or replay ask of the terminal and of the file system.

use std::ffi::CString;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Prints the state of something that runs, without a line end. The state is left out if stderr
/// cannot take it at once: what runs must not wait for a stopped terminal.
pub fn state(text: &str) {
    let mut poll = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one valid structure; a timeout of 0 does not wait.
    if unsafe { libc::poll(&raw mut poll, 1, 0) } > 0 && poll.revents == libc::POLLOUT {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// Free bytes of the file system; None if unknown.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let name = CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: all zeroes is a valid statvfs, which is then written to; the name ends in NUL.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(name.as_ptr(), &raw mut found) == 0)
            .then(|| found.f_bavail.saturating_mul(found.f_frsize))
    }
}
