//! Data to standard output, messages to standard error, and files that are written whole or not at
//! all.

use crate::format::printable;
use anyhow::{Context as _, Result};
use keel_journal::Destination;
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
pub use linux::{free_bytes, state};
#[cfg(target_os = "linux")]
mod linux;

/// Prints a line on stderr; the arguments are those of `format!`.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

/// Prints a line on stderr. If nobody can read it (the terminal was closed, the disk of the log is
/// full), the line is lost and nothing else: `eprintln!` would panic, and clippy forbids it.
pub fn line(text: fmt::Arguments<'_>) {
    let text = printable(&format!("{text}\n"));
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints data. A reader that is gone (`keel info ... | head`, a closed terminal) is not an error;
/// with `println!` it would be a panic.
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if is_reader_gone(&error) => Ok(()),
        result => result,
    }
}

/// Prints a text for people, in which names may contain what a terminal obeys.
pub fn print_text(text: &str) -> io::Result<()> {
    print(&printable(text))
}

fn is_reader_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe || is_terminal_gone(error)
}

/// A terminal that was closed returns EIO, as a broken disk does.
#[cfg(unix)]
fn is_terminal_gone(error: &io::Error) -> bool {
    use std::os::{fd::AsFd as _, unix::fs::FileTypeExt as _};
    let is_terminal = || {
        let stdout = io::stdout().as_fd().try_clone_to_owned().map(File::from);
        let kind = stdout.and_then(|stdout| stdout.metadata()).map(|of| of.file_type());
        kind.is_ok_and(|kind| kind.is_char_device())
    };
    error.raw_os_error() == Some(libc::EIO) && is_terminal()
}

/// Windows has no such error.
#[cfg(not(unix))]
fn is_terminal_gone(_: &io::Error) -> bool {
    false
}

/// Prints a value as indented JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))?;
    Ok(())
}

/// Writes a file as [`WholeFile`].
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<()> {
    let written = WholeFile::create(path)
        .and_then(|mut file| file.write_all(contents).and_then(|()| file.finish()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// A temporary file beside its destination, so that an error, such as a full disk, never leaves
/// half a file there. Devices and FIFOs are written to directly.
pub struct WholeFile {
    file: File,
    /// The temporary file and its destination, until it has that name.
    names: Option<(PathBuf, PathBuf)>,
}

impl WholeFile {
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        let Destination::File(target) = Destination::of(path)? else {
            return Ok(WholeFile { file: File::options().append(true).open(path)?, names: None });
        };
        let Some(name) = target.file_name() else { return Err(io::ErrorKind::NotFound.into()) };
        let mut partial = name.to_os_string();
        partial.push(".part");
        let partial = target.with_file_name(partial);
        // What a killed keel left here is of no use. A link with this name is not followed.
        let _ = std::fs::remove_file(&partial);
        Ok(WholeFile { file: File::create_new(&partial)?, names: Some((partial, target)) })
    }

    /// Gives the complete file its name.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some((partial, target)) = &self.names {
            std::fs::rename(partial, target)?;
        }
        self.names = None;
        Ok(())
    }
}

impl io::Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.names {
            let _ = std::fs::remove_file(partial);
        }
    }
}

/// The folders `stem`, `stem-2`, `stem-3` ...: the first that does not exist.
pub fn free_folder(stem: &str) -> Result<PathBuf> {
    let numbered = (1..).map(|number| match number {
        1 => stem.to_owned(),
        _ => format!("{stem}-{number}"),
    });
    let mut free = numbered.map(PathBuf::from).filter(|folder| !folder.exists());
    free.next().context("every folder name is taken")
}

/// Whether it exists and is not an empty folder.
pub fn is_occupied(folder: &Path) -> bool {
    folder.is_file() || std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}
