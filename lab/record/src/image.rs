//! A program image of a recorded process, from the process's start or exec to its next exec or end.

use crate::latest::Latest;
use crate::memory::Sampler;
use crate::namespace::id_in_its_namespace;
use crate::origins::{self, Mapping};
use crate::perf_map::PerfMap;
use crate::program_file::{self, program_of_image};
use crate::ring::{ORIGIN_STACK, RING_MAX, RawEvent, op};
use crate::rows::Names;
use crate::session::{Spool, is_shortage};
use keel_journal::{Memory, Metadata};
use rustc_hash::FxHashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

const NAMES_EVERY: Duration = Duration::from_millis(500);
/// The pause between two readings of the names, or of the mappings, in times of their reading.
const READ_PAUSE: u32 = 100;
const MAPS_EVERY: Duration = Duration::from_millis(10);
/// After this time the mappings are read again, because a library may have been loaded in place of
/// another one.
const MAPS_ANYWAY_AFTER: Duration = Duration::from_millis(100);
/// At this age an image with one thread gets rings for more. Before it, only threads that wait get
/// them, because thousands of short processes need one ring each.
const SPARE_RINGS_AFTER: Duration = Duration::from_millis(50);
/// More threads than start between two readings of their number.
const SPARE_RINGS: u32 = 512;
const THREADS_EVERY: Duration = Duration::from_millis(10);
/// Of a recording that waits: threads that have ended, and files that are mapped no longer.
const THREADS_KEPT: usize = 8192;
const FILES_KEPT: usize = 256;
/// Pages that are known to be unmapped.
const UNMAPPED_MAX: usize = 1 << 16;

/// The state that the collector keeps of an image that runs.
pub struct Image {
    /// 0 if it ended before it was known.
    pub pid: u32,
    /// In a process namespace of its own, where the threads have other numbers.
    pub is_contained: bool,
    /// The journal that has the name of its process.
    pub process: PathBuf,
    /// Number of programs that the process executed before.
    pub index: u32,
    pub spool: Spool,
    /// The program file that it ran when it was found.
    pub program: Option<program_file::File>,
    /// Readable when the process has ended. `None` while there is no descriptor for it, and for the
    /// program itself, for which another thread waits.
    pidfd: Option<OwnedFd>,
    /// When it began, in ticks.
    pub began: u64,
    admitted: Instant,
    /// The threads that it has, and when they were counted.
    threads: u32,
    threads_counted: Option<Instant>,
    pub metadata: Metadata,
    names: Latest<u64, keel_journal::Thread>,
    names_read: Option<Instant>,
    names_cost: Duration,
    pub code: Code,
    pub memory: Sampler,
}

impl Image {
    pub fn new(
        pid: u32,
        (process, index): (PathBuf, u32),
        spool: Spool,
        began: u64,
        metadata: Metadata,
    ) -> Image {
        Image {
            pid,
            is_contained: false,
            process,
            index,
            spool,
            program: program_of_image(pid, &metadata.program),
            pidfd: None,
            began,
            admitted: Instant::now(),
            threads: 1,
            threads_counted: None,
            metadata,
            names: Latest::default(),
            names_read: None,
            names_cost: Duration::ZERO,
            code: Code::default(),
            memory: Sampler::default(),
        }
    }

    /// The recording waits, perhaps for days.
    pub fn forget_ended(&mut self) {
        self.names.keep(THREADS_KEPT);
        self.code.files.keep(FILES_KEPT);
    }

    /// Whether its process has ended.
    pub fn is_gone(&mut self, root_pid: u32, root_gone: bool) -> bool {
        if self.pid == root_pid {
            return root_gone;
        }
        if self.pidfd.is_none() {
            match open_pidfd(self.pid) {
                Ok(pidfd) => self.pidfd = Some(pidfd),
                Err(error) if is_shortage(&error) => return false,
                Err(_) => return true,
            }
        }
        let Some(pidfd) = &self.pidfd else { return true };
        let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid structure; a timeout of 0 does not wait.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
    }

    /// Reserves rings for the threads that exist and may start, so that none has to wait for its
    /// ring. See [`Spool::prepare_rings`].
    pub fn prepare_rings(&mut self) -> io::Result<()> {
        let is_time = self.threads_counted.is_none_or(|at| at.elapsed() >= THREADS_EVERY);
        if is_time || self.spool.needs_rings() {
            self.threads = count_threads(self.pid);
            self.threads_counted = Some(Instant::now());
        }
        let has_more = self.threads > 1 || self.admitted.elapsed() >= SPARE_RINGS_AFTER;
        let expected = if has_more { rings_for(self.threads) } else { 0 };
        self.spool.prepare_rings(expected)
    }

