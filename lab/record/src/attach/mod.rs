//! Records a program that runs already.
//!
//! ```text
//! target   checks the process, and finds its functions
//! calls    the system calls in which a thread can be visited
//! frame    what a visited thread continues with if keel is killed
//! remote   calls functions in one of its threads (ptrace)
//! urgent   lets that thread run before others meanwhile
//! here     opens the recorder in it, records, and takes the recorder out again
//! ```

mod calls;
mod frame;
mod remote;
mod target;
mod urgent;

use self::frame::data;
use self::remote::{Failure, Visited, visit};
use self::target::{Functions, Target, refused_by_system};
use crate::clock::Clock;
use crate::collector::Collector;
use crate::encode::Encoder;
use crate::launch::{self, Orphans, Signals};
use crate::recording::prepare_output;
use crate::session::{Session, Settings};
use crate::wait::{Signal, Wait, When};
use crate::{Error, Options, Progress, Recorded, Visit};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// How long to look for a thread that can be entered.
const ENTER_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// Records the running process `pid` until it ends, a signal arrives, or a limit is reached. The
/// options that concern the start of a program are not used.
///
/// # Errors
/// Errors before the recorder was entered. Later ones are in [`Recorded::problems`].
pub fn attach_with(
    pid: u32,
    options: &Options,
    report: &mut dyn FnMut(Progress),
) -> Result<Recorded, Error> {
    if let Some(Wait::Last(last)) = &options.wait
        && last.when.contains(&When::Crash)
    {
        let reason = "a crash cannot be recognized: the system reports how a process ended only \
                      to its parent; use --when exit, or record the program from its start";
        return Err(Error::Attach { pid, reason: reason.to_owned() });
    }
    let target = Target::check(pid)?;
    let functions = target.functions()?;
    let (options, writer) = prepare_output(options.clone())?;
    let options = &options;
    let kind = Clock::best_kind();
    let settings = Settings { follow: false, embedded: false, ..Settings::of(options, kind) };
    let session = Session::create(&options.spool_folder, settings)?;
    session.control().root_pid.store(pid, SeqCst);
    let recorder = place_recorder(&target, options, &session)?;
    let start_error = |cause| Error::Start { path: target.program.clone(), cause };
    let (bell, encoder_bell) = (session.bell(), session.bell());
    let encoder = Encoder::start(options, move || encoder_bell.ring()).map_err(start_error)?;
    let awaited = options.wait.as_ref().and_then(Wait::signal).map(Signal::number);
    let signals = Signals::take(awaited);
    signals.keep();
    let running =
        launch::watch(pid, move || bell.ring()).map_err(|e| refused_by_system(pid, &e))?;
    let folder = session.folder().to_path_buf();
    let mut collector = Collector::new(options, session, encoder, kind, writer);
    let program = target.program.clone();
    let file = options.recorder_library.clone();
    let (entered, visits) = (None, Vec::new());
    let mut attached = Attached { target, functions, recorder, file, entered, visits };
    attached.enter(&folder)?;
    collector.attached = Some(&mut attached);
    let status = collector.run(&running, &signals, &Orphans::adopt(false), report);
    let status = status.map_err(|cause| Error::Start { path: program.clone(), cause })?;
    let recorded = collector.finish(&program, status);
    Ok(Recorded { signal: signals.last(), visits: attached.visits, ..recorded })
}

/// The function of the recorder that begins a recording.
const START: &str = "kl_attached_start";

/// A process that was entered.
struct Attached {
    target: Target,
    functions: Functions,
    /// The recorder's path in the process, and a file with the same contents.
    recorder: PathBuf,
    file: PathBuf,
    entered: Option<Recorder>,
    /// The times that a thread was stopped.
    visits: Vec<Visit>,
}

/// The recorder in the process.
#[derive(Clone, Copy)]
struct Recorder {
    base: u64,
    stop: u64,
    release: u64,
}

impl Attached {
    /// Opens the recorder in the process, and begins the recording.
    fn enter(&mut self, folder: &Path) -> Result<(), Error> {
        let pid = self.target.pid;
        let failed = |failure: Failure| match failure {
            Failure::System(error) => refused_by_system(pid, &error),
            other => Error::Attach { pid, reason: text_of(other) },
        };
        // The thread is stopped only for what must be done in it. The rest comes before and after.
        let before = self.target.recorder_base(&self.recorder);
        before.map_or(Ok(()), |base| self.known(base).map(drop)).map_err(failed)?;
        let start = target::exported(&self.file, START).ok_or_else(|| failed(other_version()))?;
        let mut visited = find_thread(&self.target, &self.functions).map_err(failed)?;
        let opened = self.open(&mut visited, folder);
        let visit = visited.leave();
        self.visits.push(visit);
        let opened = opened.map_err(failed)?;
        self.entered = Some(self.known(opened.wrapping_sub(start)).map_err(failed)?);
        Ok(())
    }

