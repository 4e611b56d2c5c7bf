//! The call sites whose live blocks keep memory resident.

use super::model::{PinnedFacts, PinnedSite};
use keel_blame::{BlameError, DebugFolders, PINNED, Place, Profile, Site, pinned_of_results};
use keel_results::{Comparison, Pinned};
use std::path::Path;

/// Call sites on the page.
const MOST_ROWS: usize = 20;

/// The call sites with the most pinned bytes on any allocator; None if the folder has no such data.
pub fn pinned(
    folder: &Path,
    comparison: &Comparison,
    debug: &DebugFolders,
) -> Result<Option<PinnedFacts>, BlameError> {
    let found = pinned_of_results(folder, debug)?;
    Ok(found.map(|(profile, pinned)| facts(&profile, &pinned, comparison)))
}

fn facts(profile: &Profile, pinned: &Pinned, comparison: &Comparison) -> PinnedFacts {
    let total = |name: &str| {
        let memory = pinned.allocators.iter().find(|one| one.name == name)?;
        Some([memory.live, memory.pinned, memory.free])
    };
    let names = || comparison.allocators.iter().map(|one| one.name.as_str());
    let value = |site: &Site, name: &str| {
        profile.column(PINNED[0].name, name).map(|column| site.values[column])
    };
    let largest = |site: &Site| names().filter_map(|name| value(site, name)).max().unwrap_or(0);
    let mut sites = keel_blame::sites(profile, 0, 1, Place::Line, &[]).sites;
    sites.retain(|site| largest(site) > 0);
    // The sort is stable: sites with equal values stay in the order of the first allocator.
    sites.sort_by_key(|site| std::cmp::Reverse(largest(site)));
    let row = |site: &Site| PinnedSite {
        calls: profile.calls(&site.stack).into_iter().map(super::call_sites::text).collect(),
        bytes: names().map(|name| value(site, name)).collect(),
    };
    PinnedFacts {
        moment: pinned.moment.clone(),
        totals: names().map(total).collect(),
        count: sites.len(),
        rows: sites.iter().take(MOST_ROWS).map(row).collect(),
    }
}
