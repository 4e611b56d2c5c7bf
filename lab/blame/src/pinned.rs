//! Who holds memory: each resident system page that is not full of live bytes is charged to the
//! blocks that keep it from being returned to the system.
//!
//! - The rest of a page with live blocks is divided equally among these blocks.
//! - A page without live blocks is divided equally among the live blocks in the 64 KiB around it,
//!   because allocators obtain and return memory in such pieces.
//! - If there are none, no block keeps the page: the allocator does.

use crate::debug_files::DebugFolders;
use crate::error::BlameError;
use crate::profile::{ByStack, Column, Profile, Unit, ValueKind, named};
use crate::recorded::Recorded;
use keel_journal::Metadata;
use keel_results::Pinned;
use rustc_hash::FxHashMap;
use std::path::Path;

/// The values of [`pinned`], for each allocator.
pub const PINNED: [ValueKind; 2] = [
    ValueKind { name: "pinned", title: "pinned", unit: Unit::Bytes },
    ValueKind { name: "resident", title: "resident live", unit: Unit::Bytes },
];

/// The size of a system page.
const PAGE_BYTES: u64 = 4096;
/// See the module.
const PIECE_BYTES: u64 = 65_536;

/// A live block: address, requested size and stack.
pub type LiveBlock = (u64, u64, u32);

/// An allocator's memory at one moment.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The allocator.
    pub allocator: String,
    /// Its live blocks, by address.
    pub blocks: Vec<LiveBlock>,
    /// Resident system pages by address: the first address, and the number of pages.
    pub resident: Vec<(u64, u64)>,
}

/// The resident bytes of an allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Requested bytes of live blocks.
    pub live: u64,
    /// Other bytes that are charged to live blocks.
    pub pinned: u64,
    /// Bytes that no block keeps.
    pub free: u64,
}

impl Shares {
    /// All resident bytes.
    pub fn resident(&self) -> u64 {
        self.live + self.pinned + self.free
    }
}

/// Charges the resident memory of each allocator to the stacks whose blocks keep it. The profile
/// has the columns of [`PINNED`] for each allocator.
pub fn pinned(
    memories: &[Memory],
    metadata: &Metadata,
    folders: &DebugFolders,
) -> (Profile, Vec<Shares>) {
    let mut by_stack = ByStack::default();
    let (mut columns, mut shares) = (Vec::new(), Vec::new());
    let width = PINNED.len() * memories.len();
    for (index, memory) in memories.iter().enumerate() {
        let allocator = &memory.allocator;
        columns.extend(PINNED.map(|kind| Column { kind, allocator: allocator.clone() }));
        let (charges, free) = charge(memory);
        let mut sums = Shares { free, ..Shares::default() };
        for (stack, [pinned, live]) in charges {
            let values = by_stack.entry(stack).or_insert_with(|| vec![0; width]);
            let (pinned, live) = (pinned.round() as u64, live);
            values[PINNED.len() * index] = pinned;
            values[PINNED.len() * index + 1] = live as u64;
            sums.pinned += pinned;
            sums.live += live as u64;
        }
        shares.push(sums);
    }
    let profile = named(columns, by_stack, (&metadata.modules, &metadata.stacks), folders);
    (profile, shares)
}

/// What a result folder has about pinned memory, with the columns of [`pinned`]; None if nothing
/// was added to it.
///
/// # Errors
/// The folder cannot be read, or its journal had no stacks.
pub fn pinned_of_results(
    folder: &Path,
    folders: &DebugFolders,
) -> Result<Option<(Profile, Pinned)>, BlameError> {
    let Some(found) = Pinned::load(folder)? else { return Ok(None) };
    let recorded = Recorded::read(folder)?;
    let width = PINNED.len() * found.allocators.len();
    let (mut by_stack, mut columns) = (ByStack::default(), Vec::new());
    for (index, memory) in found.allocators.iter().enumerate() {
        columns.extend(PINNED.map(|kind| Column { kind, allocator: memory.name.clone() }));
        for (stack, pinned, live) in &memory.stacks {
            let values = by_stack.entry(*stack).or_insert_with(|| vec![0; width]);
            values[PINNED.len() * index..][..PINNED.len()].copy_from_slice(&[*pinned, *live]);
        }
    }
    Ok(Some((named(columns, by_stack, recorded.both(), folders), found)))
}

