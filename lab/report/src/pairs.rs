//! Any two allocators against each other: each figure of both, their ratio round by round, and what that bears.
//!
//! A ratio's interval holds with 95 % for that figure alone. "Lower" is said only where the results say it, whose
//! intervals are widened for the number of allocators (`docs/decisions/0052-statistics.md`); for the number of figures
//! nothing is corrected, and the words say so.

use crate::ReportError;
use crate::contest::ratio;
use crate::model::{AllocatorFacts, Facts};
use crate::statistics::{Spread, short};
use crate::summary::{ALL_OPERATIONS, PERCENTILES, figure_name};
use crate::verdict::{FEW_RUNS, FLOOR, SLIGHT};
use crate::words::{bytes, duration};
use keel_results::{AllocatorResult, Comparison, FRAME, Interval, RUN, frame_figures};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Figures of whole runs, in the order of the table.
const RUN_FIGURES: [&str; 3] = ["throughput", "elapsed", "peak"];

/// A comparison's pairs for the page: by operation and figure.
pub type PairFigures = BTreeMap<String, BTreeMap<String, PairFigure>>;

/// Two allocators, by their places in the table, the earlier one first.
#[derive(Debug, Serialize)]
pub struct PairFacts {
    /// The two.
    pub of: [usize; 2],
    /// What is known of them.
    pub figures: PairFigures,
}

/// The second one's figure over the first one's. Written as `[value, low, high, rounds, lower]`, the last -1 where the
/// first is lower, 1 where the second is, else 0.
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

/// Every pair that the results hold. Figures have the names of the page: without a point.
pub fn all_pairs(comparison: &Comparison) -> Vec<PairFacts> {
    let place = |name: &str| comparison.allocators.iter().position(|one| one.name == name);
    let mut found: BTreeMap<[usize; 2], PairFigures> = BTreeMap::new();
    for pair in &comparison.paired {
        let (Some(a), Some(b)) = (place(&pair.a), place(&pair.b)) else { continue };
        let lower = match pair.lower.as_str() {
            "a" => -1,
            "b" => 1,
            _ => 0,
        };
        let figure = PairFigure { ratio: pair.ratio, rounds: pair.rounds, lower };
        let of_operation = found.entry([a, b]).or_default().entry(pair.operation.clone()).or_default();
        of_operation.insert(pair.figure.replace('.', ""), figure);
    }
    found.into_iter().map(|(of, figures)| PairFacts { of, figures }).collect()
}

/// The time inside calls of a frame, ns: over runs, by the names of the page.
pub fn frame_spreads(result: &AllocatorResult) -> BTreeMap<String, Spread> {
    let spread =
        |figure: keel_results::Figure| Some((figure.name.replace('.', ""), Spread::of(figure.plain())?));
    frame_figures(result).into_iter().filter_map(spread).collect()
}

/// Two allocators in every figure that both have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Their names.
    pub a: String,
    /// See `a`.
    pub b: String,
    /// What can be said, in sentences.
    pub words: String,
    /// The figures.
    pub rows: Vec<PairRow>,
}

/// One figure of two allocators.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairRow {
    /// `malloc` ... , `all`, `frame` (the time inside calls of one frame) or `run`.
    pub operation: String,
    /// `mean`, `p50` ... `p99.999`, `worst`; of a run `throughput` (ns an operation in runs that do not time each
    /// call), `elapsed`, `peak`.
    pub figure: String,
    /// The median over runs of each: ns, or bytes for `peak`.
    pub a: f64,
    /// See `a`.
    pub b: f64,
    /// a's figure over b's: geometric mean of the rounds' ratios, with its 95 % interval; None of fewer than two
    /// rounds.
    pub ratio: Option<Interval>,
    /// Rounds in which both ran.
    pub rounds: u32,
    /// `a` or `b` where the rounds bear that it is lower, else empty.
    pub lower: &'static str,
}

impl PairRow {
    /// What the rounds bear, in words.
    fn words(&self, pair: &Pair) -> String {
        let name = match self.lower {
            "a" => &pair.a,
            "b" => &pair.b,
            _ => return self.uncertain(pair),
        };
        let slight = self.ratio.is_some_and(|ratio| ratio.value.max(1.0 / ratio.value) < SLIGHT);
        format!("{name} lower{}", if slight { ", by less than half a percent" } else { "" })
    }

    fn uncertain(&self, pair: &Pair) -> String {
        match self.ratio {
            None => "one round tells nothing".to_owned(),
            Some(ratio) if ratio.high < 1.0 => format!("perhaps {} lower", pair.a),
            Some(ratio) if ratio.low > 1.0 => format!("perhaps {} lower", pair.b),
            Some(_) => "not told apart".to_owned(),
        }
    }

