//! The budget file: limits, zones and suppressions, in TOML.

use crate::amount::Amount;
use crate::metric::{METRICS, Metric};
use crate::scope::{CallKind, Scope, ZonePlace};
use serde::Deserialize;
use std::fmt;

/// What a program has to keep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    /// Limits on counts.
    pub limits: Vec<Limited>,
    /// Where the program must neither allocate nor free.
    pub zones: Vec<Zone>,
    /// Calls that zones accept.
    pub suppressions: Vec<Suppression>,
    /// How limits that need a replay are counted.
    pub replay: Replay,
    /// Limits on latency.
    pub gates: Vec<Gate>,
}

/// A limit on a figure of an allocator's latency, relative to a baseline that is replayed on the
/// same machine in the same rounds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// The allocator, as for `keel compare`.
    pub allocator: Name,
    /// The allocator that it is compared with; None: the same one, on the baseline journal.
    pub baseline: Option<Name>,
    /// The operation.
    #[serde(default = "usual_operation")]
    pub operation: Name,
    /// `mean`, `p50`, `p99`, `p99.9`, `worst` and others.
    #[serde(default = "usual_figure")]
    pub figure: Name,
    /// The greatest accepted ratio.
    pub at_most: f64,
    /// Whether a gate that the rounds do not decide counts as one that cannot be checked.
    #[serde(default)]
    pub strict: bool,
    /// The number of rounds.
    #[serde(default = "usual_rounds")]
    pub rounds: u32,
}

impl fmt::Display for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gate { allocator, baseline, operation, figure, .. } = self;
        let base = baseline.as_ref().map_or("the baseline", |name| &name.0);
        write!(formatter, "{} of {} on {}, beside {base}", figure.0, operation.0, allocator.0)
    }
}

fn usual_operation() -> Name {
    Name("malloc".to_owned())
}

fn usual_figure() -> Name {
    Name("p99.9".to_owned())
}

fn usual_rounds() -> u32 {
    12
}

/// How [`Metric::is_replayed`] metrics are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The allocator, as for `keel compare`.
    pub allocator: Option<Name>,
}

/// The limits of one scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// What they concern.
    pub scope: Scope,
    /// The greatest accepted counts, in the order of [`METRICS`].
    pub limits: Vec<(Metric, u64)>,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Where.
    pub place: ZonePlace,
    /// What is left out at the beginning: the first passes of a zone of marks or of a scope, the
    /// first frames of other zones.
    pub warm_up: u64,
    /// Calls that it must not make either.
    pub also: Vec<CallKind>,
}

/// A call that zones accept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suppression {
    /// A function in the call's stack.
    pub symbol: Name,
    /// Why it is accepted.
    pub reason: Reason,
}

/// A text that must not be empty.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(pub String);

/// Why a call is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Reason(pub String);

impl TryFrom<String> for Name {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Name, &'static str> {
        if text.is_empty() { Err("the name is empty") } else { Ok(Name(text)) }
    }
}

impl TryFrom<String> for Reason {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Reason, &'static str> {
        if text.trim().is_empty() {
            return Err("the reason is empty: state why this call is accepted");
        }
        Ok(Reason(text))
    }
}

/// Why a budget file cannot be used. The message names the line.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.to_string().trim_end())]
pub struct BudgetError(toml::de::Error);

