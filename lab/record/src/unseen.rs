//! Finds programs of the recorded processes that run without the recorder, and says why.
//!
//! A program that a process executes after it has changed its root folder or its user cannot reach
//! the session's folder, and nothing in that program can report it. So the collector compares from
//! time to time which programs run with those that are recorded. Programs that ran for a shorter
//! time than two of these looks stay unnoticed.

use crate::image::Image;
use crate::program::check_recordable;
use crate::program_file::{File, file, program_of};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

/// The state between the looks.
pub struct Unseen {
    recorder: String,
    /// The session's folder.
    folder: String,
    looked: Instant,
    /// Programs without a recording at the last look, by process id.
    suspects: FxHashMap<u32, File>,
    reported: FxHashSet<(u32, File)>,
}

impl Unseen {
    /// `recorder`: the library that recorded programs load; `folder`: the session's.
    pub fn new(recorder: &Path, folder: &Path) -> Unseen {
        let folder = folder.to_string_lossy().into_owned();
        let recorder = recorder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (suspects, reported) = (FxHashMap::default(), FxHashSet::default());
        Unseen { recorder, folder, looked: Instant::now(), suspects, reported }
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
        for image in images {
            let Some(recorded_program) = image.program else { continue };
            let mut check = |pid: u32| {
                // A forked child that has not allocated runs the program of its parent.
                if let Some(program) = program_of(pid).filter(|now| *now != recorded_program) {
                    found.insert(pid, program);
                }
            };
            check(image.pid);
            if follow {
                let children = children(image.pid).into_iter();
                children.filter(|child| !recorded.contains(child)).for_each(check);
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
        if let Err(error) = check_recordable(program) {
            return Some(error.to_string());
        }
        (!maps.is_empty() && !maps.contains(&self.recorder))
            .then(|| "it was started without LD_PRELOAD".to_owned())
    }
}

/// The effective user id.
fn user_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
        })
        .collect()
}