    fn cells(&self, pair: &Pair) -> [String; 7] {
        let format = if self.figure == "peak" { bytes } else { duration };
        let (ratio, interval) = match self.ratio {
            Some(Interval { value, low, high }) => (format!("{value:.3}"), format!("{low:.3} – {high:.3}")),
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
            ["", "figure", &self.a, &self.b, "ratio", "95 %", "what the rounds bear"].map(str::to_owned);
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
        let escape = |text: &str| text.replace('|', "\\|").replace('<', "&lt;").replace('`', "'");
        let mut text =
            format!("### {} and {}\n\n{}\n\n", escape(&self.a), escape(&self.b), escape(&self.words));
        for (at, row) in self.table().iter().enumerate() {
            let _ = writeln!(text, "| {} |", row.each_ref().map(|cell| escape(cell)).join(" | "));
            if at == 0 {
                text.push_str("|---|---|---:|---:|---:|---:|---|\n");
            }
        }
        text
    }

    /// What all rows together bear.
    fn conclusion(&self) -> String {
        let known = self.rows.iter().filter(|row| row.ratio.is_some()).count();
        if known == 0 {
            return "They ran in fewer than two rounds together: which is lower, and by how much, is not known.".into();
        }
        let lower = |side| self.rows.iter().filter(|row| row.lower == side).count();
        let (a, b) = (lower("a"), lower("b"));
        let rounds =
            self.rows.iter().filter(|row| row.ratio.is_some()).map(|row| row.rounds).min().unwrap_or(0);
        let few = if (rounds as usize) < FEW_RUNS {
            format!(" {rounds} rounds are few: compare with --runs 5 or more before deciding.")
        } else {
            String::new()
        };
        format!(
            "Of {known} figures {} is lower in {a}, {} in {b}; {} are not told apart. Each interval holds with 95 % \
             for its figure alone; \u{201c}lower\u{201d} is corrected for the number of allocators, \
             \u{201c}perhaps\u{201d} is not, and neither for the number of figures.{few}",
            self.a,
            self.b,
            known - a - b
        )
    }
}

/// Two allocators of a comparison in every figure that both have, in the order of tables.
///
/// Errors: [`ReportError::Pair`] for a name that it does not hold, the same name twice, or the floor.
pub fn pair(comparison: &Comparison, a: &str, b: &str) -> Result<Pair, ReportError> {
    let mut comparison = comparison.clone();
    crate::contest::complete(&mut comparison, FLOOR);
    let facts = crate::build::figures_of(&comparison);
    let places = [place(&facts, a)?, place(&facts, b)?];
    if places[0] == places[1] {
        return Err(ReportError::Pair(format!("{a} and {b} are the same allocator: name two")));
    }
    let mut pair = Pair { a: a.to_owned(), b: b.to_owned(), words: String::new(), rows: Vec::new() };
    let operations: Vec<&str> = facts.operations.iter().copied().chain([ALL_OPERATIONS, FRAME]).collect();
    let latencies = || ["mean"].into_iter().chain(PERCENTILES.map(|(name, _)| name)).chain(["worst"]);
    for operation in operations {
        pair.rows
            .extend(latencies().filter_map(|figure| row(&comparison, &facts, places, operation, figure)));
    }
    pair.rows.extend(RUN_FIGURES.iter().filter_map(|figure| row(&comparison, &facts, places, RUN, figure)));
    pair.words = pair.conclusion();
    Ok(pair)
}

fn place(facts: &Facts, name: &str) -> Result<usize, ReportError> {
    let contends = |one: &&AllocatorFacts| one.runs > 0 && !one.floor;
    let names = || facts.allocators.iter().filter(contends).map(|one| one.name.as_str()).collect::<Vec<_>>();
    let found = facts.allocators.iter().position(|one| one.name == name && one.runs > 0);
    let found = found.ok_or_else(|| {
        ReportError::Pair(format!(
            "no results of an allocator {name}: there are {}",
            crate::words::list(&names())
        ))
    })?;
    match facts.allocators[found].floor {
        true => Err(ReportError::Pair(format!(
            "{name} is the floor of the instrument and competes with nobody: choose two of {}",
            crate::words::list(&names())
        ))),
        false => Ok(found),
    }
}

fn row(
    comparison: &Comparison,
    facts: &Facts,
    places: [usize; 2],
    operation: &str,
    figure: &str,
) -> Option<PairRow> {
    let median =
        |index: usize| spread(&facts.allocators[index], operation, figure).map(|spread| spread.median);
    let [a, b] = [median(places[0])?, median(places[1])?];
    if a == 0.0 && b == 0.0 {
        return None; // not measured
    }
    let ratio = ratio(comparison, operation, figure, places[1], places[0]);
    let names = places.map(|index| comparison.allocators[index].name.as_str());
    let found = comparison.paired.iter().find(|pair| {
        pair.operation == operation
            && pair.figure == figure_name(figure)
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
        figure: figure_name(figure).to_owned(),
        a,
        b,
        ratio: ratio.map(|ratio| ratio.interval),
        rounds: found.map_or(0, |pair| pair.rounds),
        lower,
    })
}

fn spread(one: &AllocatorFacts, operation: &str, figure: &str) -> Option<Spread> {
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
    use crate::contest::tests::comparison;

    fn found(allocators: &[(&str, &[u64])], a: &str, b: &str) -> Pair {
        pair(&comparison(allocators), a, b).unwrap()
    }

    fn p50(pair: &Pair) -> PairRow {
        let mut rows = pair.rows.iter().filter(|row| row.operation == "malloc" && row.figure == "p50");
        rows.next().unwrap().clone()
    }

    const THREE: [(&str, &[u64]); 4] = [
        ("one", &[100, 150, 120, 130]),
        ("two", &[200, 300, 240, 260]),
        ("three", &[200, 140, 260, 250]),
        ("null", &[5, 5, 5, 5]),
    ];

    #[test]
    fn any_two_are_set_against_each_other_both_ways_round() {
        let (there, back) = (found(&THREE, "one", "two"), found(&THREE, "two", "one"));
        let (there_row, back_row) = (p50(&there), p50(&back));
        let (up, down) = (there_row.ratio.unwrap(), back_row.ratio.unwrap());
        assert!((up.value - 0.5).abs() < 0.01 && (up.value * down.value - 1.0).abs() < 1e-9, "{up:?}");
        assert!((up.low * down.high - 1.0).abs() < 1e-9, "{up:?} {down:?}");
        assert_eq!((there_row.lower, back_row.lower, there_row.rounds), ("a", "b", 4));
        assert!(there.markdown().contains("| one lower |") && back.markdown().contains("| one lower |"));
        assert!(there.words.contains("one is lower in"), "{}", there.words);
        assert!(!there.words.contains("few"), "{}", there.words);
    }

    #[test]
    fn what_the_rounds_do_not_bear_is_not_said() {
        let close = found(&THREE, "two", "three");
        assert_eq!(p50(&close).lower, "");
        assert!(close.words.contains("two is lower in 0, three in 0"), "{}", close.words);
        assert!(close.markdown().contains("not told apart"), "{}", close.markdown());

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
        assert_eq!(p50(&leaning).words(&leaning), "perhaps one lower", "certain only without correction");

        let single = found(&[("one", &[100]), ("two", &[900])], "one", "two");
        assert!(single.rows.iter().all(|row| row.ratio.is_none() && row.lower.is_empty()), "{single:?}");
        assert!(single.words.starts_with("They ran in fewer than two rounds"), "{}", single.words);

        let few = found(&[("one", &[100, 101]), ("two", &[900, 903])], "one", "two");
        assert!(few.words.ends_with("2 rounds are few: compare with --runs 5 or more before deciding."));
    }

    #[test]
    fn a_lead_that_is_certain_and_slight_is_called_slight() {
        let close = [("one", &[100_000, 100_000, 100_000][..]), ("two", &[100_300, 100_300, 100_300][..])];
        let pair = found(&close, "one", "two");
        let mean = pair.rows.iter().find(|row| row.operation == "malloc" && row.figure == "mean").unwrap();
        assert_eq!(mean.words(&pair), "one lower, by less than half a percent");
    }

    #[test]
    fn names_that_are_not_there_are_refused_with_those_that_are() {
        let comparison = comparison(&THREE);
        let refused = |a, b| pair(&comparison, a, b).unwrap_err().to_string();
        assert_eq!(refused("one", "four"), "no results of an allocator four: there are one, two and three");
        assert!(refused("null", "one").contains("competes with nobody"));
        assert!(refused("one", "one").contains("name two"));
    }

    #[test]
    fn the_page_gets_every_pair_once() {
        let pairs = all_pairs(&comparison(&THREE));
        assert_eq!(pairs.iter().map(|pair| pair.of).collect::<Vec<_>>(), [[0, 1], [0, 2], [1, 2]]);
        let figure = pairs[0].figures["malloc"]["p50"];
        assert_eq!((figure.rounds, figure.lower), (4, -1));
        let text = serde_json::to_string(&figure).unwrap();
        assert!(text.ends_with(",4.0,-1.0]"), "{text}");
    }
}
