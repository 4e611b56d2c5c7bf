//! The metadata of a journal. It is stored as JSON under the key `keel.journal` of the Parquet
//! footer.

use crate::caches::Caches;
use crate::memory::{Memory, OtherAllocator};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The latest version of the journal format. A journal of samples has it, so that older readers do
/// not take it for a whole one; all others have version 1.
pub const FORMAT_VERSION: u32 = 2;
const WHOLE_VERSION: u32 = 1;

/// All information about a recording except the operations. Readers ignore unknown fields, so later
/// versions may add fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Format version, at most [`FORMAT_VERSION`].
    pub version: u32,
    /// The program that wrote the file: `keel record 0.1.0`, `keel import (doom3) 0.1.0`.
    pub writer: String,
    /// The program's path; empty if unknown.
    pub program: String,
    /// The program's arguments, without the program itself.
    pub arguments: Vec<String>,
    /// The program's process id; 0 if unknown.
    pub pid: u32,
    /// Wall-clock start of the recording, RFC 3339; empty if unknown.
    pub started: String,
    /// Host name, kernel, CPU model; empty if unknown.
    pub host: String,
    /// See `host`.
    pub kernel: String,
    /// See `host`.
    pub cpu: String,
    /// The program's allocator, if it is known.
    pub allocator: String,
    /// The environment variables that configured it and other allocators.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Other allocators in the process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_allocators: Vec<OtherAllocator>,
    /// The recording's clock: `tsc`, `clock_monotonic`, `text` for imports, or `order` if a trace
    /// had no times.
    pub clock: String,
    /// The clock's ticks per second; 1e9 for nanosecond clocks.
    pub clock_hz: f64,
    /// One entry for each thread, in order of `Event::thread`.
    pub threads: Vec<Thread>,
    /// Times of the frame marks, ns since the start, sorted.
    pub frames: Vec<u64>,
    /// Named marks of the program.
    pub marks: Vec<Mark>,
    /// Number of lost operations. It is always 0 in a journal that Keel recorded. An import may
    /// have lost some.
    pub drops: u64,
    /// Number of times that a thread had to wait for space in its ring.
    pub stalls: u64,
    /// The total time of these waits, ns.
    pub stalled_ns: u64,
    /// Number of frees and reallocs of blocks whose allocation was not recorded.
    pub foreign: u64,
    /// Number of rows at the beginning that allocate the blocks that were live when the recording
    /// began. They are not operations of the recorded time.
    #[serde(skip_serializing_if = "is_zero")]
    pub prologue: u64,
    /// If the rows are samples, their mean distance in allocated bytes; 0 if they are all
    /// operations. See [`crate::Sampling`].
    #[serde(skip_serializing_if = "is_zero")]
    pub sample_bytes: u64,
    /// The object files from which operations were called, in order of `Origin::module`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<Module>,
    /// The call sites, if they were recorded.
    #[serde(skip_serializing_if = "Stacks::is_empty")]
    pub stacks: Stacks,
    /// What the program evicted from the caches between two operations, if it was measured.
    #[serde(skip_serializing_if = "Caches::is_empty")]
    pub caches: Caches,
    /// The memory of the process, if it was measured.
    #[serde(skip_serializing_if = "Memory::is_empty")]
    pub memory: Memory,
    /// How the program ended: `exit 0`, `signal 9`, `still running`, `exec PROGRAM`; empty if
    /// unknown.
    pub ended: String,
    /// The event that made the recorder write the journal; empty if there was none, because the
    /// program was recorded from its start.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// The repairs that `--repair` or the recorder made, by kind.
    pub repairs: BTreeMap<String, u64>,
}

impl Metadata {
    /// The format version of a journal with this metadata.
    pub(crate) fn format_version(&self) -> u32 {
        if self.sample_bytes == 0 { WHOLE_VERSION } else { FORMAT_VERSION }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero_32(number: &u32) -> bool {
    *number == 0
}

/// An object file of the recorded program: the executable or a shared library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// The file's path, as reported by the kernel.
    pub path: String,
    /// The file's build id in hexadecimal, with which debuggers find the symbols; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub build_id: String,
}

/// Call stacks as a tree. Each node is one call, and its parent is the call that contains it. A row
/// refers to its innermost call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stacks {
    /// Return addresses: `[index into modules, offset in the module's file]`. The module is -1 for
    /// code that is in no file.
    pub sites: Vec<(i64, u64)>,
    /// The calls: `[index of the parent or -1, index into sites]`. A parent comes before its
    /// children.
    pub nodes: Vec<(i64, u32)>,
    /// The names of sites whose functions cannot be looked up in an object file: those of
    /// interpreters and just-in-time compilers, and those of imported traces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NamedCall>,
}

/// A call at a site, by name. A site has several if functions were inlined into each other: then
/// the innermost is first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedCall {
    /// Index into [`Stacks::sites`]. Does not decrease from entry to entry.
    pub site: u32,
    /// The function's name; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// Path of the source file; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// Line in the source file; 0 if unknown.
    #[serde(skip_serializing_if = "is_zero_32")]
    pub line: u32,
    /// Index into the modules; None for code that is in no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<u32>,
}

impl Stacks {
    /// Returns true if no call site was recorded.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the sites of a stack, innermost first. The iteration ends at a damaged node.
    pub fn walk(&self, stack: u32) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.walk_indices(stack).filter_map(|site| self.sites.get(site as usize).copied())
    }

    /// As [`Stacks::walk`], but returns indices into [`Stacks::sites`].
    pub fn walk_indices(&self, stack: u32) -> impl Iterator<Item = u32> + '_ {
        let mut next = i64::from(stack);
        std::iter::from_fn(move || {
            let index = usize::try_from(next).ok()?;
            let (parent, site) = *self.nodes.get(index)?;
            // A parent precedes its children, so the loop ends even if the numbers are damaged.
            next = if parent < next { parent } else { -1 };
            ((site as usize) < self.sites.len()).then_some(site)
        })
    }

    /// The names of a site, innermost first; empty if it has none.
    pub fn names_of(&self, site: u32) -> &[NamedCall] {
        let first = self.names.partition_point(|name| name.site < site);
        let rest = &self.names[first..];
        &rest[..rest.iter().take_while(|name| name.site == site).count()]
    }
}

/// A thread of the recorded program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// The kernel's thread id in the recorded program; 0 if unknown.
    pub id: u64,
    /// The thread's name; empty if unknown.
    pub name: String,
    /// The thread's scheduling class when it was last seen: `fifo`, `rr`, `deadline` or `other`;
    /// empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy: String,
}

/// A named point in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    /// ns since the start.
    pub time: u64,
    /// Index of the thread that recorded the mark.
    pub thread: u32,
    /// The mark's text.
    pub text: String,
    /// Index into the nodes of the stacks: the call site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<u32>,
    /// Of a call: the time that it took, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
}

/// The recorder makes a mark with this text if it records calls that may wait ([`CALL`]).
pub const CALLS_BEGIN: &str = "keel calls";
/// The mark of a call that may wait: this text, then its kind ([`CALL_KINDS`]) and the function.
pub const CALL: &str = "keel call: ";
/// The mark in the place of the first call that was left out, because there were too many.
pub const CALLS_END: &str = "keel calls end";
/// The kinds of calls that may wait.
pub const CALL_KINDS: [&str; 3] = ["lock", "file", "sleep"];
