//! The session's folder and its spools: the reader's side of `journal/ring.h`, on Linux.

mod files;
mod futex;
mod settings;

use self::files::{file_is_hole, open_spool, release, reserve};
use self::futex::{futex_wait, futex_wake};
pub use self::settings::Settings;
use crate::contained::patch::{self, Patch};
use crate::ring::{self, Control, RawEvent};
use crate::spool::is_whole;
pub use crate::spool::{Spool, arguments, text};
use crate::{Error, clock::Clock, program_file};
use memmap2::MmapRaw;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;
use std::time::Duration;

const FOLDER_PREFIX: &str = "keel-record-";

/// A recording session: created before the program starts, removed when dropped.
pub struct Session {
    folder: PathBuf,
    control: Arc<MmapRaw>,
    /// Number of spools taken.
    taken: Cell<u64>,
    executed: File,
    /// Bytes of the control page's notes that were read.
    noted: Cell<usize>,
    /// The program that the recorder changes.
    pub patched: Cell<Option<program_file::File>>,
    /// Its lock shows later sessions that this one is in use.
    _control_file: File,
}

impl Session {
    /// Creates a session in the folder `parent`, and removes those that killed readers left there.
    pub fn create(parent: &Path, settings: Settings) -> Result<Session, Error> {
        let parent = parent.canonicalize().map_err(|source| session_error(parent, source))?;
        remove_abandoned(&parent);
        let folder = (0..1000).find_map(|attempt| {
            let folder = parent.join(format!("{FOLDER_PREFIX}{}-{attempt}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                result => Some(result.map(|()| folder)),
            }
        });
        let folder = folder.unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()));
        let folder = folder.map_err(|source| session_error(&parent, source))?;
        let (control_file, control) = Session::make_control(&folder).map_err(|source| {
            drop(std::fs::remove_dir_all(&folder));
            session_error(&folder, source)
        })?;
        let executed = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(folder.join(ring::EXECUTED_NAME))
            .map_err(|source| {
                drop(std::fs::remove_dir_all(&folder));
                session_error(&folder, source)
            })?;
        let session = Session {
            folder,
            control: Arc::new(control),
            taken: Cell::new(0),
            executed,
            noted: Cell::new(0),
            patched: Cell::new(None),
            _control_file: control_file,
        };
        let control = session.control();
        control.version.store(ring::VERSION, Relaxed);
        settings.write(control);
        control.reader_pid.store(std::process::id(), Relaxed);
        control.magic.store(ring::CONTROL_MAGIC, Release);
        Ok(session)
    }

    fn make_control(folder: &Path) -> io::Result<(File, MmapRaw)> {
        let options =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).clone();
        let file = options.open(folder.join("control"))?;
        // SAFETY: flock on a descriptor that we own.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) };
        reserve(&file, 0, ring::PAGE_BYTES as u64)?;
        let map = MmapRaw::map_raw(&file)?;
        Ok((file, map))
    }

    /// Stores how the recorder changes the program (`journal/patches.h`).
    pub fn store_patches(&self, patches: &[Patch]) -> Result<(), Error> {
        if patches.is_empty() {
            return Ok(());
        }
        let path = self.folder.join(patch::NAME);
        let bytes: Vec<u8> = patches.iter().flat_map(Patch::bytes).collect();
        std::fs::write(&path, bytes).map_err(|source| session_error(&path, source))?;
        self.control().patches.store(patches.len() as u64, Release);
        self.patched.set(patches.first().map(|patch| (patch.device, patch.inode)));
        Ok(())
    }

    /// The folder; its path is passed in the program's environment.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The page shared with all recorded processes.
    pub fn control(&self) -> &Control {
        control_of(&self.control)
    }

    /// The new spools, the earliest image first; an error for one that must wait until descriptors
    /// or memory are free. Also returns a text for each one that cannot be read.
    pub fn new_spools(&self) -> (Vec<io::Result<Spool>>, Vec<String>) {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        for entry in entries {
            let name = entry.file_name();
            let spool = name.to_str().and_then(|name| name.split_once('.'));
            if spool
                .is_none_or(|(pid, image)| [pid, image].iter().any(|n| n.parse::<u32>().is_err()))
            {
                continue;
            }
            match Spool::open(&entry.path()) {
                Ok(None) => {}
                // The name becomes free for the next image of this process.
                Ok(Some(spool)) => {
                    match spool.take(&self.folder, self.taken.get(), &entry.path()) {
                        Ok(spool) => {
                            self.taken.set(self.taken.get() + 1);
                            found.push(Ok(spool));
                        }
                        Err(error) => problems.push(format!("cannot rename a spool: {error}")),
                    }
                }
                Err(error) if is_shortage(&error) => found.push(Err(error)),
                Err(error) => {
                    let path = entry.path();
                    problems.push(format!("cannot read {}: {error}", path.display()));
                    drop(std::fs::remove_file(path));
                }
            }
        }
        found.sort_by_key(|spool| {
            spool.as_ref().ok().map(|spool| spool.header().started_ticks.load(Relaxed))
        });
        (found, problems)
    }

    /// The programs that recorded processes executed since the last call.
    pub fn executed(&self) -> Vec<Executed> {
        let mut lines = Vec::new();
        if (&self.executed).read_to_end(&mut lines).is_err() {
            return Vec::new();
        }
        release(&self.executed, lines.len());
        self.read_notes(&mut lines);
        lines.split(|byte| *byte == b'\n').filter_map(Executed::parse).collect()
    }

    /// Appends the lines of the control page that are whole.
    fn read_notes(&self, lines: &mut Vec<u8>) {
        let notes = &self.control().notes[self.noted.get()..];
        let written = notes.iter().map(|byte| byte.load(Acquire)).take_while(|byte| *byte != 0);
        let mut written: Vec<u8> = written.collect();
        let whole = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        written.truncate(whole);
        self.noted.set(self.noted.get() + whole);
        lines.append(&mut written);
    }

    /// Whether there was no room for a line in the control page.
    pub fn lacks_notes(&self) -> bool {
        let control = self.control();
        control.noted.load(Relaxed) as usize > control.notes.len()
    }

    /// Asks all processes to stop recording.
    pub fn stop(&self) {
        self.control().stop.store(1, Release);
    }

    /// Sleeps until the bell rings or the timeout expires, and advances the heartbeat.
    pub fn wait(&self, timeout: Duration) {
        let control = self.control();
        let bell = control.bell.load(SeqCst);
        control.sleeping.store(1, SeqCst);
        futex_wait(&control.bell, bell, timeout);
        control.sleeping.store(0, SeqCst);
        control.heartbeat.fetch_add(1, Relaxed);
    }

    /// A handle that ends [`Session::wait`] from another thread. It may outlive the session.
    pub fn bell(&self) -> Bell {
        Bell(Arc::clone(&self.control))
    }
}

