//! The libraries and the peers inside the program: the crate `keel-lab`, which `cargo install`
//! installs without any other file than programs (docs/decisions/0070-packages.md).

use anyhow::{Context as _, Result};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// A file below the prefix: its path, whether it is a program, and its contents.
type Entry = (&'static str, bool, &'static [u8]);

// KEY names the contents. FILES is `&[Entry]`. packaging/lab/build.rs writes both.
include!(concat!(env!("OUT_DIR"), "/bundle.rs"));

/// Rust's programs, which Cargo installs beside `keel`.
const PROGRAMS: [&str; 2] = ["keel-player", "keel-workload"];

/// The prefix in the user's cache folder. The first call of each version writes it.
pub fn installed() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .context("there is no folder for keel's libraries: set HOME or XDG_CACHE_HOME")?
        .join("keel");
    let prefix = cache.join(KEY);
    let executable = std::env::current_exe().context("cannot find the path of the running keel")?;
    if !prefix.exists() {
        unpack(&cache, &prefix)
            .with_context(|| format!("cannot write keel's libraries to {}", prefix.display()))?;
    }
    for name in PROGRAMS {
        let link = prefix.join("lib/keel").join(name);
        let program = executable.with_file_name(name);
        if fs::read_link(&link).ok().as_deref() != Some(&program) {
            relink(&program, &link)
                .with_context(|| format!("cannot make the link {}", link.display()))?;
        }
    }
    Ok(prefix)
}

/// Writes the prefix beside its place and renames it, so that another process never finds a part.
fn unpack(cache: &Path, prefix: &Path) -> io::Result<()> {
    // Programs load these libraries: nobody else may write them.
    DirBuilder::new().recursive(true).mode(0o700).create(cache)?;
    let partial = cache.join(format!(".{KEY}-{}", std::process::id()));
    for (name, is_program, contents) in FILES {
        let path = partial.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&partial))?;
        fs::write(&path, contents)?;
        let mode = if *is_program { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    let renamed = fs::rename(&partial, prefix);
    if renamed.is_err() {
        fs::remove_dir_all(&partial)?;
    }
    // Another process may have been faster.
    if prefix.exists() { Ok(()) } else { renamed }
}

fn relink(program: &Path, link: &Path) -> io::Result<()> {
    let new = link.with_extension(std::process::id().to_string());
    symlink(program, &new)?;
    fs::rename(&new, link)
}
