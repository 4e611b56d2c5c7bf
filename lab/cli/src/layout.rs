//! Where the installed parts lie: all paths follow from that of the `keel` executable, `<prefix>/bin/keel`.

use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

/// The folders of an installation or of `build/`.
pub struct Layout {
    prefix: PathBuf,
}

impl Layout {
    /// From the running executable, or from `KEEL_PREFIX` where that is set.
    pub fn discover() -> Result<Layout> {
        if let Some(prefix) = std::env::var_os("KEEL_PREFIX") {
            return Ok(Layout { prefix: prefix.into() });
        }
        let executable = std::env::current_exe().context("cannot find the path of the running keel")?;
        let executable = executable.canonicalize().unwrap_or(executable);
        let prefix = executable.parent().and_then(Path::parent).context("keel lies in no bin/ folder")?;
        Ok(Layout { prefix: prefix.to_path_buf() })
    }

    /// `lib/`: `libkeel.so`, `libkeel_recorder.so`.
    #[allow(dead_code, reason = "for `keel record`")]
    pub fn library(&self, name: &str) -> Result<PathBuf> {
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
