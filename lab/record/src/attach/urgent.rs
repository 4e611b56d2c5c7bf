//! Priority during a visit. On a busy machine the visited thread, and the thread that visits it,
//! would wait for their turns in the middle of it, for 30 ms and more. So both get the policy
//! `SCHED_FIFO` with the lowest priority, where the system permits it.
//!
//! keel may be killed meanwhile. The system does not restore a policy, so another process waits
//! for the end of keel and then restores it: a child of keel, for the time of the visit.

use std::io::{PipeWriter, Write as _, pipe};
use std::os::fd::AsRawFd as _;

/// Policies under which a thread waits its turn.
const NORMAL: [i32; 3] = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];

/// A policy and its priority.
pub type Scheduling = (i32, i32);

/// While it exists, neither the calling thread nor another one waits its turn.
pub struct Urgent {
    thread: i32,
    /// What both had before.
    own: Scheduling,
    theirs: Scheduling,
    /// None: the system does not permit it, or the thread waits for no other anyway.
    guard: Option<Guard>,
}

impl Urgent {
    /// Of a thread of another process.
    pub fn new(thread: i32) -> Urgent {
        let (own, theirs) = (scheduling(0), scheduling(thread));
        if is_normal(own) {
            set_scheduling(0, first(own));
        }
        let mut urgent = Urgent { thread, own, theirs, guard: None };
        if is_normal(theirs) && !is_normal(scheduling(0)) {
            urgent.guard = Guard::start(thread, theirs);
        }
        urgent.raise();
        urgent
    }

    /// Sets the other thread's policy once more.
    pub fn raise(&self) {
        if self.guard.is_some() {
            set_scheduling(self.thread, first(self.theirs));
        }
    }

    /// Restores the other thread's policy.
    pub fn lower(&self) {
        if self.guard.is_some() {
            set_scheduling(self.thread, self.theirs);
        }
    }

    /// The policy that the other thread had.
    pub fn theirs(&self) -> Scheduling {
        self.theirs
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        self.lower();
        if let Some(guard) = self.guard.take() {
            guard.end();
        }
        set_scheduling(0, self.own);
    }
}

/// A child that restores a thread's policy if this process ends before the child.
struct Guard {
    child: i32,
    pipe: PipeWriter,
}

impl Guard {
    fn start(thread: i32, theirs: Scheduling) -> Option<Guard> {
        let (reads, pipe) = pipe().ok()?;
        // SAFETY: the child makes only system calls.
        let child = unsafe { libc::fork() };
        match child {
            0 => restore_at_end(reads.as_raw_fd(), pipe.as_raw_fd(), thread, theirs),
            1.. => Some(Guard { child, pipe }),
            _ => None,
        }
    }

    fn end(mut self) {
        // Without this byte the child would restore the policy again, which does no harm.
        drop(self.pipe.write_all(&[0]));
        drop(self.pipe);
        // SAFETY: a null status is allowed.
        unsafe { libc::waitpid(self.child, std::ptr::null_mut(), 0) };
    }
}

/// In the child: waits for a byte, or for the end of its parent.
fn restore_at_end(reads: i32, writes: i32, thread: i32, theirs: Scheduling) -> ! {
    let mut byte = 0_u8;
    // SAFETY: system calls with valid pointers. The parent's signals are not this process's.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        libc::setsid();
        libc::close(writes);
        if libc::read(reads, (&raw mut byte).cast(), 1) == 0 {
            set_scheduling(thread, theirs);
        }
        libc::_exit(0)
    }
}

fn is_normal((policy, _): Scheduling) -> bool {
    NORMAL.contains(&(policy & !libc::SCHED_RESET_ON_FORK))
}

/// The policy of a thread that waits for no other one, instead of this one.
fn first((policy, _): Scheduling) -> Scheduling {
    (libc::SCHED_FIFO | policy & libc::SCHED_RESET_ON_FORK, 1)
}

/// A thread's policy and priority. 0 is the calling thread.
fn scheduling(thread: i32) -> Scheduling {
    let mut parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is valid for writing.
    unsafe {
        libc::sched_getparam(thread, &raw mut parameter);
        (libc::sched_getscheduler(thread).max(0), parameter.sched_priority)
    }
}

/// Does nothing where the system does not permit it.
fn set_scheduling(thread: i32, (policy, priority): Scheduling) {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the structure is valid.
    unsafe { libc::sched_setscheduler(thread, policy, &raw const parameter) };
}
