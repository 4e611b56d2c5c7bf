//! Detects whether a call makes a system call, with the kernel's help.
//!
//! Linux 5.11 and later can check a byte of the thread before each system call (syscall user
//! dispatch, `PR_SET_SYSCALL_USER_DISPATCH`). If the byte means "block", the kernel does not
//! execute the system call and sends SIGSYS instead. The handler records this, clears the byte and
//! repeats the instruction, so that the system call is executed. Therefore only the first system
//! call of each call is detected, which is enough for the contract.

use std::cell::Cell;

thread_local! {
    /// The byte that the kernel checks: 1 while a call is watched.
    static SELECTOR: Cell<u8> = const { Cell::new(0) };
    static CAUGHT: Cell<u64> = const { Cell::new(0) };
}

/// The calling thread's trap. Not to be passed to another thread.
pub struct Trap {
    usable: bool,
}

impl Trap {
    /// Sets it up for the calling thread. Without support in the kernel it detects nothing.
    pub fn of_this_thread() -> Trap {
        let mut trap = Trap { usable: arch::install() };
        if trap.usable {
            let (seen, _) = trap.watch(arch::harmless_system_call);
            let (false_alarm, _) = trap.watch(|| std::hint::black_box(0));
            trap.usable = seen == Some(true) && false_alarm == Some(false);
        }
        trap
    }

    /// Runs `call`. Returns whether it made a system call, if this can be detected.
    #[inline]
    pub fn watch<T>(&self, call: impl FnOnce() -> T) -> (Option<bool>, T) {
        if !self.usable {
            return (None, call());
        }
        let before = CAUGHT.get();
        SELECTOR.set(1);
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        let result = call();
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        SELECTOR.set(0);
        (Some(CAUGHT.get() != before), result)
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        arch::remove();
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
mod arch {
    use super::{CAUGHT, SELECTOR};
    use std::cell::Cell;
    use std::ffi::c_void;

    const SET_DISPATCH: libc::c_int = 59;
    const OFF: libc::c_ulong = 0;
    const ON: libc::c_ulong = 1;
    /// Length of the instruction `syscall`.
    const INSTRUCTION_BYTES: i64 = 2;

    extern "C" fn caught(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        SELECTOR.set(0);
        CAUGHT.set(CAUGHT.get() + 1);
        // SAFETY: the kernel passes the interrupted thread's context. It points behind the
        // instruction, and the number of the system call is still in its register.
        unsafe {
            let context = &mut *context.cast::<libc::ucontext_t>();
            context.uc_mcontext.gregs[libc::REG_RIP as usize] -= INSTRUCTION_BYTES;
        }
    }

    pub fn install() -> bool {
        // SAFETY: a handler that accesses only its thread's own variables; the selector exists as
        // long as the thread, and `remove` is called before it ends.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction =
                caught as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO;
            let none = std::ptr::null_mut();
            libc::sigaction(libc::SIGSYS, &raw const action, none) == 0
                && libc::prctl(SET_DISPATCH, ON, 0_u64, 0_u64, SELECTOR.with(Cell::as_ptr)) == 0
        }
    }

    pub fn remove() {
        // SAFETY: turns off the thread's own dispatch; harmless if it was never on.
        unsafe { libc::prctl(SET_DISPATCH, OFF, 0_u64, 0_u64, 0_u64) };
    }

    pub fn harmless_system_call() -> libc::c_int {
        // SAFETY: returns a number.
        unsafe { libc::getppid() }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
mod arch {
    pub fn install() -> bool {
        false
    }

    pub fn remove() {}

    pub fn harmless_system_call() -> i32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_call_is_seen_and_still_happens() {
        let trap = Trap::of_this_thread();
        if !trap.usable {
            return; // The kernel cannot; then results say so.
        }
        // SAFETY: returns a number.
        let parent = unsafe { libc::getppid() };
        for _ in 0..3 {
            let (seen, reported) = trap.watch(arch::harmless_system_call);
            assert_eq!((seen, reported), (Some(true), parent));
        }
        let (seen, sum) = trap.watch(|| (0..100).map(std::hint::black_box).sum::<u32>());
        assert_eq!((seen, sum), (Some(false), 4950));
    }
}
