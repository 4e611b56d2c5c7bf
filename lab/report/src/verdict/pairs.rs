//! Two allocators compared: each figure of both, their ratio round by round, and the conclusion.
//!
//! The 95 % interval of a ratio is for that figure alone. An allocator is called lower only where
//! the results say so, whose intervals are widened for the number of allocators
//! (`docs/decisions/0052-statistics.md`). Nothing is corrected for the number of figures, and the
//! text states that.

use super::criteria::{FEW_RUNS, SLIGHT};
use crate::error::ReportError;
use crate::figures::{
    AllocatorFigures, FLOOR, Spread, complete, figures, operations, ratio, short,
};
use crate::words::{WIDEST, bytes, duration, escape_cell as escape, list, ratio as number};
use keel_results::{ALL_OPERATIONS, Comparison, FRAME, Interval, PERCENTILES, RUN, figure_label};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Figures of whole runs, in the order of the table.
const RUN_FIGURES: [&str; 3] = ["throughput", "elapsed", "peak"];

/// The sentences on a pair. Words in braces are placeholders. The page fills in the same phrases.
#[derive(Debug, Serialize)]
pub struct PairPhrases {
    /// Ratios between `1 / slight` and `slight` are irrelevant for a choice.
    pub slight: f64,
    /// Ends of an interval beyond this factor are not printed.
    pub widest: f64,
    /// Fewer rounds than this are reported as few.
    pub few_rounds: usize,
    /// Heading of the column of conclusions.
    pub heading: &'static str,
    /// `{name}` is significantly lower.
    pub lower: &'static str,
    /// The same, with a ratio within `slight`.
    pub slightly_lower: &'static str,
    /// The interval of the figure alone excludes 1; corrected for the number of allocators it does
    /// not.
    pub possibly: &'static str,
    /// The interval includes 1.
    pub same: &'static str,
    /// Fewer than two rounds.
    pub one_round: &'static str,
    /// No figure has two rounds.
    pub nothing: &'static str,
    /// All figures together.
    pub conclusion: &'static str,
    /// Follows the conclusion if some figures have the phrase `possibly`.
    pub some_possibly: &'static str,
    /// Explains the columns of the table.
    pub columns: &'static str,
    /// Follows the conclusion if the rounds are few.
    pub few: &'static str,
}

/// The only definition of these sentences.
pub const PAIR_PHRASES: PairPhrases = PairPhrases {
    slight: SLIGHT,
    widest: WIDEST,
    few_rounds: FEW_RUNS,
    heading: "conclusion",
    lower: "{name} lower",
    slightly_lower: "{name} lower, by less than half a percent",
    possibly: "{name} possibly lower",
    same: "no significant difference",
    one_round: "unknown: one run",
    nothing: "There are fewer than two rounds with both allocators, so no difference can be \
        significant.",
    conclusion: "{a} is significantly lower in {a_lower} of {known} metrics, and {b} in {b_lower}. \
        The other {same} show no significant difference.",
    some_possibly: " The mark \u{201c}possibly lower\u{201d} stands on {possible} of these: such a \
        difference would be significant if only these two allocators had been compared. (With more \
        allocators, more differences appear by chance, so the test is stricter.)",
    columns: " The test is not corrected for the number of metrics: of many, a few differ by \
        chance. The columns {a} and {b} show medians of the runs. In a round, each allocator runs \
        once. The ratio is the geometric mean of the ratios in the rounds, so it can differ from \
        the ratio of the medians. Rounds in which the processor was slower than usual do not count \
        if at least five others remain. If at least eight rounds count, the lowest and the highest \
        fifth of their ratios are left out. The 95 % interval of the ratio is not corrected for \
        the number of allocators.",
    few: " Each allocator ran only {rounds} times. Compare again with more rounds (--runs) before \
        you decide.",
};

/// Replaces each `{name}` by its value.
fn fill(phrase: &str, values: &[(&str, &dyn std::fmt::Display)]) -> String {
    let fill_one = |text: String, (name, value): &(&str, &dyn std::fmt::Display)| {
        text.replace(&format!("{{{name}}}"), &value.to_string())
    };
    values.iter().fold(phrase.to_owned(), fill_one)
}

