//! Starts the program as a shell would, forwards signals, and waits for it on a separate thread.

use crate::ring::Control;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicU32};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

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
    /// Receives its end, once.
    pub ended: Receiver<io::Result<Ended>>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    pub status: ExitStatus,
    /// The processor time that the program took, and that of the processes for which it waited.
    pub own: Duration,
    pub children: Duration,
}

/// Starts the program; with `output`, its output goes there, and its input is empty. `on_end` is
/// called on the waiting thread when it has ended.
///
/// # Errors
/// Those of fork and exec.
pub fn start(
    start: &Start,
    output: Option<File>,
    control: &Control,
    on_end: impl FnOnce() + Send + 'static,
) -> io::Result<Running> {
    let mut command = Command::new(start.path);
    command.arg0(start.name).args(start.arguments);
    command.envs(start.environment.iter().map(|(name, value)| (name, value)));
    if let Some(file) = output {
        command.stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
    }
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
        let (own, children) = processor_times(pid).unwrap_or_default();
        forget_child(pid);
        drop(sender.send(child.wait().map(|status| Ended { status, own, children })));
        on_end();
    })?;
    Ok(Running { pid, ended })
}

/// The processor time of a process, and of its children that have ended and that it waited for.
fn processor_times(pid: u32) -> Option<(Duration, Duration)> {
    /// The fields before them, of those after the name of the program, which may have spaces.
    const BEFORE: usize = 11;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(BEFORE);
    let ticks: Vec<u64> = fields.take(4).filter_map(|field| field.parse().ok()).collect();
    // SAFETY: a call without pointers.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / per_second.max(1) as f64);
    match ticks[..] {
        [user, system, children_user, children_system] => {
            Some((time(user + system), time(children_user + children_system)))
        }
        _ => None,
    }
}

/// A program that ran before the recording, which the recorder has entered.
pub trait Attached {
    /// Takes the recorder out of it. Returns the problem, if that was not possible.
    fn leave(&mut self) -> Option<String>;
}

