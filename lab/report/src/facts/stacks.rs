//! The call stacks of the page: a tree of calls, and the values of each call in all and over time.

use super::model::{PinnedFacts, StackColumn, StackFacts};
use super::pinned::pinned;
use crate::counts::Counted;
use crate::encode::{Block, Stream};
use crate::error::ReportError;
use keel_blame::{BlameError, CallTree, DebugFolders, Explained, Frame, Limits, Unit, explained};
use keel_results::raw::{OPERATIONS_FILE, StackReader};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// Most calls in the tree.
const MOST_NODES: usize = 12_000;
/// Most rows of values over time. A row takes about ten bytes of the page.
const MOST_ROWS: usize = 40_000;
/// A block that is freed within this time is short-lived.
const SHORT_LIVED_NS: u64 = 1_000_000;
/// Names of C++ can have thousands of characters.
const NAME_CHARACTERS: usize = 300;
/// The values on the page. The others are in `keel blame --json`.
const SHOWN: [&str; 8] = ["time", "over", "slow", "faults", "bytes", "peak", "kept", "churn"];

/// The stacks of a comparison, as a page shows them.
pub struct Stacks {
    /// What the call stacks requested and what their calls took.
    pub explained: Explained,
    tree: CallTree,
    /// The call sites that keep memory resident, if the folder has them.
    pub pinned: Option<PinnedFacts>,
    /// The stack of each slow call, by row.
    of_row: FxHashMap<u64, u32>,
}

impl Stacks {
    /// Reads the stacks of a result folder; None if it has none, or no rows.
    pub fn read(
        folder: &Path,
        counted: &Counted<'_>,
        debug: &DebugFolders,
    ) -> Result<Option<Stacks>, ReportError> {
        let times = (SHORT_LIVED_NS, counted.span_ns);
        let explained = match explained(folder, Limits::default(), times, debug) {
            Ok(explained) => explained,
            Err(BlameError::NoStacksInResults(_) | BlameError::NotKept(_)) => return Ok(None),
            Err(error) => return Err(ReportError::CallSites(error)),
        };
        let slow = slow_rows(counted);
        let of_row = stacks_of(folder, &slow)?;
        let mut wanted: Vec<u32> = slow.iter().filter_map(|row| of_row.get(row).copied()).collect();
        let mut seen = FxHashSet::default();
        wanted.retain(|stack| seen.insert(*stack));
        let tree = CallTree::new(&explained.profile, &wanted, MOST_NODES);
        let pinned = pinned(folder, counted.comparison, debug).map_err(ReportError::CallSites)?;
        Ok(Some(Stacks { explained, tree, pinned, of_row }))
    }

    /// The number of a slow call's stack in the block of slow calls: twice the node of its
    /// innermost call, and 1 more if calls within that one were left out. 0 for none.
    pub fn number_of_row(&self, row: u64) -> u64 {
        let (node, is_cut) = self.of_row.get(&row).map_or((0, false), |s| self.tree.of_stack(*s));
        u64::from(node) * 2 + u64::from(is_cut)
    }

    /// The facts, and the blocks of the tree and of its names.
    pub fn encode(&self, counted: &Counted<'_>, prefix: &str) -> (StackFacts, [Block; 2]) {
        let columns = self.columns(counted);
        let chosen: Vec<usize> = columns.iter().map(|(index, _)| *index).collect();
        let (names, numbers) = self.names();
        let (parts, rows) = self.rows(&chosen);
        let mut stream = Stream::default();
        for (index, node) in self.tree.nodes.iter().enumerate().skip(1) {
            stream.varint(index as u64 - u64::from(node.parent));
        }
        for node in self.tree.nodes.iter().skip(1) {
            stream.varint(numbers[&node.frame]);
        }
        // Each row: the part and the node, as differences to the row before it.
        let (mut part_before, mut node_before) = (0, 0);
        for (part, node) in rows.keys() {
            stream.varint(u64::from(part - part_before));
            node_before = if *part == part_before { node_before } else { 0 };
            stream.varint(u64::from(node - node_before));
            (part_before, node_before) = (*part, *node);
        }
        for column in 0..chosen.len() {
            rows.values().for_each(|values| stream.varint(values[column]));
        }
        let facts = StackFacts {
            nodes: self.tree.nodes.len(),
            left_out: self.tree.left_out,
            parts,
            rows: rows.len(),
            columns: columns.into_iter().map(|(_, column)| column).collect(),
        };
        let blocks = [
            Block::new(format!("{prefix}block-stacks"), &stream.finish()),
            Block::new(format!("{prefix}block-stack-names"), names.to_string().as_bytes()),
        ];
        (facts, blocks)
    }

