//! `keel blame --pinned`: the call sites whose live blocks keep memory resident, by allocator.

use super::{Arguments, When, debug_folders};
use crate::format;
use crate::layout::Layout;
use crate::selection::chosen;
use anyhow::{Result, bail};
use keel_blame::{DebugFolders, Memory, PINNED, Profile, Shares};
use keel_journal::Reader;
use keel_replay::{Holding, Moment, Player};
use keel_results::{Comparison, Pinned, PinnedMemory};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// The null allocator.
const FLOOR: &str = "null";
/// The default of `--allocator`.
const ALLOCATORS: &str = "keel,glibc";

/// An allocator's resident memory.
pub struct Total {
    allocator: String,
    shares: Shares,
    kernel_bytes: u64,
}

/// The values at the moment, and the memory of each allocator. None if an allocator cannot be used;
/// stderr then has the reason.
pub fn run(arguments: &Arguments, when: When) -> Result<Option<(Profile, Vec<Total>)>> {
    let moment = if when == When::Peak { Moment::Peak } else { Moment::End };
    let input = &arguments.input;
    let allocators = allocators(arguments.allocator.as_deref(), arguments.save.as_deref())?;
    let found = pinned(input, moment, &allocators, &debug_folders())?;
    if let (Some(results), Some((profile, totals))) = (&arguments.save, &found) {
        save(input, results, moment, (profile, totals))?;
        say!("saved in {}: `keel report` shows it on the page", results.display());
    }
    Ok(found)
}

/// Writes the values into a result folder of the same journal, for its page.
fn save(
    journal: &Path,
    results: &Path,
    moment: Moment,
    (profile, totals): (&Profile, &[Total]),
) -> Result<()> {
    let column = |name: &str, kind: usize| profile.column(PINNED[kind].name, name);
    let memory = |total: &Total| {
        let (name, shares) = (total.allocator.clone(), total.shares);
        let mut stacks = Vec::new();
        if let (Some(pinned), Some(live)) = (column(&name, 0), column(&name, 1)) {
            let samples = profile.samples.iter();
            let values =
                samples.map(|sample| (sample.stack, sample.values[pinned], sample.values[live]));
            stacks.extend(values.filter(|(_, pinned, live)| pinned + live > 0));
        }
        let Shares { live, pinned, free } = shares;
        PinnedMemory { name, live, pinned, free, kernel: total.kernel_bytes, stacks }
    };
    let moment = if moment == Moment::Peak { "peak" } else { "end" }.to_owned();
    if !keel_blame::has_stacks_of(results, Reader::open(journal)?.metadata())? {
        bail!(
            "{}: these are not the results of {}: their call stacks differ",
            results.display(),
            journal.display()
        );
    }
    Ok(Pinned { moment, allocators: totals.iter().map(memory).collect() }.save(results)?)
}

/// The allocators to replay on: the named ones (separated by commas), or those of the results, or
/// the default.
fn allocators(names: Option<&str>, results: Option<&Path>) -> Result<Vec<String>> {
    let names = match (names, results) {
        (None, Some(results)) => {
            let allocators = Comparison::load(results)?.allocators.into_iter();
            return Ok(allocators.map(|one| one.name).filter(|name| name != FLOOR).collect());
        }
        (names, _) => names.unwrap_or(ALLOCATORS),
    };
    Ok(names.split(',').map(str::to_owned).collect())
}

/// Replays the journal up to the moment on each allocator. None if an
/// allocator cannot be used; stderr then has the reason.
fn pinned(
    journal: &Path,
    moment: Moment,
    specs: &[String],
    folders: &DebugFolders,
) -> Result<Option<(Profile, Vec<Total>)>> {
    if journal.is_dir() {
        bail!("{}: --pinned needs the journal, not the results", journal.display());
    }
    let layout = Layout::discover()?;
    if specs.iter().any(|name| name == FLOOR) {
        bail!("--pinned: the null allocator never reuses memory, so nothing is pinned in it");
    }
    let Some(allocators) = chosen(&layout, specs) else { return Ok(None) };
    let reader = Reader::open(journal)?;
    if reader.metadata().stacks.is_empty() {
        return Err(keel_blame::BlameError::NoStacks(journal.to_path_buf()).into());
    }
    let holding = Holding::new(&reader, moment)?;
    let player = Player { executable: layout.private("keel-player")?, timeout: Duration::MAX };
    let (mut memories, mut kernel) = (Vec::new(), Vec::new());
    for allocator in &allocators {
        let held = match holding.play(&player, allocator) {
            Ok(held) => held,
            Err(reason) => bail!("{}: {reason}", allocator.name),
        };
        let blocks = held.survivors.iter().map(|block| (block.address, block.size, block.stack));
        kernel.push(held.kernel_bytes);
        memories.push(Memory {
            allocator: allocator.name.clone(),
            blocks: blocks.collect(),
            resident: held.resident,
        });
    }
    let (profile, shares) = keel_blame::pinned(&memories, reader.metadata(), folders);
    let totals = memories.into_iter().zip(shares).zip(kernel);
    let total = |((memory, shares), kernel_bytes): ((Memory, Shares), u64)| Total {
        allocator: memory.allocator,
        shares,
        kernel_bytes,
    };
    Ok(Some((profile, totals.map(total).collect())))
}

/// The totals as a table.
pub fn text(totals: &[Total]) -> String {
    let names = totals.iter().map(|one| one.allocator.chars().count());
    let width = names.max().unwrap_or(0).max("allocator".len());
    let mut text = format!(
        "\n{:<width$}  {:>10}  {:>10}  {:>10}  {:>10}  {:>16}\n",
        "allocator", "resident", "live", "pinned", "free", "by the kernel"
    );
    for Total { allocator, shares, kernel_bytes } in totals {
        let _ = writeln!(
            text,
            "{allocator:<width$}  {:>10}  {:>10}  {:>10}  {:>10}  {:>16}",
            format::bytes(shares.resident()),
            format::bytes(shares.live),
            format::bytes(shares.pinned),
            format::bytes(shares.free),
            format::bytes(*kernel_bytes)
        );
    }
    text
}

/// The totals as JSON.
pub fn json(totals: &[Total]) -> serde_json::Value {
    let one = |total: &Total| {
        json!({
            "allocator": total.allocator,
            "resident_bytes": total.shares.resident(),
            "live_bytes": total.shares.live,
            "pinned_bytes": total.shares.pinned,
            "free_bytes": total.shares.free,
            "kernel_bytes": total.kernel_bytes,
        })
    };
    totals.iter().map(one).collect()
}
