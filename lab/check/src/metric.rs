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
    /// Operations that take a page fault in a replay.
    Faulting,
    /// Operations that make a system call in a replay.
    SystemCalls,
}

/// All metrics, in the order of the budget file.
pub const METRICS: [Metric; 9] = [
    Metric::Operations,
    Metric::Allocations,
    Metric::Frees,
    Metric::Bytes,
    Metric::LivePeak,
    Metric::Largest,
    Metric::NeverFreed,
    Metric::Faulting,
    Metric::SystemCalls,
];

/// Metrics that the journal shows by itself, the first of [`METRICS`].
pub const RECORDED: [Metric; 7] = {
    let [recorded @ .., Metric::Faulting, Metric::SystemCalls] = METRICS else {
        panic!("the metrics of a replay are the last ones")
    };
    recorded
};

/// What the kernel did for an operation in a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// It took page faults.
    pub faulted: bool,
    /// It made system calls.
    pub called: bool,
}

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
            Metric::Faulting => "with_page_faults",
            Metric::SystemCalls => "with_system_calls",
        }
    }

    /// Whether it is counted in a replay.
    pub const fn is_replayed(self) -> bool {
        matches!(self, Metric::Faulting | Metric::SystemCalls)
    }

    /// The name in messages.
    pub const fn title(self) -> &'static str {
        match self {
            Metric::LivePeak => "live peak",
            Metric::Largest => "largest block",
            Metric::NeverFreed => "never freed",
            Metric::Faulting => "operations with page faults",
            Metric::SystemCalls => "operations with system calls",
            other => other.name(),
        }
    }

    /// Whether it is a number of bytes, not of calls.
    pub const fn is_bytes(self) -> bool {
        matches!(self, Metric::Bytes | Metric::LivePeak | Metric::Largest | Metric::NeverFreed)
    }
}