/// The pairs of a comparison for the page: by operation and figure.
pub type PairFigures = BTreeMap<String, BTreeMap<String, PairFigure>>;

/// Two allocators by their indices in the table, the lower index first.
#[derive(Debug, Serialize)]
pub struct PairFacts {
    /// The indices.
    pub of: [usize; 2],
    /// The ratios.
    pub figures: PairFigures,
}

/// The second allocator's figure over the first one's. Serialized as `[value, low, high, rounds,
/// lower]`; `lower` is -1 if the first is lower, 1 if the second is, else 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairFigure {
    ratio: Interval,
    rounds: u32,
    lower: i8,
}

impl Serialize for PairFigure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Interval { value, low, high } = self.ratio;
        let (rounds, lower) = (f64::from(self.rounds), f64::from(self.lower));
        [short(value), short(low), short(high), rounds, lower].serialize(serializer)
    }
}

/// Every pair of the results. Figures have the identifiers of the page: `p999` for `p99.9`.
pub fn all_pairs(comparison: &Comparison) -> Vec<PairFacts> {
    let index = |name: &str| comparison.allocators.iter().position(|one| one.name == name);
    let mut found: BTreeMap<[usize; 2], PairFigures> = BTreeMap::new();
    for pair in &comparison.paired {
        let (Some(a), Some(b)) = (index(&pair.a), index(&pair.b)) else { continue };
        let lower = match pair.lower.as_str() {
            "a" => -1,
            "b" => 1,
            _ => 0,
        };
        let figure = PairFigure { ratio: pair.ratio, rounds: pair.rounds, lower };
        let of_operation =
            found.entry([a, b]).or_default().entry(pair.operation.clone()).or_default();
        of_operation.insert(pair.figure.replace('.', ""), figure);
    }
    found.into_iter().map(|(of, figures)| PairFacts { of, figures }).collect()
}

/// Two allocators in every figure that both have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Name of the first allocator.
    pub a: String,
    /// Name of the second allocator.
    pub b: String,
    /// The conclusion, in sentences.
    pub words: String,
    /// The figures.
    pub rows: Vec<PairRow>,
}

/// One figure of two allocators.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairRow {
    /// `malloc` ... , `all`, `frame` (the time inside calls of one frame) or `run`.
    pub operation: String,
    /// `mean`, `p50` ... `p99.999`, `worst`; of a run `throughput` (ns per operation, in runs that
    /// do not time each call), `elapsed`, `peak`.
    pub figure: String,
    /// The first allocator's median over runs: ns, or bytes for `peak`.
    pub a: f64,
    /// The second allocator's.
    pub b: f64,
    /// The first one's figure over the second one's: trimmed geometric mean of the ratios of
    /// the rounds, with its 95 % interval; None for fewer than two rounds.
    pub ratio: Option<Interval>,
    /// Rounds whose ratios count.
    pub rounds: u32,
    /// `a` or `b` if that one is significantly lower, else empty.
    pub lower: &'static str,
}

impl PairRow {
    /// The conclusion on this figure.
    fn words(&self, pair: &Pair) -> String {
        let name = match self.lower {
            "a" => &pair.a,
            "b" => &pair.b,
            _ => return self.uncertain(pair),
        };
        let slight = self.ratio.is_some_and(|ratio| ratio.value.max(1.0 / ratio.value) < SLIGHT);
        let phrase = if slight { PAIR_PHRASES.slightly_lower } else { PAIR_PHRASES.lower };
        fill(phrase, &[("name", name)])
    }

    /// Whether only the correction for the number of allocators makes the difference not
    /// significant.
    fn is_possibly_lower(&self) -> bool {
        let excludes_1 = |ratio: Interval| ratio.high < 1.0 || ratio.low > 1.0;
        self.lower.is_empty() && self.ratio.is_some_and(excludes_1)
    }

