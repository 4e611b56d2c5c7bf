//! What a journal knows beside its rows; stored as JSON under the key `keel.journal` of the Parquet footer.

use serde::{Deserialize, Serialize};

/// The version of the journal format that this crate writes.
pub const FORMAT_VERSION: u32 = 1;

/// Everything about a recording that is not an operation. Readers ignore unknown fields, so later versions may add.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Format version, [`FORMAT_VERSION`].
    pub version: u32,
    /// Who wrote the file: `keel record 0.1.0`, `keel import (doom3) 0.1.0`.
    pub writer: String,
    /// The program's path; empty if unknown.
    pub program: String,
    /// Its arguments, without the program itself.
    pub arguments: Vec<String>,
    /// Its process id; 0 if unknown.
    pub pid: u32,
    /// Wall-clock start of the recording, RFC 3339; empty if unknown.
    pub started: String,
    /// Host name, kernel, CPU model; empty if unknown.
    pub host: String,
    /// See `host`.
    pub kernel: String,
    /// See `host`.
    pub cpu: String,
    /// The allocator that served the program, as far as known.
    pub allocator: String,
    /// The recording's clock: `tsc`, `clock_monotonic`, `text` for imports, or `order` where a trace had no times.
    pub clock: String,
    /// Its ticks per second; 1e9 for nanosecond clocks.
    pub clock_hz: f64,
    /// One entry for each thread, in order of `Event::thread`.
    pub threads: Vec<Thread>,
    /// Times of the frame marks, ns since the start, sorted.
    pub frames: Vec<u64>,
    /// Named marks the program made.
    pub marks: Vec<Mark>,
    /// Operations lost. Always 0 in a journal that Keel recorded; an import may say otherwise.
    pub drops: u64,
    /// How often a thread had to wait for room in its ring, and for how long in total.
    pub stalls: u64,
    /// See `stalls`, ns.
    pub stalled_ns: u64,
    /// Frees and reallocs of blocks whose birth was not seen.
    pub foreign: u64,
    /// The first so many rows are no operations of the recorded span: they stand for the blocks that lived when it
    /// began.
    #[serde(skip_serializing_if = "is_zero")]
    pub prologue: u64,
    /// The object files that operations were called from, in order of `Origin::module`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<Module>,
    /// The call sites, if they were recorded.
    #[serde(skip_serializing_if = "Stacks::is_empty")]
    pub stacks: Stacks,
    /// How the program ended: `exit 0`, `signal 9`, `still running`; empty if unknown.
    pub ended: String,
    /// What `--repair` or the recorder had to mend, by kind.
    pub repairs: std::collections::BTreeMap<String, u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An object file in the recorded program: itself or a shared library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// Its path, as the kernel told it.
    pub path: String,
    /// Its build id in hexadecimal digits, by which debuggers find its symbols; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub build_id: String,
}

/// Call stacks as a tree: each node is one call, and its parent the call around it. Rows name their innermost call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stacks {
    /// Return addresses: `[index into modules, offset in the module's file]`; module -1 for code of no file.
    pub sites: Vec<(i64, u64)>,
    /// The calls: `[index of the parent or -1, index into sites]`. A parent comes before its children.
    pub nodes: Vec<(i64, u32)>,
}

impl Stacks {
    /// Whether no call site was recorded.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The sites of a stack, innermost first. Ends at a node that is damaged.
    pub fn walk(&self, stack: u32) -> impl Iterator<Item = (i64, u64)> + '_ {
        let mut next = i64::from(stack);
        std::iter::from_fn(move || {
            let index = usize::try_from(next).ok()?;
            let (parent, site) = *self.nodes.get(index)?;
            // A parent comes first, so this ends even when the numbers are nonsense.
            next = if parent < next { parent } else { -1 };
            self.sites.get(site as usize).copied()
        })
    }
}

/// A thread of the recorded program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// The kernel's thread id in the recorded program; 0 if unknown.
    pub id: u64,
    /// Its name; empty if unknown.
    pub name: String,
}

/// A named moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    /// ns since the start.
    pub time: u64,
    /// Index of the thread that made it.
    pub thread: u32,
    /// What it said.
    pub text: String,
}