/// Whether a result folder has the stacks of this journal.
///
/// # Errors
/// The folder cannot be read, or its journal had no stacks.
pub fn has_stacks_of(folder: &Path, metadata: &Metadata) -> Result<bool, BlameError> {
    let recorded = Recorded::read(folder)?;
    Ok(recorded.both() == (&metadata.modules[..], &metadata.stacks))
}

/// Pinned and live bytes by stack, and the bytes that no block keeps.
fn charge(memory: &Memory) -> (FxHashMap<u32, [f64; 2]>, u64) {
    let mut charges: FxHashMap<u32, [f64; 2]> = FxHashMap::default();
    // The bytes of pages without blocks, by the piece of memory that they are in.
    let mut empty: Vec<(u64, u64)> = Vec::new();
    let mut within = Within { blocks: &memory.blocks, first: 0 };
    let pages = memory
        .resident
        .iter()
        .flat_map(|(start, count)| (0..*count).map(move |page| start + page * PAGE_BYTES));
    for page in pages {
        let blocks = within.range(page, page + PAGE_BYTES);
        if blocks.is_empty() {
            let piece = page / PIECE_BYTES * PIECE_BYTES;
            match empty.last_mut() {
                Some((last, bytes)) if *last == piece => *bytes += PAGE_BYTES,
                _ => empty.push((piece, PAGE_BYTES)),
            }
            continue;
        }
        let live = |(address, size, _): &LiveBlock| {
            let end = address.saturating_add(*size).min(page + PAGE_BYTES);
            end.saturating_sub(*address.max(&page))
        };
        let rest = PAGE_BYTES.saturating_sub(blocks.iter().map(live).sum());
        for block in blocks {
            let charge = charges.entry(block.2).or_default();
            charge[0] += rest as f64 / blocks.len() as f64;
            charge[1] += live(block) as f64;
        }
    }
    let (mut free, mut within) = (0, Within { blocks: &memory.blocks, first: 0 });
    for (piece, bytes) in empty {
        let blocks = within.range(piece, piece + PIECE_BYTES);
        if blocks.is_empty() {
            free += bytes;
        }
        for block in blocks {
            charges.entry(block.2).or_default()[0] += bytes as f64 / blocks.len() as f64;
        }
    }
    (charges, free)
}

/// Finds the blocks in rising ranges of addresses.
struct Within<'a> {
    blocks: &'a [LiveBlock],
    first: usize,
}

impl<'a> Within<'a> {
    /// The blocks that have a byte in the range. A block of 0 bytes counts as one of 1 byte.
    fn range(&mut self, from: u64, until: u64) -> &'a [LiveBlock] {
        let end = |block: &LiveBlock| block.0.saturating_add(block.1.max(1));
        while self.blocks.get(self.first).is_some_and(|block| end(block) <= from) {
            self.first += 1;
        }
        let rest = &self.blocks[self.first..];
        &rest[..rest.partition_point(|block| block.0 < until)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resident_page_is_charged_once() {
        let memory = Memory {
            allocator: "keel".to_owned(),
            // Two blocks on the first page; one across the second and the third; one far away, and
            // a page with no block near it.
            blocks: vec![(0, 96, 1), (1000, 1000, 2), (8000, 4288, 1), (1 << 20, 4096, 3)],
            resident: vec![(0, 5), (1 << 20, 1), (1 << 21, 1)],
        };
        let (charges, free) = charge(&memory);
        assert_eq!(free, PAGE_BYTES);
        // Page 0: 3000 bytes are not live. Pages 1 and 2 (4096 to 12288): 3904 and 0. Pages 3 and
        // 4 have no blocks, and there are three blocks in the piece.
        let empty = 2.0 * 4096.0 / 3.0;
        assert_eq!(charges[&1], [1500.0 + 3904.0 + 2.0 * empty, 96.0 + 4288.0]);
        assert_eq!(charges[&2], [1500.0 + empty, 1000.0]);
        assert_eq!(charges[&3], [0.0, 4096.0]);
        let metadata = Metadata::default();
        let (profile, shares) = pinned(&[memory], &metadata, &DebugFolders::default());
        let resident = shares[0].resident();
        assert!(resident.abs_diff(7 * PAGE_BYTES) <= 2, "{resident}");
        assert_eq!(profile.total(0), shares[0].pinned);
    }
}
