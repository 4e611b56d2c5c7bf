//! What is known about a journal once it has been read; plain data. The names are the keys of `keel info --json`.

use serde::Serialize;

/// Everything that `keel info` tells about the rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Facts {
    /// Number of operations.
    pub operations: u64,
    /// From the first operation to the last, ns.
    pub duration_ns: u64,
    /// Count of each kind; kinds that do not occur have 0. Frees are told apart by what they told beside the address.
    pub operations_by_kind: Vec<OperationCount>,
    /// Frees that told another size or alignment than their block was asked for with: faults of the program.
    pub wrong_frees: WrongFrees,
    /// Objects created.
    pub objects: u64,
    /// Bytes asked for in total.
    pub allocated_bytes: u64,
    /// Releases (frees, and reallocs of a block) by a thread other than the one that created the object.
    pub cross_thread_releases: u64,
    /// All releases of known objects.
    pub releases: u64,
    /// The largest live set.
    pub live_peak: LivePeak,
    /// Sizes asked for.
    pub sizes: Sizes,
    /// From creation to release.
    pub lifetimes: Lifetimes,
    /// What was never released.
    pub leaked: Leaked,
    /// Operations a second.
    pub rate: Rate,
    /// Frames, if there are marks.
    pub frames: Option<FrameFacts>,
    /// Threads, in order of their index.
    pub threads: Vec<ThreadFacts>,
}

/// How often one kind occurs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperationCount {
    /// `malloc`, `free`, ...; see [`keel_journal::Op::name`], and for frees [`keel_journal::Told::name`].
    pub kind: &'static str,
    /// How often.
    pub count: u64,
}

/// Frees that told their allocator something wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WrongFrees {
    /// How many.
    pub count: u64,
    /// The first.
    pub first: Option<WrongFree>,
}

/// What a free told, and what its block was asked for with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WrongFree {
    /// Its row, from 0.
    pub row: u64,
    /// The thread that freed.
    pub thread: u32,
    /// `free_sized`, `free_aligned` or `free_aligned_sized`.
    pub kind: &'static str,
    /// The size that it told, bytes, if it told one.
    pub told_size: Option<u64>,
    /// The alignment that it told, bytes, if it told one.
    pub told_align: Option<u64>,
    /// The size asked for, bytes.
    pub size: u64,
    /// The alignment asked for, bytes, if there was one.
    pub align: Option<u64>,
}

/// The largest live set, by bytes asked for and by objects; the two need not fall together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LivePeak {
    /// Bytes.
    pub bytes: u64,
    /// When the bytes were reached first, ns since the start.
    pub bytes_at_ns: u64,
    /// Objects.
    pub objects: u64,
    /// When the objects were reached first, ns since the start.
    pub objects_at_ns: u64,
}

/// Percentiles; of `count` 0 all are 0. Values of 65536 and above are rounded up by at most 0.1 %, but for `max`.
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

/// Sizes asked for by all operations that create an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizes {
    /// Percentiles in bytes.
    pub bytes: Distribution,
    /// By powers of two, from the least to the greatest that occurs.
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

/// How long the objects lived that were released.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lifetimes {
    /// In time, ns.
    pub ns: Distribution,
    /// In operations of the whole program; 1 when the very next operation released the object.
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

/// Operations a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Over the whole duration; 0 where all operations have one time.
    pub mean: f64,
    /// Of the second with the most.
    pub peak: u64,
    /// Which second that is, counted from 0 at the start of the recording.
    pub peak_second: u64,
}

/// Frames between marks. What lies before the first mark and after the last is counted apart.
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
    /// Bytes it asked for.
    pub allocated_bytes: u64,
    /// Its releases of objects that another thread created.
    pub cross_thread_releases: u64,
    /// Its first operation, ns since the start.
    pub first_ns: u64,
    /// Its last operation, ns since the start.
    pub last_ns: u64,
}