    /// The names so far.
    pub fn names(&mut self) -> Names {
        let program =
            Path::new(&self.metadata.program).file_name().unwrap_or_default().to_string_lossy();
        let program = program.chars().take(15).collect();
        self.names_read = None;
        let code = PerfMap::find(self.pid, SystemTime::now() - self.admitted.elapsed());
        let threads = self.names.iter().map(|(id, thread)| (*id, thread.clone())).collect();
        let files = self.code.files.iter().map(|(file, ())| file.clone()).collect();
        Names { threads, program, code, files }
    }

    /// What is known of its memory.
    pub fn memory(&self) -> Memory {
        let header = self.spool.header();
        Memory {
            samples: self.memory.samples(),
            mapped_calls: header.mapped_calls.load(Relaxed),
            mapped_bytes: header.mapped_bytes.load(Relaxed),
        }
    }

    /// Reads the names and the scheduling classes of the running threads. A thread that ends
    /// records its own name.
    pub fn read_names(&mut self) {
        // The names of thousands of threads take so long that the rings would fill.
        let pause = NAMES_EVERY.max(self.names_cost * READ_PAUSE);
        if self.names_read.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        let began = Instant::now();
        self.names_read = Some(began);
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid));
        let tasks: Vec<_> = tasks.into_iter().flatten().flatten().collect();
        self.names.begin(tasks.len());
        for task in tasks {
            let id = if self.is_contained {
                id_in_its_namespace(&task.path()).map(u64::from)
            } else {
                task.file_name().to_str().and_then(|id| id.parse().ok())
            };
            let Some(id) = id else { continue };
            if let Some((name, policy)) = name_and_policy(&task.path().join("stat")) {
                let policy = policy.to_owned();
                self.names.insert(id, keel_journal::Thread { id, name, policy });
            }
        }
        self.names_cost = began.elapsed();
    }

    /// The mappings, read again if these events come from unknown code, or after some time; and the
    /// time from which on rows must wait. Rows of unknown code wait until the mappings have been
    /// read, and the rings once more: if the code was unloaded in between, an event there has its
    /// name.
    pub fn new_maps(
        &mut self,
        rings: &[(u32, Vec<RawEvent>)],
    ) -> (Option<Vec<Mapping>>, Option<u64>) {
        let mut unknown = self.code.waiting.filter(|_| !self.code.is_read_since);
        for event in rings.iter().flat_map(|(_, events)| events) {
            if event.op() == op::UNLOADED {
                self.code.forget(event.address, event.size);
            } else if self.code.is_from_unknown_code(event) {
                unknown = Some(unknown.map_or(event.time, |time| time.min(event.time)));
            }
        }
        let read = self.code.read.unwrap_or(self.admitted);
        let pause = MAPS_ANYWAY_AFTER.max(self.code.cost * READ_PAUSE);
        let is_old = !rings.is_empty() && read.elapsed() >= pause;
        let maps = (unknown.is_some() || is_old).then(|| self.code.read(self.pid)).flatten();
        self.code.waiting = unknown;
        self.code.is_read_since = maps.is_some();
        (maps, unknown)
    }
}

/// Where the process's code is mapped, as far as the collector has read it.
#[derive(Default)]
pub struct Code {
    /// Start and end, by start.
    ranges: Vec<(u64, u64)>,
    /// The range found last.
    last: (u64, u64),
    files: Latest<PathBuf, ()>,
    /// Pages without a mapping.
    unmapped: FxHashSet<u64>,
    unknown_pages: Vec<u64>,
    read: Option<Instant>,
    /// How long that took.
    cost: Duration,
    /// The time of the first event that waits, and whether the mappings were read after it.
    waiting: Option<u64>,
    is_read_since: bool,
}

impl Code {
    /// Sets the present mappings.
    pub fn take(&mut self, mappings: &[Mapping]) {
        self.ranges = mappings.iter().map(|mapping| (mapping.start, mapping.end)).collect();
        self.ranges.sort_unstable();
        self.files.begin(mappings.len());
        for mapping in mappings.iter().filter(|mapping| !mapping.path.is_empty()) {
            if !self.files.contains(Path::new(&mapping.path)) {
                self.files.insert(PathBuf::from(&mapping.path), ());
            }
        }
        self.last = (0, 0);
    }

