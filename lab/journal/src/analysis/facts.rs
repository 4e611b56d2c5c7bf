//! The facts of a journal: plain data. The names are the keys of `keel info --json`.

use serde::Serialize;

/// Everything that `keel info` reports about the rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Facts {
    /// Number of operations.
    pub operations: u64,
    /// Time from the start of the recording to the last operation, ns.
    pub duration_ns: u64,
    /// Count of each kind; kinds that do not occur have 0. Frees with different hints are different
    /// kinds.
    pub operations_by_kind: Vec<OperationCount>,
    /// Frees with a wrong hint: bugs in the program.
    pub wrong_frees: WrongFrees,
    /// Objects created.
    pub objects: u64,
    /// Requested bytes in total.
    pub allocated_bytes: u64,
    /// Releases (frees, and reallocs of a block) by a thread that did not create the object.
    pub cross_thread_releases: u64,
    /// All releases of known objects.
    pub releases: u64,
    /// The maximum of live bytes and objects.
    pub live_peak: LivePeak,
    /// Requested sizes.
    pub sizes: Sizes,
    /// Times from creation to release.
    pub lifetimes: Lifetimes,
    /// Objects that were never released.
    pub leaked: Leaked,
    /// Operations per second.
    pub rate: Rate,
    /// Frames, if there are marks.
    pub frames: Option<FrameFacts>,
    /// Threads, in order of their index.
    pub threads: Vec<ThreadFacts>,
}

/// How often one kind occurs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperationCount {
    /// `malloc`, `free`, ...; see [`crate::Op::name`], and for frees [`crate::FreeHint::name`].
    pub kind: &'static str,
    /// The number of such operations.
    pub count: u64,
}

/// Frees with a wrong hint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WrongFrees {
    /// How many.
    pub count: u64,
    /// The first.
    pub first: Option<WrongFree>,
}

/// A free with a wrong hint, and the request of its block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WrongFree {
    /// Its row, from 0.
    pub row: u64,
    /// The thread that freed.
    pub thread: u32,
    /// `free_sized`, `free_aligned` or `free_aligned_sized`.
    pub kind: &'static str,
    /// The size that the free passed, in bytes, if it passed one.
    pub hint_size: Option<u64>,
    /// The alignment that the free passed, in bytes, if it passed one.
    pub hint_align: Option<u64>,
    /// The requested size, bytes.
    pub size: u64,
    /// The requested alignment, bytes, if there was one.
    pub align: Option<u64>,
}

/// The maximum of live requested bytes, and the maximum number of live objects. The two maxima may
/// occur at different times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LivePeak {
    /// Bytes.
    pub bytes: u64,
    /// The time at which this number of bytes was first reached, ns since the start.
    pub bytes_at_ns: u64,
    /// Objects.
    pub objects: u64,
    /// The time at which this number of objects was first reached, ns since the start.
    pub objects_at_ns: u64,
}

/// Percentiles; all are 0 if `count` is 0. Values of 65536 and above are rounded up by at most 0.1
/// %, except `max`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// The greatest.
    pub max: u64,
}

/// Requested sizes of all operations that create an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizes {
    /// Percentiles in bytes.
    pub bytes: Distribution,
    /// Counts by powers of two, from the smallest size that occurs to the largest.
    pub histogram: Vec<SizeBucket>,
}

/// Sizes from `from` to `to`, both included: 0, 1, 2-3, 4-7, ...
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeBucket {
    /// Least size, bytes.
    pub from: u64,
    /// Greatest size, bytes.
    pub to: u64,
    /// Objects.
    pub count: u64,
    /// Their bytes in total.
    pub bytes: u64,
}

/// Lifetimes of the objects that were released.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lifetimes {
    /// In time, ns.
    pub ns: Distribution,
    /// Counted in operations of the whole program. It is 1 if the next operation released the
    /// object.
    pub operations: Distribution,
}

/// Objects that were live at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Leaked {
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Operations per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Mean over the whole duration; 0 if it is 0.
    pub mean: f64,
    /// Of the busiest second.
    pub peak: u64,
    /// The index of that second, counted from 0 at the start of the recording.
    pub peak_second: u64,
}

/// Frames between marks. Operations before the first mark and after the last are counted
/// separately.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameFacts {
    /// Number of marks.
    pub marks: u64,
    /// Operations in the frames between two marks.
    pub operations: Distribution,
    /// Length of these frames, ns.
    pub ns: Distribution,
    /// The frame with the most operations; frame n ends at mark n, counted from 0.
    pub busiest: u64,
    /// Operations before the first mark.
    pub operations_before: u64,
    /// Operations after the last mark.
    pub operations_after: u64,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadFacts {
    /// The kernel's id; 0 if unknown.
    pub id: u64,
    /// Its name; empty if unknown.
    pub name: String,
    /// Operations.
    pub operations: u64,
    /// Bytes that it requested.
    pub allocated_bytes: u64,
    /// Its releases of objects that another thread created.
    pub cross_thread_releases: u64,
    /// Its first operation, ns since the start.
    pub first_ns: u64,
    /// Its last operation, ns since the start.
    pub last_ns: u64,
}
