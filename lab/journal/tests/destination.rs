//! An output replaces neither links nor what is no regular file.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use keel_journal::{Destination, Error, Event, Metadata, Op, Writer};
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::Path;

fn write(path: &Path) -> keel_journal::Result<()> {
    let mut writer = Writer::create(path)?;
    writer.push(&Event { created: 1, ..Event::at(0, Op::Malloc) })?;
    writer.finish(Metadata::default()).map(|_| ())
}

#[test]
fn a_link_remains_and_what_it_names_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name);
    std::fs::create_dir(name("far")).unwrap();
    std::fs::write(name("far/old"), "old").unwrap();
    symlink("far/second", name("first")).unwrap();
    symlink("old", name("far/second")).unwrap();
    symlink("far/new", name("dangling")).unwrap();
    for (link, file) in [("first", "far/old"), ("dangling", "far/new")] {
        assert_eq!(Destination::of(&name(link)).unwrap(), Destination::File(name(file)));
        write(&name(link)).unwrap();
        assert!(name(link).is_symlink() && !name(file).is_symlink());
        assert!(std::fs::read(name(file)).unwrap().starts_with(b"PAR1"));
    }
    symlink("loop", name("loop")).unwrap();
    assert!(matches!(write(&name("loop")), Err(Error::Create { .. })));
    assert!(name("loop").is_symlink());
    assert_eq!(std::fs::read_dir(name("far")).unwrap().count(), 3);
}

#[test]
fn what_is_no_regular_file_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = write(&socket).unwrap_err().to_string();
    assert!(error.contains("socket: it is a device, a FIFO or a socket"), "{error}");
    assert!(std::fs::metadata(&socket).unwrap().file_type().is_socket());
    let error = write(folder.path()).unwrap_err().to_string();
    assert!(error.contains("it is a folder; choose another place"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let own = Path::new("/proc/self/fd/0");
    assert!(own.exists() && Destination::of(own).unwrap() == Destination::Stream);
}