    /// The columns of the page, each with its index in the profile.
    fn columns(&self, counted: &Counted<'_>) -> Vec<(usize, StackColumn)> {
        let allocator =
            |name: &str| counted.comparison.allocators.iter().position(|one| one.name == name);
        let mut columns = Vec::new();
        for name in SHOWN.iter().chain(&["calls"]) {
            for (index, column) in self.explained.profile.columns.iter().enumerate() {
                // Calls and bytes are properties of the program, and not of an allocator.
                let is_twice = matches!(*name, "calls" | "bytes") && !column.allocator.is_empty();
                if column.kind.name == *name && !is_twice {
                    let unit = match column.kind.unit {
                        Unit::Count | Unit::Variance => "count",
                        Unit::Bytes => "bytes",
                        Unit::Nanoseconds => "duration",
                    };
                    let allocator = allocator(&column.allocator);
                    columns.push((index, StackColumn { name: column.kind.name, unit, allocator }));
                }
            }
        }
        columns
    }

    /// The names of the tree's calls, and the number of each frame among them.
    fn names(&self) -> (serde_json::Value, FxHashMap<u32, u64>) {
        let (mut names, mut numbers) = (Vec::new(), FxHashMap::default());
        for node in self.tree.nodes.iter().skip(1) {
            numbers.entry(node.frame).or_insert_with(|| {
                names.push(described(&self.explained.profile.frames[node.frame as usize]));
                names.len() as u64 - 1
            });
        }
        (json!(names), numbers)
    }

    /// The values by part and node, in parts that are long enough for [`MOST_ROWS`].
    fn rows(&self, columns: &[usize]) -> (u32, BTreeMap<(u32, u32), Vec<u64>>) {
        let mut count = self.explained.parts.max(1);
        loop {
            let ratio = self.explained.parts.max(1) / count;
            let mut rows: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
            for (stack, part, values) in &self.explained.over_time {
                let key = (part / ratio, self.tree.of_stack(*stack).0);
                let sums = rows.entry(key).or_insert_with(|| vec![0; columns.len()]);
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = sum.saturating_add(values[*column]);
                }
            }
            if rows.len() <= MOST_ROWS || count == 1 {
                return (count, rows);
            }
            count /= 2;
        }
    }
}

/// Function, file, line, module, and bits: 1 inlined, 2 wrapper.
fn described(frame: &Frame) -> serde_json::Value {
    let mut function: String = frame.function.chars().take(NAME_CHARACTERS).collect();
    if function.len() < frame.function.len() {
        function.push('…');
    }
    let bits = u8::from(frame.inlined) + 2 * u8::from(frame.wrapper);
    json!([function, frame.file, frame.line, frame.module, bits])
}

/// The rows of the slow calls of all allocators, the longest call first.
fn slow_rows(counted: &Counted<'_>) -> Vec<u64> {
    let allocators = 0..counted.comparison.allocators.len();
    let calls = allocators.flat_map(|index| counted.slow_calls(index));
    let mut rows: Vec<(u32, u64)> =
        calls.map(|(detail, outlier)| (outlier.ticks, detail.row)).collect();
    rows.sort_unstable_by(|one, other| other.cmp(one));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The stacks of some rows.
fn stacks_of(folder: &Path, rows: &[u64]) -> Result<FxHashMap<u64, u32>, ReportError> {
    let mut rows = rows.to_vec();
    rows.sort_unstable();
    rows.dedup();
    let mut reader = StackReader::open(&folder.join(OPERATIONS_FILE))?;
    let (mut found, mut base) = (FxHashMap::default(), 0);
    let mut rows = rows.into_iter().peekable();
    while let Some(stacks) = reader.next_rows()? {
        let end = base + stacks.len() as u64;
        while let Some(row) = rows.next_if(|row| *row < end) {
            found.insert(row, stacks[(row - base) as usize]);
        }
        base = end;
    }
    Ok(found)
}
