//! `pinned.json`: the memory that live blocks keep resident, by call stack, on each allocator.
//! `keel blame --pinned --save` adds it to a result folder.

use crate::FolderError;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// File name in a result folder.
pub const PINNED_FILE: &str = "pinned.json";

/// The resident memory of allocators at one moment of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pinned {
    /// `peak` or `end`.
    pub moment: String,
    /// One entry for each allocator.
    pub allocators: Vec<PinnedMemory>,
}

/// The resident memory of an allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PinnedMemory {
    /// The allocator.
    pub name: String,
    /// Requested bytes of live blocks.
    pub live: u64,
    /// Other bytes that live blocks keep resident.
    pub pinned: u64,
    /// Bytes that no block keeps.
    pub free: u64,
    /// All resident bytes, as the kernel sums them up.
    pub kernel: u64,
    /// Stack, pinned bytes, live bytes. The stack is a node of `stacks.json`, or `u32::MAX`.
    pub stacks: Vec<(u32, u64, u64)>,
}

impl Pinned {
    /// Reads the file of a result folder; None if the folder has none.
    ///
    /// # Errors
    /// The file cannot be read, or has another form.
    pub fn load(folder: &Path) -> Result<Option<Pinned>, FolderError> {
        let path = folder.join(PINNED_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path)
            .map_err(|cause| FolderError::Io { path: path.clone(), cause })?;
        let found = serde_json::from_str(&text);
        found.map(Some).map_err(|error| FolderError::Malformed { path, detail: error.to_string() })
    }

    /// Writes the file into a result folder that exists.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), FolderError> {
        let path = folder.join(PINNED_FILE);
        let text = serde_json::to_string(self).map_err(|error| FolderError::Malformed {
            path: path.clone(),
            detail: error.to_string(),
        })?;
        std::fs::write(&path, text).map_err(|cause| FolderError::Io { path, cause })
    }
}
