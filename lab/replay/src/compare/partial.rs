//! The result folder until it is complete.

use crate::Error;
use std::path::{Path, PathBuf};

/// A result folder that is not yet complete; removed when dropped.
pub struct Partial {
    /// The folder that is written.
    pub path: PathBuf,
    target: PathBuf,
    finished: bool,
}

impl Partial {
    pub fn create(target: &Path) -> Result<Partial, Error> {
        let mut path = target.as_os_str().to_owned();
        path.push(format!(".partial-{}", std::process::id()));
        let path = PathBuf::from(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
        }
        // A folder or a link that somebody else made with this name is not written into.
        std::fs::create_dir(&path).map_err(Error::io(&path))?;
        Ok(Partial { path, target: target.to_path_buf(), finished: false })
    }

    pub fn finish(mut self) -> Result<(), Error> {
        // Replaces an empty folder, but not one with contents.
        std::fs::rename(&self.path, &self.target).map_err(Error::io(&self.target))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            // The caller reports another error already.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn a_link_with_the_temporary_name_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, target) = (folder.path().join("victim"), folder.path().join("results"));
        std::fs::create_dir(&victim).unwrap();
        let name = format!("results.partial-{}", std::process::id());
        std::os::unix::fs::symlink(&victim, folder.path().join(name)).unwrap();
        assert!(Partial::create(&target).is_err());
        assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);
        assert!(!target.exists());
    }
}