/// Watches a running process, which need not be a child; `on_end` is called when it has ended. The
/// exit status of such a process is unknown.
///
/// # Errors
/// The process does not exist.
#[cfg(target_arch = "x86_64")] // as `attach`
pub fn watch(pid: u32, on_end: impl FnOnce() + Send + 'static) -> io::Result<Running> {
    use std::os::fd::AsRawFd as _;
    let process = crate::image::open_pidfd(pid)?;
    let (sender, ended) = channel();
    std::thread::Builder::new().name("waiting for program".to_owned()).spawn(move || {
        let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid structure.
        while unsafe { libc::poll(&raw mut poll, 1, -1) } < 0 {}
        drop(sender.send(Ok(Ended::default())));
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

/// Makes this process the parent of the program's orphans while the value exists, so that each
/// process that the program starts remains below this one.
pub struct Orphans {
    adopted: bool,
}

impl Orphans {
    pub fn adopt(wanted: bool) -> Orphans {
        Orphans { adopted: wanted && set_subreaper(true) }
    }

    /// Reaps the orphans that have ended. Returns whether a child of this process is left.
    pub fn reap(&self, program: u32) -> bool {
        if !self.adopted {
            return false;
        }
        loop {
            // SAFETY: `information` is valid for writing; a null status is allowed.
            unsafe {
                let mut information: libc::siginfo_t = std::mem::zeroed();
                let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
                if libc::waitid(libc::P_ALL, 0, &raw mut information, flags) != 0 {
                    return false;
                }
                let pid = information.si_pid();
                // The program is reaped by the thread that waits for it.
                if pid == 0 || pid as u32 == program {
                    return true;
                }
                libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG);
            }
        }
    }
}

impl Drop for Orphans {
    fn drop(&mut self) {
        if self.adopted {
            set_subreaper(false);
        }
    }
}

fn set_subreaper(on: bool) -> bool {
    // SAFETY: a system call without pointers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, libc::c_ulong::from(on), 0, 0, 0) == 0 }
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

/// The program has ended; what is still recorded are processes that it started.
const ENDED: i32 = -1;
/// The program's process id; 0 before its start.
static CHILD: AtomicI32 = AtomicI32::new(0);
static PENDING: AtomicI32 = AtomicI32::new(0);
/// Signals that ask for the end of the recording.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// Signals that a recording waits for, so far.
static AWAITED: AtomicU32 = AtomicU32::new(0);
/// The last signal that reached this process; 0: none.
static LAST: AtomicI32 = AtomicI32::new(0);

/// While this value exists, signals that would end this process are forwarded to the program, and
/// this process stays to write the journal.
pub struct Signals {
    before: Vec<(i32, libc::sigaction)>,
}

impl Signals {
    /// Installs the handlers. Ignored signals (nohup) stay ignored. `awaited`: a signal that is not
    /// forwarded, see [`Signals::awaited`].
    pub fn take(awaited: Option<i32>) -> Signals {
        [&PENDING, &LAST, &CHILD].iter().for_each(|word| word.store(0, SeqCst));
        [&ASKED, &AWAITED].iter().for_each(|count| count.store(0, SeqCst));
        let before =
            SIGNALS.iter().filter_map(|signal| install(*signal).map(|action| (*signal, action)));
        let mut signals = Signals { before: before.collect() };
        if let Some(signal) = awaited
            && let Some(before) = set_handler(signal, count_awaited)
        {
            signals.before.push((signal, before));
        }
        signals
    }

    /// How many of the signals that the recording waits for have arrived.
    pub fn awaited(&self) -> u32 {
        AWAITED.load(SeqCst)
    }

    /// Whether the recording must end now. The first signal is the program's, which ends and
    /// thereby ends the recording, or handles the signal. A second signal ends the recording of a
    /// program that lives on. Once the program has ended, any signal ends the recording of the
    /// processes that it started.
    pub fn must_stop(&self, program_ended: bool) -> bool {
        ASKED.load(SeqCst) > u32::from(!program_ended)
    }

    /// The last signal that reached this process during the recording.
    pub fn last(&self) -> Option<i32> {
        Some(LAST.load(SeqCst)).filter(|signal| *signal != 0)
    }

    /// Forwards no signal: each one ends the recording.
    #[cfg(target_arch = "x86_64")] // as `attach`
    pub fn keep(&self) {
        CHILD.store(ENDED, SeqCst);
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
    let _ = CHILD.compare_exchange(pid as i32, ENDED, SeqCst, SeqCst);
}

fn install(signal: i32) -> Option<libc::sigaction> {
    // SAFETY: the structure is valid.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut before);
        if before.sa_sigaction == libc::SIG_IGN {
            return None;
        }
    }
    set_handler(signal, forward)
}

type Handler = extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void);

fn set_handler(signal: i32, handler: Handler) -> Option<libc::sigaction> {
    // SAFETY: both structures are valid; the handlers are async-signal-safe.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        (libc::sigaction(signal, &raw const action, &raw mut before) == 0).then_some(before)
    }
}

extern "C" fn count_awaited(_: i32, _: *const libc::siginfo_t, _: *const libc::c_void) {
    AWAITED.fetch_add(1, SeqCst);
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
    let child = CHILD.load(SeqCst);
    LAST.store(signal, SeqCst);
    if child > 0 && from_terminal && matches!(signal, libc::SIGINT | libc::SIGQUIT) {
        return;
    }
    // A hang-up concerns the terminal, and may arrive from the system and from the shell.
    if child <= 0 || signal != libc::SIGHUP {
        ASKED.fetch_add(1, SeqCst);
    }
    match child {
        0 => PENDING.store(signal, SeqCst),
        ENDED => {}
        // SAFETY: `kill` is async-signal-safe.
        _ => drop(unsafe { libc::kill(child, signal) }),
    }
}
