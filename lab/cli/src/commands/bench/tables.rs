//! The tables of a bench, as text and as Markdown.

use super::archive::Archive;
use anyhow::Result;
use keel_results::PERCENTILES;
use keel_results::text::counted;
use keel_workloads::bars::{self, Bar, Standing, three_digits};
use keel_workloads::summary::{self, Metric, Over};
use keel_workloads::{Suite, Workload};

/// A table: the first column is text, the others are numbers.
struct Grid {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// All tables for the terminal.
pub fn text(archive: &Archive, with_bars: bool) -> Result<String> {
    Ok(grids(archive, with_bars)?.iter().map(Grid::text).collect())
}

/// All tables as Markdown, with the machine and the allocators.
pub fn markdown(archive: &Archive, with_bars: bool) -> Result<String> {
    let machine = &archive.machine;
    let mut text = format!(
        "# {} bench, {}\n\n{}, {} processors, {}, huge pages: {}; {}; commit {}; load before: {}; \
            {}{}.\n",
        archive.suite_name(),
        archive.date,
        machine.cpu,
        machine.cpus,
        machine.kernel,
        machine.huge_pages,
        machine.libc,
        archive.commit,
        archive.load_before,
        counted(archive.runs.into(), "round"),
        if archive.stopped { " (stopped before the end)" } else { "" }
    );
    text += "\nMedian over the rounds, with minimum and maximum in brackets. The cost of \
             reading the clock is subtracted from percentiles. The noise of the machine in the \
             same run is subtracted from the worst calls.\n\n";
    for one in &archive.contestants {
        text += &format!(
            "- `{}` {} {}\n",
            archive.label(&one.name),
            one.version,
            one.settings.join(" ")
        );
    }
    text.extend(grids(archive, with_bars)?.iter().map(Grid::markdown));
    Ok(text)
}

fn grids(archive: &Archive, with_bars: bool) -> Result<Vec<Grid>> {
    let mut grids = Vec::new();
    for workload in &archive.workloads {
        let title = format!("{}: {}", workload.name, workload.about);
        if workload.suite == Suite::Throughput {
            grids.push(throughput(archive, workload, title));
        } else if let Some(grid) = resident(archive, workload, &title) {
            grids.push(grid);
        }
        for event in summary::events_of(&archive.samples, &workload.name) {
            grids.push(event_grid(archive, workload, &event));
        }
    }
    grids.extend(matrix(archive));
    grids.extend(failures(archive));
    if with_bars {
        grids.extend(bars_grid(archive, &bars::all().map_err(anyhow::Error::msg)?));
    }
    Ok(grids)
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn spread(over: Option<Over>) -> String {
    over.map_or("-".to_owned(), |over| {
        format!("{} ({} .. {})", number(over.median), number(over.least), number(over.most))
    })
}

fn median(over: Option<Over>) -> String {
    over.map_or("-".to_owned(), |over| number(over.median))
}

fn number(value: f64) -> String {
    three_digits(value)
}

/// `1.30`: the median as a multiple of the best other allocator's.
fn ratio(
    archive: &Archive,
    workload: &str,
    metric: Metric,
    event: Option<&str>,
    name: &str,
) -> String {
    let mine = summary::over(&archive.samples, workload, event, name, metric);
    let others: Vec<String> = archive.names().into_iter().filter(|other| other != name).collect();
    let best = summary::best_peer(&archive.samples, workload, event, metric, &others);
    match (mine, best) {
        (Some(mine), Some((_, best))) if best > 0.0 => format!("{:.2}", mine.median / best),
        _ => "-".to_owned(),
    }
}

fn throughput(archive: &Archive, workload: &Workload, title: String) -> Grid {
    let row = |name: String| {
        let over = |metric| summary::over(&archive.samples, &workload.name, None, &name, metric);
        vec![
            archive.label(&name),
            spread(over(Metric::Pair)),
            ratio(archive, &workload.name, Metric::Pair, None, &name),
            spread(over(Metric::Cpu)),
            median(over(Metric::Peak)),
        ]
    };
    Grid {
        title,
        head: strings(&["", "ns per pair", "x best peer", "CPU s", "peak MB"]),
        rows: archive.names().into_iter().map(row).collect(),
    }
}

fn resident(archive: &Archive, workload: &Workload, title: &str) -> Option<Grid> {
    let over =
        |name: &str, metric| summary::over(&archive.samples, &workload.name, None, name, metric);
    let names = archive.names();
    names.iter().find_map(|name| over(name, Metric::Resident))?;
    let row = |name: &String| {
        vec![
            archive.label(name),
            spread(over(name, Metric::Resident)),
            median(over(name, Metric::Peak)),
        ]
    };
    Some(Grid {
        title: title.to_owned(),
        head: strings(&["", "still resident MB", "peak MB"]),
        rows: names.iter().map(row).collect(),
    })
}

fn event_grid(archive: &Archive, workload: &Workload, event: &str) -> Grid {
    let row = |name: String| {
        let over =
            |metric| summary::over(&archive.samples, &workload.name, Some(event), &name, metric);
        let (calls, interrupted) = summary::calls(&archive.samples, &workload.name, event, &name);
        let counted = summary::counted(&archive.samples, &workload.name, event, &name);
        let optional = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
        let mut row = vec![
            archive.label(&name),
            spread(over(Metric::WorstExcess)),
            median(over(Metric::Noise)),
            median(over(Metric::Mean)),
        ];
        row.extend((0..PERCENTILES.len()).map(|index| median(over(Metric::Percentile(index)))));
        row.extend([
            calls.to_string(),
            interrupted.to_string(),
            optional(counted.map(|counted| counted.faulting_calls)),
            optional(counted.and_then(|counted| counted.system_calls)),
        ]);
        row
    };
    let mut head = strings(&["", "worst excess µs", "noise µs", "mean ns"]);
    head.extend(PERCENTILES.map(|percentile| percentile.label.to_owned()));
    head.extend(strings(&["calls", "interrupted", "with fault", "with syscall"]));
    Grid {
        title: format!("{}, {event}", workload.name),
        head,
        rows: archive.names().into_iter().map(row).collect(),
    }
}

/// All throughput workloads in one table.
fn matrix(archive: &Archive) -> Option<Grid> {
    let columns: Vec<&Workload> =
        archive.workloads.iter().filter(|one| one.suite == Suite::Throughput).collect();
    if columns.len() < 2 {
        return None;
    }
    let mut head = vec![String::new()];
    head.extend(columns.iter().map(|one| one.name.clone()));
    let row = |name: String| {
        let mut row = vec![archive.label(&name)];
        row.extend(columns.iter().map(|one| {
            median(summary::over(&archive.samples, &one.name, None, &name, Metric::Pair))
        }));
        row
    };
    let rows = archive.names().into_iter().map(row).collect();
    Some(Grid { title: "throughput, ns per pair".to_owned(), head, rows })
}

fn failures(archive: &Archive) -> Option<Grid> {
    let mut rows = Vec::new();
    for workload in &archive.workloads {
        for name in archive.names() {
            if let Some(reason) = summary::failure(&archive.samples, &workload.name, &name) {
                rows.push(vec![format!("{} on {name}", workload.name), reason.replace('\n', " ")]);
            }
        }
    }
    let head = strings(&["", "reason"]);
    (!rows.is_empty()).then(|| Grid { title: "runs that failed".to_owned(), head, rows })
}

/// Every target that the samples can be compared with, for every variant of Keel.
fn bars_grid(archive: &Archive, bars: &[Bar]) -> Option<Grid> {
    let names = archive.names();
    let keels: Vec<&String> = names.iter().filter(|name| summary::is_keel(name)).collect();
    let mut rows = Vec::new();
    for bar in bars {
        let one = std::slice::from_ref(bar);
        let standing = |name: &String| bars::standings(one, &archive.samples, &names, name).pop();
        let standings: Vec<Option<Standing>> = keels.iter().map(|name| standing(name)).collect();
        let Some(found) = standings.iter().flatten().next() else { continue };
        let mut row = vec![description(bar), allowance(found)];
        row.extend(standings.iter().map(|standing| match standing {
            Some(standing) => format!("{}: {}", number(standing.value), standing.verdict()),
            None => "-".to_owned(),
        }));
        row.push(bar.source.clone());
        rows.push(row);
    }
    let mut head = strings(&["", "allowed"]);
    head.extend(keels.into_iter().cloned());
    head.push("source of the target".to_owned());
    (!rows.is_empty()).then(|| Grid { title: "Keel and its targets".to_owned(), head, rows })
}

fn description(bar: &Bar) -> String {
    let event = bar.event.as_ref().map_or(String::new(), |event| format!(", {event}"));
    format!("{}{event}: {}", bar.workload, bar.metric)
}

fn allowance(standing: &Standing) -> String {
    let unit = Metric::by_name(&standing.bar.metric).map_or("", Metric::unit);
    match &standing.rival {
        None => format!("{} {unit}", number(standing.allowed)),
        Some(rival) => {
            format!(
                "{} x {rival} = {} {unit}",
                number(standing.bar.at_most),
                number(standing.allowed)
            )
        }
    }
}

impl Grid {
    fn text(&self) -> String {
        let rows = || std::iter::once(&self.head).chain(&self.rows);
        let width = |column: usize| {
            rows()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells =
                row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                    0 => format!("    {cell:<width$}"),
                    _ => format!("  {cell:>width$}"),
                });
            cells.collect::<String>().trim_end().to_owned() + "\n"
        };
        format!("{}\n{}\n", self.title, rows().map(line).collect::<String>())
    }

    fn markdown(&self) -> String {
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule: String =
            (0..self.head.len()).map(|column| if column == 0 { "|---" } else { "|---:" }).collect();
        let rows: String = self.rows.iter().map(line).collect();
        format!("\n## {}\n\n{}{rule}|\n{rows}", self.title, line(&self.head))
    }
}
