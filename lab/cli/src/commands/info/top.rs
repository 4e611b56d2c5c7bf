//! The modules with the most operations, and the call sites with the most blocks.

use crate::format;
use anyhow::Result;
use keel_blame::{Frame, Symbols};
use keel_journal::{Origin, Reader};
use serde::Serialize;
use std::collections::HashMap;

/// Operations that came from one place.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Place {
    /// The module's path, or the calls that led to the call site, innermost first, each as
    /// `function (file:line)` or `module+offset`.
    pub name: Vec<String>,
    /// Operations of every kind.
    pub operations: u64,
    /// Operations that allocated a block.
    pub blocks: u64,
    /// Bytes that these operations requested.
    pub bytes: u64,
    /// Bytes of these blocks that were never freed.
    pub kept_bytes: u64,
}

/// The modules and the call sites that are shown.
#[derive(Debug, Serialize)]
pub struct Top {
    /// Most operations first.
    pub modules: Vec<Place>,
    /// Most blocks first; empty where no call site was recorded.
    pub sites: Vec<Place>,
    /// The number of all call sites.
    pub sites_in_all: usize,
}

#[derive(Default)]
struct Tally {
    modules: HashMap<u32, Place>,
    stacks: HashMap<u32, Place>,
    /// Origin and size of the live objects.
    live: HashMap<u64, (Origin, u64)>,
}

impl Tally {
    fn take(&mut self, event: &keel_journal::Event, origin: Origin) {
        let blocks = u64::from(event.op.creates());
        for place in self.places(origin) {
            place.operations += 1;
            place.blocks += blocks;
            // The sum of the sizes in a journal may exceed the range of the type.
            place.bytes = place.bytes.saturating_add(event.size);
            place.kept_bytes = place.kept_bytes.saturating_add(event.size);
        }
        if blocks > 0 {
            self.live.insert(event.created, (origin, event.size));
        }
        if let Some((origin, size)) = self.live.remove(&event.released) {
            for place in self.places(origin) {
                place.kept_bytes = place.kept_bytes.saturating_sub(size);
            }
        }
    }

    fn places(&mut self, origin: Origin) -> impl Iterator<Item = &mut Place> {
        let stack =
            (origin.stack != Origin::NONE).then(|| self.stacks.entry(origin.stack).or_default());
        std::iter::once(self.modules.entry(origin.module).or_default()).chain(stack)
    }
}

/// Reads the whole journal.
pub fn top(reader: &Reader, count: usize, progress: &mut dyn FnMut(u64)) -> Result<Top> {
    let mut tally = Tally::default();
    let (mut batches, mut events, mut origins) = (reader.batches(), Vec::new(), Vec::new());
    let mut rows = 0;
    while batches.next_with_origins(&mut events, &mut origins)? {
        for (event, origin) in events.iter().zip(&origins) {
            tally.take(event, *origin);
        }
        rows += events.len() as u64;
        progress(rows);
    }
    let metadata = reader.metadata();
    let mut modules: Vec<(u32, Place)> = tally.modules.into_iter().collect();
    modules.sort_unstable_by_key(|(index, place)| (std::cmp::Reverse(place.operations), *index));
    modules.truncate(count);
    let named = modules.into_iter().map(|(index, place)| {
        let path = metadata.modules.get(index as usize).map(|module| module.path.clone());
        Place { name: vec![path.unwrap_or_else(|| "(unknown)".to_owned())], ..place }
    });
    let mut stacks: Vec<(u32, Place)> = tally.stacks.into_iter().collect();
    let sites_in_all = stacks.len();
    stacks.sort_unstable_by_key(|(index, place)| (std::cmp::Reverse(place.blocks), *index));
    stacks.truncate(count);
    let folders = crate::commands::blame::debug_folders();
    let mut symbols = Symbols::new(&metadata.modules, &metadata.stacks, &folders);
    let sites = stacks.into_iter().map(|(index, place)| {
        let name = metadata.stacks.walk_indices(index).flat_map(|site| {
            let frames = symbols.frames_at(site).to_vec();
            frames.into_iter().map(|frame| name(symbols.frame(frame))).collect::<Vec<_>>()
        });
        let name = name.collect();
        Place { name, ..place }
    });
    Ok(Top { modules: named.collect(), sites: sites.collect(), sites_in_all })
}

/// A call as `function (file:line)`, or `module+offset`.
fn name(frame: &Frame) -> String {
    match frame.place() {
        place if place.is_empty() => frame.function.clone(),
        place => format!("{} ({place})", frame.function),
    }
}

/// Prints the tables. `no_sites`: why there may be no call sites.
pub fn text(top: &Top, no_sites: &str, line: &mut impl FnMut(String)) {
    let row = |place: &Place, name: &str| {
        format!(
            "  {:>14}{:>14}{:>12}{:>14}  {name}",
            format::count(place.operations),
            format::count(place.blocks),
            format::bytes(place.bytes),
            format::bytes(place.kept_bytes),
        )
    };
    let head = |what: &str| {
        format!(
            "\n  {:>14}{:>14}{:>12}{:>14}  {what}",
            "operations", "blocks", "bytes", "never freed"
        )
    };
    line(head("called from"));
    for place in &top.modules {
        line(row(place, place.name.first().map_or("", String::as_str)));
    }
    if top.sites.is_empty() {
        line(format!("  (no call sites: {no_sites})"));
        return;
    }
    line(head(&format!("call site ({} in all)", format::count(top.sites_in_all as u64))));
    for place in &top.sites {
        for (index, name) in place.name.iter().enumerate() {
            line(if index == 0 { row(place, name) } else { format!("{:58}< {name}", "") });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_no_call_sites_is_the_callers() {
        let top = Top { modules: Vec::new(), sites: Vec::new(), sites_in_all: 0 };
        let mut shown = String::new();
        text(&top, "no call had a stack", &mut |line| shown += &line);
        assert!(shown.ends_with("  (no call sites: no call had a stack)"), "{shown}");
    }
}
