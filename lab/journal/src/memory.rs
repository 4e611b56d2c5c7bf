//! The memory of the recorded process, and what else limits a replay of its allocations.

use serde::{Deserialize, Serialize};

/// The memory of the process while it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Sorted by time.
    pub samples: Vec<MemorySample>,
    /// Calls of mmap by the program itself, not by its allocator, for writable memory without a
    /// file.
    pub mapped_calls: u64,
    /// The sum of their bytes.
    pub mapped_bytes: u64,
}

/// A look at the process: `[time, anonymous, resident]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64)", into = "(u64, u64, u64)")]
pub struct MemorySample {
    /// ns since the start.
    pub time: u64,
    /// Resident bytes that are not of a file and not shared.
    pub anonymous: u64,
    /// All resident bytes.
    pub resident: u64,
}

impl From<(u64, u64, u64)> for MemorySample {
    fn from((time, anonymous, resident): (u64, u64, u64)) -> MemorySample {
        MemorySample { time, anonymous, resident }
    }
}

impl From<MemorySample> for (u64, u64, u64) {
    fn from(sample: MemorySample) -> (u64, u64, u64) {
        (sample.time, sample.anonymous, sample.resident)
    }
}

impl Memory {
    /// Returns true if nothing was measured.
    pub fn is_empty(&self) -> bool {
        *self == Memory::default()
    }

    /// The sample with the most anonymous memory.
    pub fn peak(&self) -> Option<MemorySample> {
        self.samples.iter().copied().max_by_key(|sample| sample.anonymous)
    }
}

/// An allocator in the recorded process besides [`crate::Metadata::allocator`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OtherAllocator {
    /// Its name; empty if it is only known by its object file.
    pub name: String,
    /// The object file.
    pub path: String,
    /// Whether it answers recorded calls: it defines some of malloc's family, such as
    /// `aligned_alloc`, or functions of its own that the recorder knows. Otherwise the calls of its
    /// functions are not in the journal.
    pub recorded: bool,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn the_peak_is_that_of_the_anonymous_memory() {
        let samples = [(5, 100, 900), (7, 300, 400), (9, 200, 800)].map(MemorySample::from);
        let memory = Memory { samples: samples.to_vec(), ..Memory::default() };
        assert_eq!(memory.peak(), Some(samples[1]));
        let text = serde_json::to_string(&memory).unwrap();
        assert!(text.contains("[7,300,400]"), "{text}");
        assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), memory);
        assert_eq!(Memory::default().peak(), None);
    }
}
