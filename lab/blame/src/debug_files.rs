//! Finds the object file of a module, and the file that has its debug information.
//!
//! Only local files are used. Debug information is in the object file itself, in a file named after
//! the build id (packages of distributions, the cache of debuginfod), or in the file that the
//! object file names (`.gnu_debuglink`).

use keel_journal::Module;
use object::{Object as _, ObjectSection as _};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The folders that are searched for separate files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugFolders {
    /// Folders of debug files, such as `/usr/lib/debug`.
    pub debug: Vec<PathBuf>,
    /// Caches of debuginfod clients, such as `~/.cache/debuginfod_client`.
    pub debuginfod: Vec<PathBuf>,
}

/// What is known about a module's names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ModuleState {
    /// Functions and lines, from this file.
    Lines {
        /// The file with the debug information.
        file: PathBuf,
    },
    /// Functions of the symbol table only: there is no debug information.
    Functions,
    /// There is no object file at the recorded path.
    Missing,
    /// The object file is another one than at the time of the recording.
    Changed {
        /// The build id of the file that is there now; empty if it has none.
        found: String,
    },
    /// The file is not a readable object file.
    Unreadable {
        /// The reader's message.
        detail: String,
    },
}

/// The files of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// The object file, from which the program ran.
    pub object: PathBuf,
    /// The file with debug information; None if no file has any.
    pub debug: Option<PathBuf>,
    /// A file to which the debug information refers for parts that it shares with other files.
    pub supplement: Option<PathBuf>,
}

impl DebugFolders {
    /// Finds the files of a module, or the reason why they cannot be used.
    pub(crate) fn find(&self, module: &Module) -> Result<Files, ModuleState> {
        // The kernel marks a file that was replaced while the program ran.
        let recorded = module.path.strip_suffix(" (deleted)").unwrap_or(&module.path);
        let object = match check(Path::new(recorded), &module.build_id) {
            Ok(()) => PathBuf::from(recorded),
            Err(reason) => self.cached_object(&module.build_id).ok_or(reason)?,
        };
        let debug = self.debug_file(&object, &module.build_id);
        let supplement = debug.as_deref().and_then(|file| self.supplement(file));
        Ok(Files { object, debug, supplement })
    }

    /// The executable of this build id in the cache of a debuginfod client.
    fn cached_object(&self, build_id: &str) -> Option<PathBuf> {
        let mut paths = self.debuginfod.iter().map(|cache| cache.join(build_id).join("executable"));
        paths.find(|path| !build_id.is_empty() && check(path, build_id).is_ok())
    }

    fn debug_file(&self, object: &Path, build_id: &str) -> Option<PathBuf> {
        if has_debug_information(object) {
            return Some(object.to_path_buf());
        }
        let named = self.named_after(build_id).into_iter();
        named.chain(linked(object, &self.debug)).find(|path| {
            has_debug_information(path) && (build_id.is_empty() || build_id_of(path) == build_id)
        })
    }

    /// The places of debug files with this build id.
    fn named_after(&self, build_id: &str) -> Vec<PathBuf> {
        let Some((first, rest)) = build_id.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())
        else {
            return Vec::new();
        };
        let installed =
            self.debug.iter().map(|folder| folder.join(format!(".build-id/{first}/{rest}.debug")));
        let cached = self.debuginfod.iter().map(|cache| cache.join(build_id).join("debuginfo"));
        installed.chain(cached).collect()
    }

    fn supplement(&self, file: &Path) -> Option<PathBuf> {
        let bytes = std::fs::read(file).ok()?;
        let object = object::File::parse(&*bytes).ok()?;
        let (name, build_id) = object.gnu_debugaltlink().ok()??;
        let id = hexadecimal(build_id);
        let relative = file.parent()?.join(Path::new(std::str::from_utf8(name).ok()?));
        let mut places = std::iter::once(relative).chain(self.named_after(&id));
        places.find(|path| build_id_of(path) == id)
    }
}

/// The places of the debug file that the object file names, if its checksum is correct.
fn linked(object: &Path, folders: &[PathBuf]) -> Option<PathBuf> {
    let bytes = std::fs::read(object).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let (name, checksum) = file.gnu_debuglink().ok()??;
    let name = std::str::from_utf8(name).ok()?;
    let folder = object.parent()?;
    let below = folder.strip_prefix("/").unwrap_or(folder);
    let beside = [folder.join(name), folder.join(".debug").join(name)].into_iter();
    let mut places = beside.chain(folders.iter().map(|debug| debug.join(below).join(name)));
    places.find(|path| std::fs::read(path).is_ok_and(|bytes| crc32fast::hash(&bytes) == checksum))
}

/// Checks that this file is the recorded one. A recording without build id is not checked.
fn check(path: &Path, build_id: &str) -> Result<(), ModuleState> {
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ModuleState::Missing,
        _ => ModuleState::Unreadable { detail: error.to_string() },
    })?;
    let object = object::File::parse(&*bytes)
        .map_err(|error| ModuleState::Unreadable { detail: error.to_string() })?;
    let found = object.build_id().ok().flatten().map(hexadecimal).unwrap_or_default();
    if build_id.is_empty() || found == build_id {
        return Ok(());
    }
    Err(ModuleState::Changed { found })
}

fn has_debug_information(path: &Path) -> bool {
    let Ok(bytes) = std::fs::read(path) else { return false };
    let Ok(object) = object::File::parse(&*bytes) else { return false };
    [".debug_info", ".zdebug_info"]
        .iter()
        .filter_map(|name| object.section_by_name(name))
        .any(|section| section.size() > 0)
}

fn build_id_of(path: &Path) -> String {
    let Ok(bytes) = std::fs::read(path) else { return String::new() };
    let Ok(object) = object::File::parse(&*bytes) else { return String::new() };
    object.build_id().ok().flatten().map(hexadecimal).unwrap_or_default()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
