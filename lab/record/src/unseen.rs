//! Finds programs of the recorded processes that run without the recorder, and says why.
//!
//! There are two sources:
//!
//! - The recorder in a process reports each program before it executes it, so a program that ends
//!   at once is noticed as well ([`Unseen::take_executed`]).
//! - A process without the recorder reports nothing, and neither does one that makes the system
//!   call itself. So the collector compares from time to time which programs run with those that
//!   are recorded ([`Unseen::look`]). Such programs stay unnoticed if they ran for a shorter time
//!   than two of these looks.

use crate::Error;
use crate::image::Image;
use crate::lineage::descendants;
use crate::program::check_recordable;
use crate::program_file::{File, file, program_of};
use crate::session::{Executed, How};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const CLEANED: &str = "it was started without the variables LD_PRELOAD and KEEL_RECORDER_SESSION, \
                       which load the recorder; keep them in its environment, or record it \
                       directly (keel record -- PROGRAM)";
const OUTSIDE: &str = "it was executed as another user, in another root folder or with other \
                       mounts, where the recording's folder cannot be opened; record it directly \
                       (keel record -- PROGRAM), or name a folder that it sees with --spool";
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Each look takes the time of some system calls for each image.
const IMAGES_MAX: usize = 100;
const REPORTS_MAX: usize = 20;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    pub pid: u32,
    pub text: String,
}

/// A call of exec whose result is not known yet, and why the new program cannot be recorded.
struct Executing {
    pid: u32,
    path: PathBuf,
    reason: Option<String>,
}

/// How often a program ran, and whether the recorded program's own process did so.
#[derive(Default)]
struct Ran {
    times: u64,
    is_own: bool,
}

/// The state between the looks.
pub struct Unseen {
    recorder: String,
    /// The session's folder.
    folder: String,
    /// The program whose own malloc is recorded.
    patched: Option<File>,
    looked: Instant,
    /// Programs without a recording at the last look, by process id.
    suspects: FxHashMap<u32, File>,
    reported: FxHashSet<(u32, File)>,
    /// The last calls of exec, until it is known whether they succeeded.
    executing: Vec<Executing>,
    /// How often a program ran without a recording, by path and reason.
    unrecorded: BTreeMap<(PathBuf, String), Ran>,
}

impl Unseen {
    /// `recorder`: the library that recorded programs load; `folder`: the session's; `patched`: the
    /// program whose own malloc is recorded.
    pub fn new(recorder: &Path, folder: &Path, patched: Option<File>) -> Unseen {
        let folder = folder.to_string_lossy().into_owned();
        let recorder = recorder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (suspects, reported) = (FxHashMap::default(), FxHashSet::default());
        let (executing, unrecorded) = (Vec::new(), BTreeMap::new());
        let looked = Instant::now();
        Unseen { recorder, folder, patched, looked, suspects, reported, executing, unrecorded }
    }

    /// Takes the calls of exec since the last time. `root`: the process of the recorded program.
    pub fn take_executed(&mut self, executed: Vec<Executed>, root: u32) {
        for Executed { pid, how, path } in executed {
            if how == How::Failed {
                if let Some(at) = self.executing.iter().rposition(|one| one.pid == pid) {
                    self.executing.remove(at);
                }
                continue;
            }
            let reason = match how {
                // In another root folder, the path may be that of another file.
                How::Outside => Some(OUTSIDE.to_owned()),
                How::Cleaned => self.refusal(&path).or_else(|| Some(CLEANED.to_owned())),
                _ => self.refusal(&path),
            };
            self.executing.push(Executing { pid, path, reason });
        }
        // A failed call returns at once.
        const KEPT: usize = 64;
        let known = self.executing.len().saturating_sub(KEPT);
        self.conclude(known, root);
    }

    /// Why the program cannot be recorded.
    fn refusal(&self, program: &Path) -> Option<String> {
        let is_patched = |of: Metadata| self.patched == Some(file(&of));
        match check_recordable(program) {
            Err(Error::NotRecordable { .. })
                if std::fs::metadata(program).is_ok_and(is_patched) =>
            {
                None
            }
            Err(Error::NotRecordable { reason, .. }) => Some(reason),
            _ => None,
        }
    }