    fn uncertain(&self, pair: &Pair) -> String {
        let possibly = |name| fill(PAIR_PHRASES.possibly, &[("name", name)]);
        match self.ratio {
            None => PAIR_PHRASES.one_round.to_owned(),
            Some(ratio) if ratio.high < 1.0 => possibly(&pair.a),
            Some(ratio) if ratio.low > 1.0 => possibly(&pair.b),
            Some(_) => PAIR_PHRASES.same.to_owned(),
        }
    }

    fn cells(&self, pair: &Pair) -> [String; 7] {
        let format = if self.figure == "peak" { bytes } else { duration };
        let (ratio, interval) = match self.ratio {
            Some(Interval { value, low, high }) => {
                let [value, low, high] = [value, low, high].map(|one| number(one, 3));
                (value, format!("{low} – {high}"))
            }
            None => ("–".to_owned(), "–".to_owned()),
        };
        let (a, b) = (format(self.a), format(self.b));
        [self.operation.clone(), self.figure.clone(), a, b, ratio, interval, self.words(pair)]
    }
}

impl Pair {
    /// Titles and rows, for a terminal.
    pub fn table(&self) -> Vec<[String; 7]> {
        let titles =
            ["", "metric", &self.a, &self.b, "ratio", "95 % interval", PAIR_PHRASES.heading]
                .map(str::to_owned);
        let mut rows = vec![titles];
        let mut last = "";
        for row in &self.rows {
            let mut cells = row.cells(self);
            if row.operation == last {
                cells[0].clear();
            }
            last = &row.operation;
            rows.push(cells);
        }
        rows
    }

    /// The same as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "### {} and {}\n\n{}\n\n",
            escape(&self.a),
            escape(&self.b),
            escape(&self.words)
        );
        for (at, row) in self.table().iter().enumerate() {
            let _ = writeln!(text, "| {} |", row.each_ref().map(|cell| escape(cell)).join(" | "));
            if at == 0 {
                text.push_str("|---|---|---:|---:|---:|---:|---|\n");
            }
        }
        text
    }

    /// The conclusion on all figures together.
    fn conclusion(&self) -> String {
        let known = || self.rows.iter().filter(|row| row.ratio.is_some());
        let Some(rounds) = known().map(|row| row.rounds).min() else {
            return PAIR_PHRASES.nothing.to_owned();
        };
        let lower = |side| self.rows.iter().filter(|row| row.lower == side).count();
        let (known, a, b) = (known().count(), lower("a"), lower("b"));
        let mut text = fill(
            PAIR_PHRASES.conclusion,
            &[
                ("known", &known),
                ("a_lower", &a),
                ("b_lower", &b),
                ("same", &(known - a - b)),
                ("a", &self.a),
                ("b", &self.b),
            ],
        );
        let possible = self.rows.iter().filter(|row| row.is_possibly_lower()).count();
        if possible > 0 {
            text.push_str(&fill(PAIR_PHRASES.some_possibly, &[("possible", &possible)]));
        }
        text.push_str(&fill(PAIR_PHRASES.columns, &[("a", &self.a), ("b", &self.b)]));
        if (rounds as usize) < FEW_RUNS {
            text.push_str(&fill(PAIR_PHRASES.few, &[("rounds", &rounds)]));
        }
        text
    }
}

/// Compares two allocators in every figure that both have, in the order of tables.
///
/// Errors: [`ReportError::Pair`] for an unknown name, the same name twice, or the floor.
pub fn pair(comparison: &Comparison, a: &str, b: &str) -> Result<Pair, ReportError> {
    let mut comparison = comparison.clone();
    complete(&mut comparison, FLOOR);
    let allocators = figures(&comparison, None);
    let indices = [find(&allocators, a)?, find(&allocators, b)?];
    if indices[0] == indices[1] {
        return Err(ReportError::Pair(format!("{a} and {b} are the same allocator: name two")));
    }
    let mut pair =
        Pair { a: a.to_owned(), b: b.to_owned(), words: String::new(), rows: Vec::new() };
    let latencies =
        || ["mean"].into_iter().chain(PERCENTILES.map(|one| one.column)).chain(["worst"]);
    for operation in operations(allocators.iter()).into_iter().chain([ALL_OPERATIONS, FRAME]) {
        pair.rows.extend(
            latencies()
                .filter_map(|figure| row(&comparison, &allocators, indices, operation, figure)),
        );
    }
    let of_run =
        RUN_FIGURES.iter().filter_map(|figure| row(&comparison, &allocators, indices, RUN, figure));
    pair.rows.extend(of_run);
    pair.words = pair.conclusion();
    Ok(pair)
}

