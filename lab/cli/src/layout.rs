//! The folders of the installation, derived from the path of the `keel` executable,
//! `<prefix>/bin/keel`.

#[cfg(feature = "bundled")]
use crate::bundle::installed;
#[cfg(not(feature = "bundled"))]
use anyhow::Context as _;
use anyhow::{Result, bail};
#[cfg(not(feature = "bundled"))]
use std::path::Path;
use std::path::PathBuf;

/// The folders of an installation or of `build/`.
pub struct Layout {
    prefix: PathBuf,
}

impl Layout {
    /// From `KEEL_PREFIX` if it is set, else from the path of the running executable.
    pub fn discover() -> Result<Layout> {
        if let Some(prefix) = std::env::var_os("KEEL_PREFIX") {
            return Ok(Layout { prefix: prefix.into() });
        }
        Ok(Layout { prefix: installed()? })
    }

    /// `lib/`: `libkeel.so`, `libkeel_recorder.so`.
    pub fn shared_library(&self, name: &str) -> Result<PathBuf> {
        self.existing(self.prefix.join("lib").join(name))
    }

    /// `lib/keel/`: the player and the peers.
    pub fn private(&self, name: &str) -> Result<PathBuf> {
        self.existing(self.prefix.join("lib/keel").join(name))
    }

    /// A folder of the installation; it need not exist.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.prefix.join(name)
    }

    fn existing(&self, path: PathBuf) -> Result<PathBuf> {
        if !path.exists() {
            bail!(
                "{} is missing: build it with `make build`, or set KEEL_PREFIX to an installation",
                path.display()
            );
        }
        Ok(path)
    }
}

/// The prefix above the running executable.
#[cfg(not(feature = "bundled"))]
fn installed() -> Result<PathBuf> {
    let executable = std::env::current_exe().context("cannot find the path of the running keel")?;
    let executable = executable.canonicalize().unwrap_or(executable);
    let prefix = executable
        .parent()
        .and_then(Path::parent)
        .context("the keel executable is not in a bin/ folder")?;
    Ok(prefix.to_path_buf())
}
