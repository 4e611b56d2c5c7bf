//! Priority during a visit. On a busy machine the visited thread, and the thread that visits it,
//! would wait for their turns in the middle of it, for 30 ms and more. So both get the policy
//! `SCHED_FIFO` with the lowest priority, where the system permits it.
//!
//! keel may be killed meanwhile. The system does not restore a policy, so a child of keel does, for
//! the time of the visit. The system sends it a signal when keel's thread ends, which is also when
//! it lets the visited thread continue. The child does not wait for the end of the whole keel: on a
//! busy machine the other threads of keel, which have no priority, take seconds to end.

use std::io::{PipeReader, Read as _, pipe};
use std::os::fd::AsRawFd as _;

/// Policies under which a thread waits its turn.
const NORMAL: [i32; 3] = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];

/// The lowest one of `SCHED_FIFO`.
const PRIORITY: i32 = 1;
const RESET: i32 = libc::SCHED_RESET_ON_FORK;
/// The policy of a visited thread. It runs with it before it stops, and again if keel was killed;
/// threads and processes that it creates meanwhile get the normal policy.
const FIRST: Scheduling = (libc::SCHED_FIFO | RESET, PRIORITY);

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
            set_scheduling(0, (libc::SCHED_FIFO | own.0 & RESET, PRIORITY));
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
            set_scheduling(self.thread, FIRST);
        }
    }

    /// Restores the other thread's policy.
    pub fn lower(&self) {
        if self.guard.is_some() {
            restore(self.thread, self.theirs);
        }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        self.lower();
        drop(self.guard.take());
        set_scheduling(0, self.own);
    }
}

/// A child that restores a thread's policy if the thread of keel that has created it ends first.
struct Guard {
    child: i32,
    /// The child sees when all of keel has ended.
    _reads: PipeReader,
}

impl Guard {
    /// Returns when the child is ready, so that no policy is changed before. None: the system does
    /// not permit the child to restore it.
    fn start(thread: i32, theirs: Scheduling) -> Option<Guard> {
        let (mut reads, writes) = pipe().ok()?;
        // SAFETY: the child makes only system calls.
        let child = unsafe { libc::fork() };
        match child {
            0 => restore_at_end(reads.as_raw_fd(), writes.as_raw_fd(), thread, theirs),
            1.. => {
                drop(writes);
                let is_ready = reads.read_exact(&mut [0]).is_ok();
                let guard = Guard { child, _reads: reads };
                is_ready.then_some(guard)
            }
            _ => None,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: a child that was not waited for; a null status is allowed.
        unsafe {
            libc::kill(self.child, libc::SIGKILL);
            libc::waitpid(self.child, std::ptr::null_mut(), 0);
        }
    }
}

/// In the child: waits for the end of its parent's thread. If that came before the child could ask
/// for a signal, nothing is to be restored, and it waits for the end of the parent.
fn restore_at_end(reads: i32, writes: i32, thread: i32, theirs: Scheduling) -> ! {
    const ENDED: i32 = libc::SIGTERM;
    // SAFETY: system calls with valid pointers. The parent's signals are not this process's.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut signals);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, ENDED);
        let signalled = libc::signalfd(-1, &raw const signals, libc::SFD_CLOEXEC);
        libc::setsid();
        libc::close(reads);
        // Only root may end `RESET`. This process runs before the thread, which may run for long.
        let before = (libc::SCHED_FIFO, PRIORITY + 1);
        let may_restore = set_scheduling(0, FIRST) && set_scheduling(0, before);
        let is_ready =
            may_restore && signalled >= 0 && libc::prctl(libc::PR_SET_PDEATHSIG, ENDED) == 0;
        let byte = 0_u8;
        if is_ready && libc::write(writes, (&raw const byte).cast(), 1) == 1 {
            let wanted = |fd, events| libc::pollfd { fd, events, revents: 0 };
            let mut ends = [wanted(signalled, libc::POLLIN), wanted(writes, 0)];
            libc::poll(ends.as_mut_ptr(), 2, -1);
            restore(thread, theirs);
        }
        libc::_exit(0)
    }
}

fn is_normal((policy, _): Scheduling) -> bool {
    NORMAL.contains(&(policy & !RESET))
}

/// In two steps: the system ends the flag before it changes the policy, and copies both to a child
/// that the thread creates in between.
fn restore(thread: i32, (policy, priority): Scheduling) {
    set_scheduling(thread, (policy | RESET, priority));
    set_scheduling(thread, (policy, priority));
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

/// Returns whether the system permits it.
fn set_scheduling(thread: i32, (policy, priority): Scheduling) -> bool {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the structure is valid.
    unsafe { libc::sched_setscheduler(thread, policy, &raw const parameter) == 0 }
}
