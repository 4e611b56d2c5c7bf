//! Where the contents of a file go whose name the user gave.

use std::io;
use std::path::{Path, PathBuf};

/// Links that lead to other links; Linux follows as many.
const LINKS_MOST: usize = 40;

/// Where the contents of a file go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A regular file, or a new one: a complete file beside it gets this name. It is not a link, so
    /// that the new file replaces what a link names, and the link remains.
    File(PathBuf),
    /// A device, a FIFO, a socket, or an open file of a process (`/dev/stdout`). Another file must
    /// not get its name.
    Stream,
}

impl Destination {
    /// Finds out what the name denotes.
    ///
    /// # Errors
    /// It is a folder, or its links cannot be followed.
    pub fn of(path: &Path) -> io::Result<Destination> {
        // The system follows the links here, and refuses those of other users in folders like /tmp.
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"))
            }
            Ok(found) if !found.is_file() => Ok(Destination::Stream),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => followed(path),
        }
    }

    /// The file, where a stream cannot be written to.
    ///
    /// # Errors
    /// Those of [`Destination::of`], and it is a stream.
    pub fn file(path: &Path) -> io::Result<PathBuf> {
        match Destination::of(path)? {
            Destination::File(file) => Ok(file),
            Destination::Stream => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is a device, a FIFO or a socket, and a journal is a regular file",
            )),
        }
    }
}

fn followed(path: &Path) -> io::Result<Destination> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MOST {
        let Ok(link) = std::fs::read_link(&path) else { return Ok(Destination::File(path)) };
        let folder = path.parent().unwrap_or(Path::new(""));
        // The text of such a link need not be a name of the file.
        if Path::new(".").join(folder).canonicalize()?.starts_with("/proc") {
            return Ok(Destination::Stream);
        }
        path = folder.join(link);
    }
    Err(io::Error::other("too many links"))
}