impl Budget {
    /// Reads a budget file.
    ///
    /// # Errors
    /// It is not TOML, or has an unknown table or key, or a value that makes no sense.
    pub fn parse(text: &str) -> Result<Budget, BudgetError> {
        let file: File = toml::from_str(text).map_err(BudgetError)?;
        let mut limits: Vec<Limited> = Vec::new();
        limits.extend(file.run.map(|table| table.0));
        limits.extend(file.frame.map(|table| table.0));
        limits.extend(file.thread.into_iter().map(|table| table.0));
        limits.extend(file.between.into_iter().map(|table| table.0));
        limits.extend(file.call_site.into_iter().map(|table| table.0));
        limits.extend(file.within.into_iter().map(|table| table.0));
        let (zones, suppressions) = (file.zone, file.suppress);
        Ok(Budget { limits, zones, suppressions, replay: file.replay, gates: file.latency })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    run: Option<Run>,
    frame: Option<Frame>,
    #[serde(default)]
    thread: Vec<Thread>,
    #[serde(default)]
    between: Vec<Between>,
    #[serde(default)]
    call_site: Vec<CallSite>,
    #[serde(default)]
    within: Vec<Within>,
    #[serde(default)]
    zone: Vec<Zone>,
    #[serde(default)]
    suppress: Vec<Suppression>,
    #[serde(default)]
    replay: Replay,
    #[serde(default)]
    latency: Vec<Gate>,
}

/// A table of limits: `$name` is what the file has, with the fields of its scope and all metrics.
/// (serde cannot refuse unknown keys of tables that share fields by `flatten`.)
macro_rules! table {
    ($name:ident, $raw:ident, $text:literal, { $($field:ident: $type:ty),* }, $scope:expr) => {
        #[derive(Deserialize)]
        #[serde(try_from = $text)]
        struct $name(Limited);

        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct $raw {
            $($field: $type,)*
            operations: Option<Amount>,
            allocations: Option<Amount>,
            frees: Option<Amount>,
            bytes: Option<Amount>,
            live_peak: Option<Amount>,
            largest: Option<Amount>,
            never_freed: Option<Amount>,
            with_page_faults: Option<Amount>,
            with_system_calls: Option<Amount>,
        }

        impl TryFrom<$raw> for $name {
            type Error = String;

            fn try_from(raw: $raw) -> Result<$name, String> {
                let amounts = [
                    raw.operations,
                    raw.allocations,
                    raw.frees,
                    raw.bytes,
                    raw.live_peak,
                    raw.largest,
                    raw.never_freed,
                    raw.with_page_faults,
                    raw.with_system_calls,
                ];
                $(let $field = raw.$field;)*
                Ok($name(Limited { scope: $scope, limits: set(amounts)? }))
            }
        }
    };
}

table!(Run, RawRun, "RawRun", {}, Scope::Run);
table!(Frame, RawFrame, "RawFrame", { warm_up: Option<u64> },
    Scope::Frame { warm_up: warm_up.unwrap_or(0) });
table!(Thread, RawThread, "RawThread", { name: Name }, Scope::Threads(name.0));
table!(Between, RawBetween, "RawBetween", { from: Name, to: Name },
    Scope::Between { from: from.0, to: to.0 });
table!(CallSite, RawCallSite, "RawCallSite", { function: Name }, Scope::CallSite(function.0));
table!(Within, RawWithin, "RawWithin", { function: Name }, Scope::Within(function.0));

/// The limits that a table sets.
fn set(amounts: [Option<Amount>; METRICS.len()]) -> Result<Vec<(Metric, u64)>, String> {
    let both = METRICS.into_iter().zip(amounts);
    let limits: Vec<(Metric, u64)> =
        both.filter_map(|(metric, amount)| Some((metric, amount?.0))).collect();
    if limits.is_empty() {
        let names = METRICS.map(Metric::name).join(", ");
        return Err(format!("the table sets no limit: give at least one of {names}"));
    }
    Ok(limits)
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Zone, D::Error> {
        let raw = RawZone::deserialize(deserializer)?;
        let given = [
            ("thread", raw.thread),
            ("class", raw.class),
            ("marks", raw.marks),
            ("symbol", raw.symbol),
            ("scope", raw.scope),
        ];
        let mut given = given.into_iter().filter_map(|(kind, value)| Some((kind, value?)));
        let wrong = |text: &str| serde::de::Error::custom(text);
        let (Some((kind, value)), None) = (given.next(), given.next()) else {
            return Err(wrong(
                "a zone needs exactly one of `thread`, `class`, `marks`, `symbol` and `scope`",
            ));
        };
        let place = format!("{kind}={value}").parse();
        let place = place.map_err(|text: String| wrong(&text))?;
        let also: Result<Vec<CallKind>, String> = raw.also.iter().map(|one| one.parse()).collect();
        Ok(Zone { place, warm_up: raw.warm_up, also: also.map_err(|text| wrong(&text))? })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawZone {
    thread: Option<String>,
    class: Option<String>,
    marks: Option<String>,
    symbol: Option<String>,
    scope: Option<String>,
    #[serde(default)]
    warm_up: u64,
    #[serde(default)]
    also: Vec<String>,
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
