//! The whole check of a journal.

use crate::budget::{Budget, Gate, Suppression, Zone};
use crate::measure::{Measured, measure_with};
use crate::metric::{Kernel, Metric};
use crate::names::Names;
use crate::scope::Scope;
use crate::shares::{Share, Wanted, compare, shares};
use crate::violations::{Group, InZone, violations};
use keel_blame::DebugFolders;
use keel_journal::{Error, Reader};

/// What is checked.
pub struct Input<'a> {
    /// The journal.
    pub reader: &'a Reader,
    /// What it has to keep.
    pub budget: &'a Budget,
    /// An earlier journal, with which broken limits are compared.
    pub baseline: Option<&'a Reader>,
    /// Where debug files are.
    pub folders: &'a DebugFolders,
    /// What the kernel did for each row in a replay, if the journal was replayed.
    pub kernel: Option<&'a [Kernel]>,
}

/// Whether a limit or a zone is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is.
    Kept,
    /// It is not.
    Broken,
    /// It cannot be checked, for this reason.
    Unknown(String),
}

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitResult {
    /// What it concerns.
    pub scope: Scope,
    /// What is counted.
    pub metric: Metric,
    /// The greatest accepted count.
    pub limit: u64,
    /// Whether it is kept.
    pub outcome: Outcome,
    /// The count; 0 if it is unknown.
    pub value: u64,
    /// The frame or the pass with this count, from 1; None for other scopes.
    pub pass: Option<u64>,
    /// The count of the baseline.
    pub before: Option<u64>,
    /// If it is broken: the call sites with the largest parts of the count, or with the largest
    /// growth since the baseline.
    pub shares: Vec<Share>,
}

/// A zone.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneResult {
    /// Where.
    pub zone: Zone,
    /// Whether it is kept.
    pub outcome: Outcome,
    /// The call sites that allocate or free in it.
    pub groups: Vec<Group>,
}

/// A limit on latency.
#[derive(Clone, Debug, PartialEq)]
pub struct GateResult {
    /// The limit.
    pub gate: Gate,
    /// Whether it is kept.
    pub outcome: Outcome,
    /// The ratio to the baseline.
    pub ratio: f64,
    /// Its interval.
    pub low: f64,
    /// Its interval.
    pub high: f64,
    /// Whether the rounds do not show whether the ratio is within the limit.
    pub is_unclear: bool,
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The limits, in the order of the budget.
    pub limits: Vec<LimitResult>,
    /// The zones, in the order of the budget.
    pub zones: Vec<ZoneResult>,
    /// The limits on latency, if the caller has measured them.
    pub gates: Vec<GateResult>,
    /// Each suppression with the number of calls that it accepted.
    pub suppressed: Vec<(Suppression, u64)>,
    /// What a reader of the result should know.
    pub notes: Vec<String>,
}

impl Checked {
    /// All outcomes.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        let limits = self.limits.iter().map(|limit| &limit.outcome);
        let gates = self.gates.iter().map(|gate| &gate.outcome);
        limits.chain(self.zones.iter().map(|zone| &zone.outcome)).chain(gates)
    }
}

/// Checks a journal.
///
/// # Errors
/// The journal or the baseline cannot be read.
pub fn check(input: &Input<'_>) -> Result<Checked, Error> {
    let mut names =
        Names::new(input.reader, input.folders).with_kernel(input.kernel.unwrap_or_default());
    let mut checked = Checked::default();
    check_limits(input, &mut names, &mut checked)?;
    check_zones(input, &mut names, &mut checked)?;
    Ok(checked)
}