/// A call of exec, or of a function that starts a program in a child.
#[derive(Debug, PartialEq, Eq)]
pub struct Executed {
    pub pid: u32,
    pub how: How,
    pub path: PathBuf,
}

/// See `KL_EXECUTED_NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// With the variables that load the recorder.
    Recorded,
    /// With an environment that lacks them.
    Cleaned,
    /// By a process that can no longer open the session's files.
    Outside,
    /// The process's call before this one failed.
    Failed,
}

impl Executed {
    fn parse(line: &[u8]) -> Option<Executed> {
        let mut words = line.splitn(3, |byte| *byte == b' ');
        let pid = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        let how = match words.next()? {
            b"r" => How::Recorded,
            b"c" => How::Cleaned,
            b"u" => How::Outside,
            b"f" => How::Failed,
            _ => return None,
        };
        Some(Executed { pid, how, path: OsStr::from_bytes(words.next()?).into() })
    }
}

/// See [`Session::bell`].
#[derive(Clone)]
pub struct Bell(Arc<MmapRaw>);

impl Bell {
    /// Wakes the thread in [`Session::wait`].
    pub fn ring(&self) {
        let control = control_of(&self.0);
        control.bell.fetch_add(1, SeqCst);
        futex_wake(&control.bell, 1);
    }
}

