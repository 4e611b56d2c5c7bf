//! What is counted.

use serde::Serialize;

/// A count of the operations of a scope, or of the blocks that they allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Allocations and frees together.
    Operations,
    /// Calls that return a block; a realloc is one of them.
    Allocations,
    /// Calls that only release a block.
    Frees,
    /// Requested bytes.
    Bytes,
    /// The most live bytes of the blocks that the scope allocates.
    LivePeak,
    /// The largest requested block, bytes.
    Largest,
    /// Bytes of the scope's blocks that are live at the end of the recording.
    NeverFreed,
}

/// All metrics, in the order of the budget file.
pub const METRICS: [Metric; 7] = [
    Metric::Operations,
    Metric::Allocations,
    Metric::Frees,
    Metric::Bytes,
    Metric::LivePeak,
    Metric::Largest,
    Metric::NeverFreed,
];

impl Metric {
    /// The name in the budget file and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Operations => "operations",
            Metric::Allocations => "allocations",
            Metric::Frees => "frees",
            Metric::Bytes => "bytes",
            Metric::LivePeak => "live_peak",
            Metric::Largest => "largest",
            Metric::NeverFreed => "never_freed",
        }
    }

    /// The name in messages.
    pub const fn title(self) -> &'static str {
        match self {
            Metric::LivePeak => "live peak",
            Metric::Largest => "largest block",
            Metric::NeverFreed => "never freed",
            other => other.name(),
        }
    }

    /// Whether it is a number of bytes, not of calls.
    pub const fn is_bytes(self) -> bool {
        !matches!(self, Metric::Operations | Metric::Allocations | Metric::Frees)
    }
}