/// The index of an allocator that was measured and competes.
fn find(allocators: &[AllocatorFigures], name: &str) -> Result<usize, ReportError> {
    let competes = |one: &&AllocatorFigures| one.runs > 0 && !one.floor;
    let names =
        || allocators.iter().filter(competes).map(|one| one.name.as_str()).collect::<Vec<_>>();
    let found = allocators.iter().position(|one| one.name == name && one.runs > 0);
    let found = found.ok_or_else(|| {
        ReportError::Pair(format!(
            "there are no results for the allocator {name}; there are results for {}",
            list(&names())
        ))
    })?;
    match allocators[found].floor {
        true => Err(ReportError::Pair(format!(
            "{name} does nothing and is not compared with others: choose two of {}",
            list(&names())
        ))),
        false => Ok(found),
    }
}

fn row(
    comparison: &Comparison,
    allocators: &[AllocatorFigures],
    indices: [usize; 2],
    operation: &str,
    figure: &str,
) -> Option<PairRow> {
    let median =
        |index: usize| spread(&allocators[index], operation, figure).map(|spread| spread.median);
    let [a, b] = [median(indices[0])?, median(indices[1])?];
    if a == 0.0 && b == 0.0 {
        return None; // not measured
    }
    let ratio = ratio(comparison, operation, figure, indices[1], indices[0]);
    let names = indices.map(|index| comparison.allocators[index].name.as_str());
    let found = comparison.paired.iter().find(|pair| {
        pair.operation == operation
            && pair.figure == figure_label(figure)
            && names.contains(&pair.a.as_str())
            && names.contains(&pair.b.as_str())
    });
    let lowest = found.and_then(|pair| match pair.lower.as_str() {
        "a" => Some(pair.a.as_str()),
        "b" => Some(pair.b.as_str()),
        _ => None,
    });
    let lower = match lowest {
        Some(name) if name == names[0] => "a",
        Some(_) => "b",
        None => "",
    };
    Some(PairRow {
        operation: operation.to_owned(),
        figure: figure_label(figure).to_owned(),
        a,
        b,
        ratio: ratio.map(|ratio| ratio.interval),
        rounds: found.map_or(0, |pair| pair.rounds),
        lower,
    })
}