fn control_of(map: &MmapRaw) -> &Control {
    // SAFETY: the mapping is a page, aligned, lives as long as the reference, and Control is all
    // atomics.
    unsafe { &*map.as_ptr().cast::<Control>() }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Removes sessions whose reader was killed: no process holds their lock. Other users can write to
/// `parent` too. Only this user's own folders and regular files are touched.
fn remove_abandoned(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(FOLDER_PREFIX) {
            continue;
        }
        // Of a link, this is the link itself.
        if !entry.metadata().is_ok_and(|metadata| metadata.is_dir() && is_own(&metadata)) {
            continue;
        }
        // Without O_NONBLOCK, opening a FIFO would wait for a writer.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let Ok(file) = options.open(entry.path().join("control")) else { continue };
        let Ok(metadata) = file.metadata() else { continue };
        if !metadata.is_file() || !is_own(&metadata) {
            continue;
        }
        // A session that is being created is locked, or its file is still empty.
        let made = metadata.len() > 0;
        // SAFETY: flock on a descriptor that we own.
        let free = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        if made && free {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

fn is_own(metadata: &std::fs::Metadata) -> bool {
    // SAFETY: geteuid cannot fail.
    metadata.uid() == unsafe { libc::geteuid() }
}

impl Spool {
    /// Maps a spool; `None` while its process still initializes it.
    pub fn open(path: &Path) -> io::Result<Option<Spool>> {
        let file = open_spool(path)?;
        // The program reserves the first pages before it writes there; a hole must not be touched
        // before that.
        if !is_whole(&file)? || file_is_hole(&file) {
            return Ok(None);
        }
        let map = MmapRaw::map_raw(&file)?;
        Spool::checked(map)
    }

    /// Gives its file a name by which it is not found again.
    fn take(mut self, folder: &Path, number: u64, path: &Path) -> io::Result<Spool> {
        let taken = folder.join(format!("taken-{number}"));
        std::fs::rename(path, &taken)?;
        self.path = Some(taken);
        Ok(self)
    }

    fn free_rings(&self) -> u32 {
        (0..self.prepared()).filter(|index| self.is_free(*index)).count() as u32
    }

    fn is_free(&self, index: u32) -> bool {
        self.entry(index).state.load(Relaxed) != ring::RING_OWNED
    }

    /// Whether threads wait for rings, or soon might.
    pub fn needs_rings(&self) -> bool {
        let prepared = self.prepared();
        let last = (0..prepared).rev().take_while(|index| self.is_free(*index)).count() as u32;
        self.header().wanted.load(SeqCst) > 0
            || (prepared > 1 && last < ring::rings_ahead(prepared))
    }

    /// Reserves more rings: for threads that wait, and until there are `expected`. An error of the
    /// file system (no space) is returned only if a thread waits for a ring.
    pub fn prepare_rings(&self, expected: u32) -> io::Result<()> {
        /// The rings that are prepared between two readings of all others.
        const RINGS_AT_ONCE: u32 = 1024;
        let prepared = self.prepared();
        let wanted = self.header().wanted.load(SeqCst);
        if (wanted == 0 && prepared >= expected) || prepared == ring::RING_MAX {
            return Ok(());
        }
        let free = self.free_rings();
        let more = if wanted > 0 { (wanted + 2).saturating_sub(free) } else { 0 };
        let target = (prepared + more).max(expected).min(prepared + RINGS_AT_ONCE);
        let until = target.min(ring::RING_MAX);
        if until == prepared {
            return Ok(());
        }
        let Some(path) = &self.path else { return Ok(()) };
        let file = match open_spool(path) {
            Err(error) if is_shortage(&error) => return Ok(()),
            result => result?,
        };
        let all = ring::ring_offset(until) - ring::ring_offset(prepared);
        let whole = reserve(&file, ring::ring_offset(prepared), all).is_ok();
        for index in prepared..until {
            let (offset, slots) = (ring::ring_offset(index), ring::ring_slots(index));
            if !whole && let Err(error) = reserve(&file, offset, ring::ring_bytes(slots)) {
                let waiting = self.header().wanted.load(SeqCst) > 0;
                self.wake_waiting(index - prepared);
                return if waiting && free == 0 && index == prepared { Err(error) } else { Ok(()) };
            }
            let entry = self.entry(index);
            entry.offset.store(offset, Relaxed);
            entry.slots.store(slots, Relaxed);
            self.header().prepared.store(index + 1, Release);
        }
        self.wake_waiting(until - prepared);
        Ok(())
    }

    /// Whether threads wait for rings that can be prepared.
    pub fn wants_rings(&self) -> bool {
        self.header().wanted.load(SeqCst) > 0 && self.prepared() < ring::RING_MAX
    }

    /// Wakes this many of the threads that wait for a ring.
    pub fn wake_waiting(&self, threads: u32) {
        let bell = &self.header().ring_bell;
        bell.fetch_add(1, SeqCst);
        if threads > 0 && self.header().wanted.load(SeqCst) > 0 {
            futex_wake(bell, threads.min(i32::MAX as u32));
        }
    }

    /// Wakes all threads that wait, so that they see the end of the recording.
    pub fn wake_all(&self) {
        self.wake_waiting(ring::RING_MAX);
        for ring in self.used_rings().map(|index| self.ring(index)) {
            ring.tail_bell.fetch_add(1, SeqCst);
            if ring.waiting.load(Relaxed) != 0 {
                futex_wake(&ring.tail_bell, 1);
            }
        }
    }

    /// Copies the events of ring `index`, at most one lap, and releases their slots. With `last`,
    /// the process has ended: slots that were claimed and never filled are skipped.
    pub fn read(&mut self, index: u32, last: bool, into: &mut Vec<RawEvent>) {
        if self.tails.len() <= index as usize {
            self.tails.resize(index as usize + 1, 0);
        }
        let first = self.tails[index as usize];
        let at = self.copy_out(index, first, last, into);
        if at == first {
            return;
        }
        self.tails[index as usize] = at;
        let ring = self.ring(index);
        ring.tail.store(at, Release);
        fence(SeqCst);
        if ring.waiting.load(Relaxed) != 0 {
            ring.tail_bell.fetch_add(1, SeqCst);
            futex_wake(&ring.tail_bell, 1);
        }
    }

    /// When the image began, in ticks.
    pub fn started(&self, clock: &Clock) -> u64 {
        self.header().started_ticks.load(Relaxed).min(clock.now())
    }
}

fn session_error(path: &Path, cause: io::Error) -> Error {
    Error::Session { path: path.to_path_buf(), cause }
}

/// Whether there are no descriptors or no memory now; images that end release some.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