fn check_limits(
    input: &Input<'_>,
    names: &mut Names<'_>,
    checked: &mut Checked,
) -> Result<(), Error> {
    let budget = input.budget;
    let scopes: Vec<Scope> = budget.limits.iter().map(|one| one.scope.clone()).collect();
    let measured = measure_with(input.reader, &scopes, names)?;
    let mut wanted: Vec<Wanted> = Vec::new();
    for (limited, measured) in budget.limits.iter().zip(&measured) {
        if measured.as_ref().is_ok_and(|measured| measured.never_seen) {
            checked.notes.push(format!("no operation was {}", limited.scope));
        }
        for (metric, limit) in &limited.limits {
            let unknown = Err("it needs a replay, and there was none".to_owned());
            let is_known = !metric.is_replayed() || input.kernel.is_some();
            let measured = if is_known { measured } else { &unknown };
            let result = limit_result(&limited.scope, *metric, *limit, measured);
            if let (Outcome::Broken, Ok(measured)) = (&result.outcome, measured) {
                let (scope, metric) = (limited.scope.clone(), *metric);
                wanted.push(Wanted { scope, metric, largest: measured.largest(metric) });
            }
            checked.limits.push(result);
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let mut found = shares(input.reader, &wanted, names)?;
    let mut before = Vec::new();
    if let Some(baseline) = input.baseline {
        before = compare_with(baseline, &wanted, input.folders, &mut found)?;
    }
    let broken = checked.limits.iter_mut().filter(|limit| limit.outcome == Outcome::Broken);
    for (index, (limit, shares)) in broken.zip(found).enumerate() {
        limit.shares = shares;
        limit.before = before.get(index).copied().flatten();
    }
    Ok(())
}

fn limit_result(
    scope: &Scope,
    metric: Metric,
    limit: u64,
    measured: &Result<Measured, String>,
) -> LimitResult {
    let (outcome, value, pass) = match measured {
        Err(reason) => (Outcome::Unknown(reason.clone()), 0, None),
        Ok(measured) => {
            let largest = measured.largest(metric);
            let outcome = if largest.value > limit { Outcome::Broken } else { Outcome::Kept };
            let has_passes = matches!(scope, Scope::Frame { .. } | Scope::Between { .. });
            (outcome, largest.value, has_passes.then_some(largest.pass as u64 + 1))
        }
    };
    let (shares, before) = (Vec::new(), None);
    LimitResult { scope: scope.clone(), metric, limit, outcome, value, pass, before, shares }
}

/// Compares the parts of each count with those of the baseline. Returns the counts there.
fn compare_with(
    baseline: &Reader,
    wanted: &[Wanted],
    folders: &DebugFolders,
    found: &mut [Vec<Share>],
) -> Result<Vec<Option<u64>>, Error> {
    let mut names = Names::new(baseline, folders);
    let scopes: Vec<Scope> = wanted.iter().map(|one| one.scope.clone()).collect();
    let measured = measure_with(baseline, &scopes, &mut names)?;
    let mut counts = Vec::new();
    for ((one, measured), shares_now) in wanted.iter().zip(measured).zip(found) {
        // The baseline was not replayed.
        if one.metric.is_replayed() {
            counts.push(None);
            continue;
        }
        let largest = measured.ok().map(|measured| measured.largest(one.metric));
        counts.push(largest.map(|largest| largest.value));
        // What the baseline does not have is new in every part.
        let mut before = Vec::new();
        if let Some(largest) = largest {
            let (scope, metric) = (one.scope.clone(), one.metric);
            let same = Wanted { scope, metric, largest };
            before = shares(baseline, &[same], &mut names)?.pop().unwrap_or_default();
        }
        compare(shares_now, &before);
    }
    Ok(counts)
}

fn check_zones(
    input: &Input<'_>,
    names: &mut Names<'_>,
    checked: &mut Checked,
) -> Result<(), Error> {
    let Budget { zones, suppressions, .. } = input.budget;
    if zones.is_empty() {
        return Ok(());
    }
    let mut accepted = vec![0; suppressions.len()];
    for (zone, found) in zones.iter().zip(violations(input.reader, zones, suppressions, names)?) {
        let (outcome, groups) = match found {
            Err(reason) => (Outcome::Unknown(reason), Vec::new()),
            Ok(found) => {
                accepted.iter_mut().zip(&found.suppressed).for_each(|(sum, one)| *sum += one);
                if found.never_seen {
                    checked.notes.push(format!(
                        "zone {}: the function exists, but no operation was in it; keel cannot see \
                         whether it was called",
                        zone.place
                    ));
                }
                (zone_outcome(&found), found.groups)
            }
        };
        checked.zones.push(ZoneResult { zone: zone.clone(), outcome, groups });
    }
    let unused = |(one, count): &(Suppression, u64)| {
        (*count == 0).then(|| format!("the suppression of `{}` accepted no call", one.symbol.0))
    };
    checked.suppressed = suppressions.iter().cloned().zip(accepted).collect();
    checked.notes.extend(checked.suppressed.iter().filter_map(unused));
    Ok(())
}

fn zone_outcome(found: &InZone) -> Outcome {
    if !found.groups.is_empty() {
        return Outcome::Broken;
    }
    if found.cut > 0 {
        return Outcome::Unknown(format!(
            "the call stacks of {} operations are cut off, so they may be in the zone: record more \
             calls (--stacks)",
            found.cut
        ));
    }
    Outcome::Kept
}