fn spread(one: &AllocatorFigures, operation: &str, figure: &str) -> Option<Spread> {
    match operation {
        RUN => one.figures.get(figure).copied(),
        FRAME => one.frames.get(figure).copied(),
        _ => {
            let summary = one.operations.get(operation)?;
            match figure {
                "mean" => Some(summary.mean),
                "worst" => Some(summary.worst),
                percentile => summary.percentiles.get(percentile).copied(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::figures::sample::comparison;

    fn found(allocators: &[(&str, &[u64])], a: &str, b: &str) -> Pair {
        pair(&comparison(allocators), a, b).unwrap()
    }

    fn p50(pair: &Pair) -> PairRow {
        let mut rows =
            pair.rows.iter().filter(|row| row.operation == "malloc" && row.figure == "p50");
        rows.next().unwrap().clone()
    }

    const THREE: [(&str, &[u64]); 4] = [
        ("one", &[100, 150, 120, 130]),
        ("two", &[200, 300, 240, 260]),
        ("three", &[200, 140, 260, 250]),
        ("null", &[5, 5, 5, 5]),
    ];

    #[test]
    fn any_two_are_compared_in_both_orders() {
        let (there, back) = (found(&THREE, "one", "two"), found(&THREE, "two", "one"));
        let (there_row, back_row) = (p50(&there), p50(&back));
        let (up, down) = (there_row.ratio.unwrap(), back_row.ratio.unwrap());
        assert!(
            (up.value - 0.5).abs() < 0.01 && (up.value * down.value - 1.0).abs() < 1e-9,
            "{up:?}"
        );
        assert!((up.low * down.high - 1.0).abs() < 1e-9, "{up:?} {down:?}");
        assert_eq!((there_row.lower, back_row.lower, there_row.rounds), ("a", "b", 4));
        assert!(
            there.markdown().contains("| one lower |") && back.markdown().contains("| one lower |")
        );
        assert!(there.words.contains("one is significantly lower in"), "{}", there.words);
        assert!(!there.words.contains("ran only"), "{}", there.words);
    }

    #[test]
    fn differences_that_are_not_significant_are_not_claimed() {
        let close = found(&THREE, "two", "three");
        assert_eq!(p50(&close).lower, "");
        assert!(close.words.starts_with("two is significantly lower in 0 of "), "{}", close.words);
        assert!(close.words.contains(", and three in 0. "), "{}", close.words);
        assert!(close.markdown().contains("no significant difference"), "{}", close.markdown());

        let leaning = found(
            &[
                ("one", &[10_000, 10_000, 10_000]),
                ("two", &[10_710, 11_050, 11_405]),
                ("three", &[50_000, 1_000, 9_000]),
                ("four", &[100, 90_000, 7_000]),
            ],
            "one",
            "two",
        );
        assert_eq!(p50(&leaning).lower, "", "{leaning:?}");
        assert_eq!(
            p50(&leaning).words(&leaning),
            "one possibly lower",
            "significant only without correction"
        );
        let possible = leaning.rows.iter().filter(|row| row.is_possibly_lower()).count();
        let counted = format!("“possibly lower” stands on {possible} of these: ");
        assert!(possible > 0 && leaning.words.contains(&counted), "{}", leaning.words);
        assert!(!close.words.contains("possibly lower"), "{}", close.words);

        let single = found(&[("one", &[100]), ("two", &[900])], "one", "two");
        assert!(
            single.rows.iter().all(|row| row.ratio.is_none() && row.lower.is_empty()),
            "{single:?}"
        );
        assert!(single.words.starts_with("There are fewer than two rounds"), "{}", single.words);

        let few = found(&[("one", &[100, 101]), ("two", &[900, 903])], "one", "two");
        assert!(
            few.words.contains("only 2 times") && few.words.ends_with("before you decide."),
            "{}",
            few.words
        );
    }

    #[test]
    fn a_significant_but_slight_lead_is_called_slight() {
        let close =
            [("one", &[100_000, 100_000, 100_000][..]), ("two", &[100_300, 100_300, 100_300][..])];
        let pair = found(&close, "one", "two");
        let mean =
            pair.rows.iter().find(|row| row.operation == "malloc" && row.figure == "mean").unwrap();
        assert_eq!(mean.words(&pair), "one lower, by less than half a percent");
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let comparison = comparison(&THREE);
        let refused = |a, b| pair(&comparison, a, b).unwrap_err().to_string();
        assert_eq!(
            refused("one", "four"),
            "there are no results for the allocator four; there are results for one, two and three"
        );
        assert!(refused("null", "one").contains("does nothing"));
        assert!(refused("one", "one").contains("name two"));
    }

    #[test]
    fn the_page_holds_every_pair_once() {
        let pairs = all_pairs(&comparison(&THREE));
        assert_eq!(pairs.iter().map(|pair| pair.of).collect::<Vec<_>>(), [[0, 1], [0, 2], [1, 2]]);
        let figure = pairs[0].figures["malloc"]["p50"];
        assert_eq!((figure.rounds, figure.lower), (4, -1));
        let text = serde_json::to_string(&figure).unwrap();
        assert!(text.ends_with(",4.0,-1.0]"), "{text}");
    }
}
