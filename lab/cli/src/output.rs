//! Data to standard output, and files that are written whole or not at all.

use anyhow::{Context as _, Result};
use std::io::Write as _;
use std::path::Path;

/// Prints data. A closed pipe (`keel info ... | head`) is not an error; with `println!` it would be
/// a panic.
pub fn print(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints a value as indented JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))?;
    Ok(())
}

/// Writes a temporary file beside `path` and renames it, so that a full disk never leaves half a
/// file under this name.
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<()> {
    let name = path
        .file_name()
        .with_context(|| format!("{} is not the name of a file", path.display()))?;
    let mut partial = name.to_os_string();
    partial.push(".part");
    let partial = path.with_file_name(partial);
    // What a killed keel left here is of no use. A link with this name is not followed.
    let _ = std::fs::remove_file(&partial);
    let written = std::fs::File::create_new(&partial)
        .and_then(|mut file| file.write_all(contents))
        .and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// The folders `stem`, `stem-2`, `stem-3` ...: the first that does not exist.
pub fn free_folder(stem: &str) -> Result<std::path::PathBuf> {
    let numbered = (1..).map(|number| match number {
        1 => stem.to_owned(),
        _ => format!("{stem}-{number}"),
    });
    let mut free = numbered.map(std::path::PathBuf::from).filter(|folder| !folder.exists());
    free.next().context("every folder name is taken")
}

/// Whether it exists and is not an empty folder.
pub fn is_occupied(folder: &Path) -> bool {
    folder.is_file() || std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}