    fn conclude(&mut self, count: usize, root: u32) {
        for Executing { pid, path, reason } in self.executing.drain(..count) {
            let Some(reason) = reason else { continue };
            let known = self.reported.iter().any(|(other, program)| {
                *other == pid
                    && (reason == OUTSIDE
                        || std::fs::metadata(&path).is_ok_and(|of| file(&of) == *program))
            });
            if !known && self.unrecorded.len() < REPORTS_MAX {
                let ran = self.unrecorded.entry((path, reason)).or_default();
                ran.times += 1;
                ran.is_own |= pid == root;
            }
        }
    }

    /// The programs that ran without a recording, one line for each, and whether the process `root`
    /// is one of them.
    pub fn unrecorded(&mut self, root: u32) -> Vec<(bool, String)> {
        self.conclude(self.executing.len(), root);
        let line = |((path, reason), ran): (&(PathBuf, String), &Ran)| {
            let times = match ran.times {
                1 => "once".to_owned(),
                more => format!("{more} times"),
            };
            let text = format!("{} ran {times} and is not recorded: {reason}", path.display());
            (ran.is_own, text)
        };
        self.unrecorded.iter().map(line).collect()
    }

    /// Looks at the processes of these images, and with `follow` at their children. Returns the
    /// programs that two looks found without a recording.
    pub fn look<'a>(
        &mut self,
        images: impl Iterator<Item = &'a Image>,
        follow: bool,
    ) -> Vec<Report> {
        if self.looked.elapsed() < LOOK_EVERY || self.reported.len() >= REPORTS_MAX {
            return Vec::new();
        }
        self.looked = Instant::now();
        let images: Vec<&Image> = images.take(IMAGES_MAX).collect();
        let recorded: FxHashSet<u32> = images.iter().map(|image| image.pid).collect();
        let mut found = FxHashMap::default();
        // A forked child that has not allocated runs the program of its parent.
        let recorded_programs: FxHashSet<File> =
            images.iter().filter_map(|image| image.program).collect();
        for image in images {
            let Some(recorded_program) = image.program else { continue };
            if let Some(program) = program_of(image.pid).filter(|now| *now != recorded_program) {
                found.insert(image.pid, program);
            }
            if follow {
                for child in descendants(image.pid) {
                    let program = program_of(child).filter(|_| !recorded.contains(&child));
                    if let Some(program) = program.filter(|now| !recorded_programs.contains(now)) {
                        found.insert(child, program);
                    }
                }
            }
        }
        let mut reports = Vec::new();
        for (pid, program) in &found {
            let is_new = || !self.reported.contains(&(*pid, *program));
            if self.suspects.get(pid) == Some(program)
                && is_new()
                && let Some(report) = self.report(*pid)
            {
                self.reported.insert((*pid, *program));
                reports.push(report);
            }
        }
        self.suspects = found;
        reports
    }

    /// `None` for a program that is recorded (in another root folder, its path may be that of
    /// another file), or that loaded the recorder and has not allocated.
    fn report(&self, pid: u32) -> Option<Report> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        if maps.contains(&self.folder) {
            return None;
        }
        let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let reason = self.reason(pid, &path, &maps)?;
        let program = path.display();
        let text = format!("process {pid} runs {program}, which is not recorded: {reason}");
        Some(Report { pid, text })
    }

    fn reason(&self, pid: u32, program: &Path, maps: &str) -> Option<String> {
        let root = format!("/proc/{pid}/root");
        let elsewhere = |metadata: Metadata| {
            std::fs::metadata("/").is_ok_and(|own| file(&own) != file(&metadata))
        };
        if std::fs::metadata(&root).is_ok_and(elsewhere) {
            let folder = std::fs::read_link(&root).unwrap_or_else(|_| PathBuf::from("another"));
            return Some(format!(
                "its root folder is {}, where the recording's folder does not exist",
                folder.display()
            ));
        }
        // SAFETY: geteuid cannot fail.
        let own = unsafe { libc::geteuid() };
        if let Some(user) = user_of(pid).filter(|user| *user != own && *user != 0) {
            return Some(format!(
                "it runs as user {user}, who may not open the recording's folder; record it as \
                 that user"
            ));
        }
        if let Some(reason) = self.refusal(program) {
            return Some(reason);
        }
        if !Path::new(&format!("{root}{}", self.folder)).exists() {
            return Some(format!(
                "it has other mounts, so it does not see the recording's folder {}; name one that \
                 it sees with --spool",
                self.folder
            ));
        }
        (!maps.is_empty() && !maps.contains(&self.recorder)).then(|| CLEANED.to_owned())
    }
}

/// The effective user id.
fn user_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
