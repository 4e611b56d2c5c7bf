//! Which call sites make up a count, also compared with another journal.

use crate::measure::{Largest, Live, each_row};
use crate::metric::{Kernel, Metric};
use crate::names::Names;
use crate::scope::Scope;
use crate::selection::{Call, Selection};
use keel_blame::Frame;
use keel_journal::{Error, Event, Reader};
use rustc_hash::FxHashMap;

/// The part of a count that one call site has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The calls from the call site outwards; empty for operations without a stack.
    pub stack: Vec<Frame>,
    /// The call site's part; for [`Metric::Largest`], its largest block.
    pub value: u64,
    /// The same in the baseline; None without a baseline.
    pub before: Option<u64>,
}

/// A count whose parts are wanted.
pub(crate) struct Wanted {
    pub scope: Scope,
    pub metric: Metric,
    pub largest: Largest,
}

/// By call site, without lines, which differ between two versions of a program.
type BySite = FxHashMap<(String, String), (u64, u32)>;

/// The parts of each count by call site, the largest first.
pub(crate) fn shares(
    reader: &Reader,
    wanted: &[Wanted],
    names: &mut Names<'_>,
) -> Result<Vec<Vec<Share>>, Error> {
    let by_site = by_site(reader, wanted, names)?;
    let share = |names: &mut Names<'_>, (value, stack): &(u64, u32)| Share {
        stack: names.outwards(*stack),
        value: *value,
        before: None,
    };
    let list = |sites: &BySite, names: &mut Names<'_>| {
        let mut found: Vec<Share> = sites.values().map(|site| share(names, site)).collect();
        found.sort_by(|one, other| {
            let name = |share: &Share| share.stack.first().map(|frame| frame.function.clone());
            other.value.cmp(&one.value).then_with(|| name(one).cmp(&name(other)))
        });
        found
    };
    Ok(by_site.iter().map(|sites| list(sites, names)).collect())
}

/// Adds what each call site had in the baseline, and sorts by growth. `before` are the parts of the
/// same count there.
pub(crate) fn compare(shares: &mut [Share], before: &[Share]) {
    let site = |share: &Share| {
        share.stack.first().map(|frame| (frame.function.clone(), frame.container().to_owned()))
    };
    let known: FxHashMap<_, u64> = before.iter().map(|share| (site(share), share.value)).collect();
    for share in shares.iter_mut() {
        share.before = Some(known.get(&site(share)).copied().unwrap_or(0));
    }
    let growth = |share: &Share| i128::from(share.value) - i128::from(share.before.unwrap_or(0));
    shares.sort_by_key(|share| std::cmp::Reverse(growth(share)));
}

fn by_site(
    reader: &Reader,
    wanted: &[Wanted],
    names: &mut Names<'_>,
) -> Result<Vec<BySite>, Error> {
    let metadata = reader.metadata();
    let select = |one: &Wanted| Selection::of_scope(&one.scope, metadata).ok();
    let mut selections: Vec<Option<Selection>> = wanted.iter().map(select).collect();
    let mut by_stack: Vec<FxHashMap<u32, u64>> = vec![FxHashMap::default(); wanted.len()];
    let mut live = Live::default();
    each_row(reader, &mut |row, event, origin| {
        let call = Call::of(event, origin);
        live.release(event.released);
        live.create(event, call);
        for ((one, selection), sums) in wanted.iter().zip(&mut selections).zip(&mut by_stack) {
            let Some(selection) = selection else { continue };
            if one.metric == Metric::LivePeak && row == one.largest.peak_row {
                add_live(&live, one, selection, names, sums);
            }
            let value = counted(one.metric, event, names.kernel(row));
            let value = value.filter(|_| row >= metadata.prologue);
            if let Some(value) = value
                && selection.pass(call, names) == Some(one.largest.pass)
            {
                let sum = sums.entry(call.stack).or_default();
                *sum = match one.metric {
                    Metric::Largest => value.max(*sum),
                    _ => sum.saturating_add(value),
                };
            }
        }
    })?;
    for ((one, selection), sums) in wanted.iter().zip(&mut selections).zip(&mut by_stack) {
        if let Some(selection) = selection.as_mut().filter(|_| one.metric == Metric::NeverFreed) {
            add_live(&live, one, selection, names, sums);
        }
    }
    let metrics = wanted.iter().map(|one| one.metric);
    Ok(metrics.zip(&by_stack).map(|(metric, sums)| merged(metric, sums, names)).collect())
}

/// What an operation adds to a count of operations; None if it adds nothing.
fn counted(metric: Metric, event: &Event, kernel: Kernel) -> Option<u64> {
    let creates = event.op.creates();
    match metric {
        Metric::Operations => Some(1),
        Metric::Allocations => creates.then_some(1),
        Metric::Frees => (!creates).then_some(1),
        Metric::Bytes | Metric::Largest => creates.then_some(event.size),
        Metric::LivePeak | Metric::NeverFreed => None,
        Metric::Faulting => kernel.faulted.then_some(1),
        Metric::SystemCalls => kernel.called.then_some(1),
    }
}

fn add_live(
    live: &Live,
    wanted: &Wanted,
    selection: &mut Selection,
    names: &mut Names<'_>,
    sums: &mut FxHashMap<u32, u64>,
) {
    for (call, size) in live.blocks() {
        if selection.pass(call, names) == Some(wanted.largest.pass) {
            let sum = sums.entry(call.stack).or_default();
            *sum = sum.saturating_add(size);
        }
    }
}

fn merged(metric: Metric, by_stack: &FxHashMap<u32, u64>, names: &mut Names<'_>) -> BySite {
    let mut sites = BySite::default();
    let mut largest: FxHashMap<(String, String), u64> = FxHashMap::default();
    let mut sorted: Vec<(u32, u64)> =
        by_stack.iter().map(|(stack, value)| (*stack, *value)).collect();
    sorted.sort_unstable();
    for (stack, value) in sorted {
        let (function, file, _) = names.identity(stack).unwrap_or_default();
        let key = (function, file);
        let (sum, of_stack) = sites.entry(key.clone()).or_insert((0, stack));
        *sum = if metric == Metric::Largest { value.max(*sum) } else { sum.saturating_add(value) };
        let most = largest.entry(key).or_insert(value);
        if value > *most {
            (*most, *of_stack) = (value, stack);
        }
    }
    sites
}
