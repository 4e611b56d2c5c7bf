//! Starts the program as a shell would, forwards signals, and waits for it on a separate thread.

use crate::ring::Control;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicU32};
use std::sync::mpsc::{Receiver, channel};

/// The program to start, and its environment.
pub struct Start<'a> {
    /// The file.
    pub path: &'a Path,
    /// Its name as the user gave it, `argv[0]`.
    pub name: &'a OsStr,
    /// The other arguments.
    pub arguments: &'a [OsString],
    /// Added to the environment.
    pub environment: Vec<(&'static str, OsString)>,
}

/// A running program.
pub struct Running {
    /// Its process id.
    pub pid: u32,
    /// Receives the exit status, once.
    pub ended: Receiver<io::Result<ExitStatus>>,
}

/// Starts the program; `on_end` is called on the waiting thread when it has ended.
///
/// # Errors
/// Those of fork and exec.
pub fn start(
    start: &Start,
    control: &Control,
    on_end: impl FnOnce() + Send + 'static,
) -> io::Result<Running> {
    let mut command = Command::new(start.path);
    command.arg0(start.name).args(start.arguments);
    command.envs(start.environment.iter().map(|(name, value)| (name, value)));
    let descriptors = raise_descriptor_limit();
    let root_pid: &'static AtomicU32 = {
        let pointer: *const AtomicU32 = &raw const control.root_pid;
        // SAFETY: used only in the child between fork and exec, where the parent's mapping is as it
        // was at the fork.
        unsafe { &*pointer }
    };
    // SAFETY: the closure makes two system calls and one store; all are allowed between fork and
    // exec.
    unsafe {
        command.pre_exec(move || {
            root_pid.store(std::process::id(), SeqCst);
            if let Some(limit) = &descriptors {
                libc::setrlimit(libc::RLIMIT_NOFILE, limit);
            }
            Ok(())
        });
    }
    let mut child = command.spawn()?;
    let pid = child.id();
    let (sender, ended) = channel();
    std::thread::Builder::new().name("waiting for program".to_owned()).spawn(move || {
        wait_unreaped(pid);
        forget_child(pid);
        drop(sender.send(child.wait()));
        on_end();
    })?;
    Ok(Running { pid, ended })
}

/// Raises the limit of this process's descriptors as far as the system allows: it needs two for
/// each recorded process. Returns the limit that the program gets.
fn raise_descriptor_limit() -> Option<libc::rlimit> {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both structures are valid.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) != 0 {
            return None;
        }
        let raised = libc::rlimit { rlim_cur: before.rlim_max, ..before };
        (libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) == 0).then_some(before)
    }
}

/// Waits for the end without reaping the zombie, so that no other process gets its pid while
/// signals are still forwarded.
fn wait_unreaped(pid: u32) {
    loop {
        // SAFETY: `information` is valid for writing.
        let result = unsafe {
            let mut information: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, pid, &raw mut information, libc::WEXITED | libc::WNOWAIT)
        };
        if result == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

const SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

static CHILD: AtomicI32 = AtomicI32::new(0);
static PENDING: AtomicI32 = AtomicI32::new(0);

/// While this value exists, signals that would end this process are forwarded to the program, and
/// this process stays to write the journal.
pub struct Signals {
    before: Vec<(i32, libc::sigaction)>,
}

impl Signals {
    /// Installs the handlers. Ignored signals (nohup) stay ignored.
    pub fn take() -> Signals {
        PENDING.store(0, SeqCst);
        let before =
            SIGNALS.iter().filter_map(|signal| install(*signal).map(|action| (*signal, action)));
        Signals { before: before.collect() }
    }

    /// Forwards signals to this process from now on.
    pub fn pass_to(&self, pid: u32) {
        CHILD.store(pid as i32, SeqCst);
        let pending = PENDING.swap(0, SeqCst);
        if pending != 0 {
            // SAFETY: a system call; the pid is our child's, which is not yet reaped.
            unsafe { libc::kill(pid as i32, pending) };
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, action) in &self.before {
            // SAFETY: restores what sigaction gave us.
            unsafe { libc::sigaction(*signal, action, std::ptr::null_mut()) };
        }
    }
}

fn forget_child(pid: u32) {
    // This process may have begun another recording meanwhile.
    let _ = CHILD.compare_exchange(pid as i32, 0, SeqCst, SeqCst);
}

fn install(signal: i32) -> Option<libc::sigaction> {
    // SAFETY: both structures are valid; the handler is async-signal-safe.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut before);
        if before.sa_sigaction == libc::SIG_IGN {
            return None;
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void) = forward;
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        (libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0).then_some(before)
    }
}

/// The terminal sends Ctrl-C and Ctrl-\ to the program as well. Only signals from other processes
/// are forwarded.
extern "C" fn forward(
    signal: i32,
    information: *const libc::siginfo_t,
    _context: *const libc::c_void,
) {
    // SAFETY: the kernel gives a valid structure, as SA_SIGINFO is set.
    let from_terminal = unsafe { (*information).si_code } > 0;
    if from_terminal && matches!(signal, libc::SIGINT | libc::SIGQUIT) {
        return;
    }
    let child = CHILD.load(SeqCst);
    if child == 0 {
        PENDING.store(signal, SeqCst);
    } else {
        // SAFETY: `kill` is async-signal-safe.
        unsafe { libc::kill(child, signal) };
    }
}
