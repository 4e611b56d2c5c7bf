//! One recorded process, over all the programs that it executes.

use crate::origins::{self, Mapping};
use crate::ring::{ORIGIN_STACK, RawEvent, op};
use crate::rows::Names;
use crate::session::{Spool, Stalls};
use keel_journal::Metadata;
use rustc_hash::{FxHashMap, FxHashSet};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

const NAMES_EVERY: Duration = Duration::from_millis(500);
const MAPS_EVERY: Duration = Duration::from_millis(10);

/// The state that the collector keeps of a process.
pub struct Process {
    pub pid: u32,
    pub spool: Spool,
    /// Readable when the process has ended. Not used for the program itself, for which another
    /// thread waits.
    pidfd: Option<OwnedFd>,
    pub ended: bool,
    /// When it began, in ticks.
    pub began: u64,
    pub metadata: Metadata,
    names: FxHashMap<u64, String>,
    names_read: Option<Instant>,
    pub code: Code,
    /// Of earlier images.
    pub stalls: Stalls,
    pub seconds: f64,
}

impl Process {
    pub fn new(pid: u32, spool: Spool, began: u64, metadata: Metadata) -> Process {
        Process {
            pid,
            spool,
            pidfd: open_pidfd(pid),
            ended: false,
            began,
            metadata,
            names: FxHashMap::default(),
            names_read: None,
            code: Code::default(),
            stalls: Stalls::default(),
            seconds: 0.0,
        }
    }

    pub fn is_gone(&self, root_pid: u32, root_gone: bool) -> bool {
        if self.ended {
            return false;
        }
        if self.pid == root_pid {
            return root_gone;
        }
        let Some(pidfd) = &self.pidfd else { return true };
        let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid structure; a timeout of 0 does not wait.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
    }

    /// Adds the stalls of the image that has ended.
    pub fn add_stalls(&mut self) {
        let stalls = self.spool.stalls();
        self.stalls.count += stalls.count;
        self.stalls.ticks += stalls.ticks;
    }

    pub fn close(&mut self) {
        self.ended = true;
        self.pidfd = None;
    }

    /// Takes the names of the image that has ended.
    pub fn take_names(&mut self) -> Names {
        let program =
            Path::new(&self.metadata.program).file_name().unwrap_or_default().to_string_lossy();
        let program = program.chars().take(15).collect();
        self.names_read = None;
        Names { threads: std::mem::take(&mut self.names), program }
    }

    /// Reads the names of the running threads. A thread that ends records its own name.
    pub fn read_names(&mut self) {
        if self.names_read.is_some_and(|at| at.elapsed() < NAMES_EVERY) {
            return;
        }
        self.names_read = Some(Instant::now());
        let tasks =
            std::fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        for task in tasks {
            let Some(id) = task.file_name().to_str().and_then(|id| id.parse().ok()) else {
                continue;
            };
            if let Ok(name) = std::fs::read_to_string(task.path().join("comm")) {
                self.names.insert(id, name.trim_end_matches('\n').to_owned());
            }
        }
    }

    /// The mappings, read again if these events come from unknown code.
    pub fn new_maps(&mut self, rings: &[(u32, Vec<RawEvent>)]) -> Option<Vec<Mapping>> {
        let mut unknown = false;
        for event in rings.iter().flat_map(|(_, events)| events) {
            unknown |= self.code.is_from_unknown_code(event);
        }
        (unknown && !self.ended).then(|| self.code.read(self.pid)).flatten()
    }
}

/// Where the process's code is mapped, as far as the collector has read it.
#[derive(Default)]
pub struct Code {
    /// Start and end, by start.
    ranges: Vec<(u64, u64)>,
    /// The range found last.
    last: (u64, u64),
    /// Pages without a mapping.
    unmapped: FxHashSet<u64>,
    unknown_pages: Vec<u64>,
    read: Option<Instant>,
}

impl Code {
    /// Sets the present mappings.
    pub fn take(&mut self, mappings: &[Mapping]) {
        self.ranges = mappings.iter().map(|mapping| (mapping.start, mapping.end)).collect();
        self.ranges.sort_unstable();
        self.last = (0, 0);
    }

    fn is_from_unknown_code(&mut self, event: &RawEvent) -> bool {
        if event.has_origin() {
            return event.extra() & ORIGIN_STACK == 0 && self.is_unknown(event.extra());
        }
        event.op() == op::STACK
            && (self.is_unknown(event.address) || (event.size != 0 && self.is_unknown(event.size)))
    }

    fn is_unknown(&mut self, address: u64) -> bool {
        if self.last.0 <= address && address < self.last.1 {
            return false;
        }
        let at = self.ranges.partition_point(|(start, _)| *start <= address);
        if let Some(range) =
            at.checked_sub(1).and_then(|at| self.ranges.get(at)).filter(|r| address < r.1)
        {
            self.last = *range;
            return false;
        }
        let page = address >> 12;
        if address == 0 || self.unmapped.contains(&page) {
            return false;
        }
        if self.unknown_pages.len() < 64 {
            self.unknown_pages.push(page);
        }
        true
    }

    /// Reads the mappings, unless they were read within `MAPS_EVERY`.
    fn read(&mut self, pid: u32) -> Option<Vec<Mapping>> {
        if self.read.is_some_and(|at| at.elapsed() < MAPS_EVERY) {
            return None;
        }
        self.read = Some(Instant::now());
        let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let mappings = origins::parse_maps(&text);
        if mappings.is_empty() {
            return None;
        }
        self.take(&mappings);
        // Pages that are still unmapped do not cause another read.
        for page in std::mem::take(&mut self.unknown_pages) {
            if self.is_unknown(page << 12 | 0xfff) {
                self.unmapped.insert(page);
            }
        }
        self.unknown_pages.clear();
        Some(mappings)
    }
}

fn open_pidfd(pid: u32) -> Option<OwnedFd> {
    // SAFETY: a system call without pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    // SAFETY: the kernel has just given us this descriptor.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