    /// Code was unloaded.
    fn forget(&mut self, start: u64, end: u64) {
        self.ranges.retain(|range| range.1 <= start || range.0 >= end);
        self.unmapped.retain(|page| !(start..end).contains(&(page << 12)));
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

    /// Without a page here, an event from it only causes another reading.
    fn add_unmapped(&mut self, page: u64) {
        if self.unmapped.len() >= UNMAPPED_MAX {
            self.unmapped.clear();
        }
        self.unmapped.insert(page);
    }

    /// Reads the mappings, unless they were read within `MAPS_EVERY`.
    fn read(&mut self, pid: u32) -> Option<Vec<Mapping>> {
        if self.read.is_some_and(|at| at.elapsed() < MAPS_EVERY) {
            return None;
        }
        let began = Instant::now();
        self.read = Some(began);
        let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let mappings = origins::parse_maps(&text);
        if mappings.is_empty() {
            return None;
        }
        self.take(&mappings);
        // The stacks of thousands of threads are mappings, too.
        self.cost = began.elapsed();
        // Pages that are still unmapped do not cause another read.
        for page in std::mem::take(&mut self.unknown_pages) {
            if self.is_unknown(page << 12 | 0xfff) {
                self.add_unmapped(page);
            }
        }
        self.unknown_pages.clear();
        Some(mappings)
    }
}

/// The name and the scheduling class in /proc/PID/task/TID/stat. One file and one call of read,
/// because a program may have thousands of threads.
fn name_and_policy(path: &Path) -> Option<(String, &'static str)> {
    /// More than the line has.
    const LINE_BYTES: usize = 2048;
    let mut line = [0; LINE_BYTES];
    let length = File::open(path).ok()?.read(&mut line).ok()?;
    parse_name_and_policy(&String::from_utf8_lossy(&line[..length]))
}

/// The class is empty if the line does not have it.
fn parse_name_and_policy(line: &str) -> Option<(String, &'static str)> {
    let (_, name) = line.split_once('(')?;
    let (name, fields) = name.rsplit_once(')')?;
    Some((name.to_owned(), policy_of(fields)))
}

/// `fields`: those after the name.
fn policy_of(fields: &str) -> &'static str {
    const POLICY: usize = 38;
    match fields.split_whitespace().nth(POLICY).and_then(|policy| policy.parse().ok()) {
        Some(libc::SCHED_FIFO) => "fifo",
        Some(libc::SCHED_RR) => "rr",
        Some(libc::SCHED_DEADLINE) => "deadline",
        Some(_) => "other",
        None => "",
    }
}

/// The number of a process's threads: the system counts each one's folder as a link.
fn count_threads(pid: u32) -> u32 {
    let links = std::fs::metadata(format!("/proc/{pid}/task")).map_or(0, |task| task.nlink());
    links.saturating_sub(2).clamp(1, RING_MAX.into()) as u32
}

/// The rings of so many threads, and of half as many that may start. Each one takes some µs to
/// reserve.
fn rings_for(threads: u32) -> u32 {
    threads + (threads / 2).min(SPARE_RINGS) + 2
}

/// A descriptor that becomes readable when the process has ended.
pub fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: a system call without pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::{Code, FILES_KEPT, UNMAPPED_MAX, count_threads, parse_name_and_policy, rings_for};
    use crate::origins::Mapping;

    #[test]
    fn thousands_of_threads_do_not_get_thousands_of_spare_rings() {
        assert_eq!([1, 40, 5000].map(rings_for), [3, 62, 5514]);
    }

    /// Of a program that loads and unloads a library under changing names, and makes code.
    #[test]
    fn files_and_pages_of_earlier_code_are_forgotten() {
        let mut code = Code::default();
        code.files.keep(FILES_KEPT);
        let map = |start: u64, path: String| Mapping { start, end: start + 9, offset: 0, path };
        for library in 0..2000 {
            let path = format!("/lib/{library}.so");
            code.take(&[map(0x1000, "/bin/game".to_owned()), map(0x2000 + library, path)]);
        }
        let files = code.files.iter().count();
        assert!((FILES_KEPT..=2 * FILES_KEPT + 8).contains(&files), "{files} files");
        assert!(code.files.contains(std::path::Path::new("/bin/game")));
        (0..200_000).for_each(|page| code.add_unmapped(page));
        assert!(code.unmapped.len() <= UNMAPPED_MAX, "{} pages", code.unmapped.len());
    }

    #[test]
    fn names_and_scheduling_classes_are_those_of_the_kernel() {
        let state = |policy: &str| {
            let before = "0 ".repeat(37);
            format!("7 (a) (b) S 1) S {before}{policy} 0 0")
        };
        let found = ["0", "1", "2", "3", "6", "x"]
            .map(|policy| parse_name_and_policy(&state(policy)))
            .map(|found| found.map(|(name, policy)| (name == "a) (b) S 1", policy)));
        let expected = ["other", "fifo", "rr", "other", "deadline", ""];
        assert_eq!(found, expected.map(|policy| Some((true, policy))));
        assert_eq!(parse_name_and_policy(""), None);
        let own = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
        let (found, policy) = parse_name_and_policy(&own).unwrap_or_default();
        assert_eq!(found, name.trim_end_matches('\n'));
        assert_ne!(policy, "");
    }

    #[test]
    fn the_threads_of_a_process_are_counted() {
        let before = count_threads(std::process::id());
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let waits = std::thread::spawn(move || receiver.recv().is_err());
        // Other tests start and end threads.
        assert!(before >= 1 && count_threads(std::process::id()) >= 2);
        drop(sender);
        assert!(waits.join().unwrap_or(false));
        assert_eq!(count_threads(0), 1);
    }
}