    /// The recorder that the process has at this address.
    fn known(&self, base: u64) -> Result<Recorder, Failure> {
        const NAMES: [&str; 2] = ["kl_attached_stop", "kl_attached_release"];
        let functions = self.target.recorder_functions(base, &self.file, NAMES);
        let [stop, release] = functions.ok_or_else(other_version)?;
        Ok(Recorder { base, stop, release })
    }

    /// Opens the recorder and begins. Returns the address of its function [`START`].
    fn open(&self, visited: &mut Visited<'_>, folder: &Path) -> Result<u64, Failure> {
        let path = visited.text(self.recorder.as_os_str().as_bytes())?;
        let name = visited.text(START.as_bytes())?;
        let folder = visited.text(folder.as_os_str().as_bytes())?;
        let Functions { dlopen, dlopen_flags, dlsym, dlerror, .. } = self.functions;
        let before = data::RESULT_BEFORE;
        let calls = [[dlopen, path, dlopen_flags], [dlsym, before, name], [before, folder, 0]];
        let (results, reason) = visited.call(&calls, dlerror)?;
        if results[1] == 0 {
            let reason = visited.read_text(reason);
            return Err(Failure::Other(format!("it cannot open the recorder: {reason}")));
        }
        let reason = match results[2] as i64 {
            result if result >= 0 => return Ok(results[1]),
            result if -result == i64::from(libc::EALREADY) => "it is recorded already".to_owned(),
            result if -result == i64::from(libc::ENOEXEC) => {
                "none of its object files calls malloc through a table of functions; record it \
                 from its start"
                    .to_owned()
            }
            result => {
                let error = std::io::Error::from_raw_os_error(-result as i32);
                format!("the recorder cannot begin in it: {error}")
            }
        };
        Err(Failure::Other(reason))
    }

    /// Calls a function without arguments. Returns the result.
    fn call(&mut self, function: u64) -> Result<u64, Failure> {
        let mut visited = find_thread(&self.target, &self.functions)?;
        let result = visited.call(&[[function, 0, 0]], 0);
        self.visits.push(visited.leave());
        result.map(|(results, _)| results[0])
    }
}

impl launch::Attached for Attached {
    fn leave(&mut self) -> Option<String> {
        let Recorder { base, stop, release } = self.entered?;
        // Otherwise the process has ended, or runs another program.
        if self.target.recorder_base(&self.recorder) != Some(base) {
            return None;
        }
        let mut left = self.call(stop);
        if let Err(failure) = left {
            return Some(format!(
                "the recorder's functions stay in process {}, where they only call the program's \
                 own: {}",
                self.target.pid,
                text_of(failure)
            ));
        }
        // A thread may be leaving a ring.
        let began = Instant::now();
        while matches!(left, Ok(0)) && began.elapsed() < ENTER_WITHIN {
            std::thread::sleep(LOOK_AGAIN_AFTER);
            left = self.call(release);
        }
        None
    }
}

fn other_version() -> Failure {
    let reason = "it has another version of the recorder, from an earlier recording; restart it";
    Failure::Other(reason.to_owned())
}

fn text_of(failure: Failure) -> String {
    match failure {
        Failure::Busy => "no thread waited in a system call of its C library, where it can be \
                          entered; try again when the program is less busy"
            .to_owned(),
        Failure::System(error) => error.to_string(),
        Failure::Other(text) => text,
    }
}

fn find_thread<'a>(target: &Target, functions: &'a Functions) -> Result<Visited<'a>, Failure> {
    let began = Instant::now();
    loop {
        match visit(target, functions) {
            Err(Failure::Busy) if began.elapsed() < ENTER_WITHIN => {
                std::thread::sleep(LOOK_AGAIN_AFTER);
            }
            result => return result,
        }
    }
}

/// The recorder's path in the process. Another user may not be able to open keel's folders: then
/// the session's folder becomes that user's, and contains a copy.
fn place_recorder(target: &Target, options: &Options, session: &Session) -> Result<PathBuf, Error> {
    let fail = |cause| Error::Session { path: session.folder().to_path_buf(), cause };
    if let Some(earlier) = target.earlier_recorder() {
        return give(session, target).map(|()| earlier).map_err(fail);
    }
    let recorder = options.recorder_library.canonicalize().map_err(fail)?;
    // SAFETY: geteuid cannot fail.
    if target.user == unsafe { libc::geteuid() } {
        return Ok(recorder);
    }
    let copy = session.folder().join("libkeel_recorder.so");
    std::fs::copy(&recorder, &copy).map_err(fail)?;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).map_err(fail)?;
    give(session, target).map_err(fail)?;
    Ok(copy)
}

/// Makes the target's user the owner of the session's folder and its files.
fn give(session: &Session, target: &Target) -> std::io::Result<()> {
    let give = |path: &Path| chown(path, Some(target.user), Some(target.group));
    for file in std::fs::read_dir(session.folder())? {
        give(&file?.path())?;
    }
    give(session.folder())
}
