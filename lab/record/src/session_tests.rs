#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::*;
use std::os::unix::fs::{chown, symlink};
use std::sync::mpsc::channel;

const SETTINGS: Settings = Settings {
    clock_kind: ring::CLOCK_MONOTONIC,
    follow: true,
    stacks: 0,
    embedded: false,
    sample: None,
    slow_ticks: 0,
};

/// Creates a session in `parent` and drops it; fails if that takes as long as a minute.
fn create_in(parent: &Path) {
    let (sender, done) = channel();
    let parent = parent.to_path_buf();
    std::thread::spawn(move || sender.send(Session::create(&parent, SETTINGS).map(drop)));
    done.recv_timeout(Duration::from_secs(60)).expect("it hangs").unwrap();
}

/// Makes a folder as a killed reader leaves it.
fn abandoned(parent: &Path, name: &str) -> PathBuf {
    let folder = parent.join(name);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("control"), "left").unwrap();
    folder
}

#[test]
fn abandoned_session_is_removed() {
    let parent = tempfile::tempdir().unwrap();
    let folder = abandoned(parent.path(), "keel-record-1-0");
    create_in(parent.path());
    assert!(!folder.exists());
}

#[test]
fn fifo_in_a_shared_folder_does_not_block() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("keel-record-1-0");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("control").into_os_string().into_encoded_bytes();
    let path = std::ffi::CString::new(path).unwrap();
    // SAFETY: the path is NUL-terminated.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    create_in(parent.path());
    assert!(folder.is_dir());
}

#[test]
fn links_in_a_shared_folder_are_not_followed() {
    let (parent, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = abandoned(elsewhere.path(), "a-folder");
    symlink(&target, parent.path().join("keel-record-1-0")).unwrap();
    let folder = parent.path().join("keel-record-2-0");
    std::fs::create_dir(&folder).unwrap();
    symlink(target.join("control"), folder.join("control")).unwrap();
    create_in(parent.path());
    assert!(target.join("control").is_file());
    assert!(folder.is_dir() && parent.path().join("keel-record-1-0").is_symlink());
}

#[test]
fn sessions_of_other_users_stay() {
    let parent = tempfile::tempdir().unwrap();
    let folder = abandoned(parent.path(), "keel-record-1-0");
    if chown(&folder, Some(65534), None).is_err() {
        return; // only root can give a folder away; for others the system refuses the removal
    }
    create_in(parent.path());
    assert!(folder.join("control").is_file());
}

/// A program that executes others for days.
#[test]
fn reports_of_executed_programs_take_no_memory_when_they_were_read() {
    let parent = tempfile::tempdir_in("/dev/shm").unwrap();
    let session = Session::create(parent.path(), SETTINGS).unwrap();
    let path = session.folder().join(ring::EXECUTED_NAME);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    for round in 0..1000 {
        let line = format!("{round} r /bin/{}\n", "x".repeat(500));
        std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
        let executed: Vec<u32> = session.executed().iter().map(|one| one.pid).collect();
        assert_eq!(executed, [round]);
    }
    let kept = path.metadata().unwrap().blocks() * 512;
    assert!(kept <= 2 * ring::PAGE_BYTES as u64, "{kept} bytes");
}

/// Lines are read once, when they are whole. One that does not fit is counted.
#[test]
fn notes_of_processes_that_cannot_open_the_files_are_read() {
    let parent = tempfile::tempdir_in("/dev/shm").unwrap();
    let session = Session::create(parent.path(), SETTINGS).unwrap();
    let control = session.control();
    let write = |text: &str| {
        let at = control.noted.fetch_add(text.len() as u32, Relaxed) as usize;
        for (byte, to) in text.bytes().zip(control.notes.iter().skip(at)) {
            to.store(byte, Release);
        }
    };
    let read = || session.executed().into_iter().map(|one| (one.pid, one.how)).collect::<Vec<_>>();
    write("7 u /bin/true\n8 u /bin");
    assert_eq!(read(), [(7, How::Outside)]);
    write("/false\n7 f \n");
    assert_eq!(read(), [(8, How::Outside), (7, How::Failed)]);
    assert!(read().is_empty() && !session.lacks_notes());
    write(&"x".repeat(ring::PAGE_BYTES));
    assert!(read().is_empty() && session.lacks_notes());
}

/// As that of a process that has begun, in a file of its own.
fn spool(folder: &Path) -> Spool {
    let path = folder.join("spool");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    file.set_len(ring::ring_offset(ring::RING_MAX)).unwrap();
    let spool =
        Spool { path: Some(path), map: MmapRaw::map_raw(&file).unwrap(), tails: Vec::new() };
    spool.header().prepared.store(1, Release);
    spool
}

fn page_faults() -> i64 {
    // SAFETY: a structure of integers, which the call fills in.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_minflt
}

/// Thousands of threads may exist, and few of them record something.
#[test]
fn rings_that_no_thread_has_owned_are_not_touched() {
    const RINGS: u32 = 1000;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut spool = spool(folder.path());
    spool.prepare_rings(RINGS).unwrap();
    assert_eq!(spool.prepared(), RINGS);
    spool.entry(7).state.store(ring::RING_OWNED, Release);
    let before = page_faults();
    let used: Vec<u32> = spool.used_rings().collect();
    assert_eq!(used, [7]);
    let mut events = Vec::new();
    used.into_iter().for_each(|index| spool.read(index, true, &mut events));
    assert_eq!((events.len(), spool.stalls().count), (0, 0));
    spool.wake_all();
    let faults = page_faults() - before;
    assert!(faults < i64::from(RINGS) / 10, "{faults} page faults");
}
