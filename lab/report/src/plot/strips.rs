//! Charts over time beside the density: the budget of frames or audio buffers, and lateness.

use super::axes::{self, Scale};
use super::charts::{empty, line};
use super::colour::theme;
use super::scene::{Anchor, Rect, Scene, Shape};
use super::{Budget, Entry, PlotOptions};
use crate::ReportError;
use crate::operations::WINDOW_NS;
use crate::rows::{CountedRun, LATENESS_COLUMNS};
use crate::words::duration;

/// Shares of a budget that are counted.
const SHARES: [f64; 3] = [0.01, 0.05, 0.1];
/// Height of the strip and of a line of the table under it.
const STRIP: f32 = 230.0;
const LINE: f32 = 17.0;

/// Time in calls of each frame or buffer.
struct Pieces {
    /// When each begins, ns of the journal.
    begins: Vec<f64>,
    /// ns in calls.
    inside: Vec<f64>,
}

impl Pieces {
    fn over(&self, limit: f64) -> f64 {
        self.inside.iter().filter(|ns| **ns > limit).count() as f64 / self.inside.len().max(1) as f64
    }

    fn worst(&self) -> (usize, f64) {
        let pieces = self.inside.iter().copied().enumerate();
        pieces.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
    }
}

fn counted<'a>(entry: &'a Entry<'_, '_>) -> Result<&'a CountedRun, ReportError> {
    entry.counted.runs[entry.index].as_ref().ok_or_else(|| {
        ReportError::Plot(format!("no raw rows of {} were kept: compare without --raw none", entry.label))
    })
}

fn pieces(entry: &Entry<'_, '_>, budget: &Budget) -> Result<Pieces, ReportError> {
    let (run, comparison) = (counted(entry)?, entry.counted.comparison);
    let ns = |ticks: &u64| *ticks as f64 / comparison.clock.ticks_per_ns;
    let found = match budget {
        Budget::Hertz(_) => Pieces {
            begins: comparison.journal.frames.iter().map(|mark| *mark as f64).collect(),
            // Entry 0 is the time before the first mark: loading, and no frame.
            inside: run.frames.inside.iter().skip(1).map(ns).collect(),
        },
        Budget::Buffer(length) => {
            let each = (*length / WINDOW_NS).max(1) as usize;
            let sums = run.windows.inside.chunks(each);
            let inside: Vec<f64> = sums.map(|part| part.iter().map(ns).sum()).collect();
            let begins = (0..inside.len()).map(|piece| (piece * each) as f64 * WINDOW_NS as f64);
            Pieces { begins: begins.collect(), inside }
        }
    };
    if found.inside.is_empty() {
        let what = match budget {
            Budget::Hertz(_) => "the journal has no frame marks: give --budget 2ms, 4ms or 10ms",
            Budget::Buffer(_) => "the recording is too short or too long for audio buffers",
        };
        return Err(ReportError::Plot(format!("{}: {what}", entry.label)));
    }
    Ok(found)
}

/// The budget that fits the journals: frames of 60 Hz if all have them, else buffers of 2 ms.
fn usual(entries: &[Entry<'_, '_>]) -> Budget {
    let frames = entries.iter().all(|entry| !entry.counted.comparison.journal.frames.is_empty());
    if frames { Budget::Hertz(60) } else { Budget::Buffer(WINDOW_NS) }
}

/// What share of each frame's, or audio buffer's, time went into calls: the worst one of each pixel, and a table.
pub fn frames(entries: &[Entry<'_, '_>], options: &PlotOptions) -> Result<Scene, ReportError> {
    let budget = options.budget.unwrap_or_else(|| usual(entries));
    let (length, what, title) = match budget {
        Budget::Hertz(hertz) => (1e9 / f64::from(hertz), "frame", format!("Frame budget at {hertz} Hz")),
        Budget::Buffer(ns) => {
            (ns as f64, "buffer", format!("Budget of audio buffers of {}", duration(ns as f64)))
        }
    };
    let all = entries.iter().map(|entry| pieces(entry, &budget)).collect::<Result<Vec<_>, _>>()?;
    let (mut scene, plot) = empty(options, title, STRIP);
    let theme = theme(options.dark);
    let scale =
        Scale { low: 1e-4, high: 2.0, at: plot.y + plot.height, length: -plot.height, logarithmic: true };
    for share in [0.001, 0.01, 0.1, 1.0] {
        let (y, whole) = (scale.pixel(share), share >= 1.0);
        let rule = Rect { x: plot.x, y, width: plot.width, height: 1.0 };
        scene.shapes.push(Shape::Rectangle(rule, if whole { theme.ink } else { theme.line }));
        let text = if whole { "budget".to_owned() } else { format!("{} %", share * 100.0) };
        scene.shapes.push(axes::label(plot.x - 6.0, y + 4.0, text, theme.soft, Anchor::End));
    }
    let span = entries.first().map_or(1, |entry| entry.counted.span_ns);
    axes::time(&mut scene.shapes, plot, span, &theme);
    let mut ends = Vec::new();
    for (entry, pieces) in entries.iter().zip(&all) {
        let shares = pieces.begins.iter().zip(&pieces.inside).map(|(begin, ns)| (*begin, ns / length));
        ends.extend(peaks(&mut scene, plot, &scale, entry, shares, options));
    }
    axes::end_labels(&mut scene.shapes, plot, ends);
    table(&mut scene, plot, entries, &all, length, what, options);
    Ok(scene)
}

fn table(
    scene: &mut Scene,
    plot: Rect,
    entries: &[Entry<'_, '_>],
    all: &[Pieces],
    budget: f64,
    what: &str,
    options: &PlotOptions,
) {
    let theme = theme(options.dark);
    let top = scene.height + 4.0;
    let columns: Vec<f32> = (0..5).map(|at| plot.x + 170.0 + at as f32 * (plot.width - 60.0) / 5.0).collect();
    let mut heads: Vec<String> = vec![format!("mean a {what}")];
    heads.extend(SHARES.map(|share| format!("{what}s over {} %", share * 100.0)));
    heads.push(format!("worst {what}"));
    for (head, x) in heads.into_iter().zip(&columns) {
        scene.shapes.push(axes::label(*x, top, head, theme.soft, Anchor::End));
    }
    for (number, (entry, pieces)) in entries.iter().zip(all).enumerate() {
        let y = top + (number + 1) as f32 * LINE;
        scene.shapes.push(axes::label(plot.x, y, entry.label.clone(), theme.ink, Anchor::Start));
        let mean = pieces.inside.iter().sum::<f64>() / pieces.inside.len() as f64;
        let (at, worst) = pieces.worst();
        let mut cells = vec![duration(mean)];
        cells.extend(SHARES.map(|share| format!("{:.2} %", 100.0 * pieces.over(share * budget))));
        let moment = pieces.begins.get(at).copied().unwrap_or(0.0);
        cells.push(format!("{} at {:.2} s", duration(worst), moment / 1e9));
        for (cell, x) in cells.into_iter().zip(&columns) {
            scene.shapes.push(axes::label(*x, y, cell, theme.ink, Anchor::End));
        }
    }
    scene.height = top + (entries.len() + 1) as f32 * LINE;
}

/// A line over the greatest value of each pixel; where its name goes.
fn peaks(
    scene: &mut Scene,
    plot: Rect,
    scale: &Scale,
    entry: &Entry<'_, '_>,
    values: impl Iterator<Item = (f64, f64)>,
    options: &PlotOptions,
) -> Option<(f32, String, super::colour::Colour)> {
    let mut highest = vec![0.0f64; plot.width.ceil() as usize + 1];
    for (time, value) in values {
        let pixel = (time / entry.counted.span_ns as f64 * f64::from(plot.width)).max(0.0) as usize;
        let pixel = pixel.min(highest.len() - 1);
        highest[pixel] = highest[pixel].max(value);
    }
    let found = highest.iter().enumerate().filter(|(_, value)| **value > 0.0);
    let points: Vec<(f32, f32)> = found.map(|(x, value)| (plot.x + x as f32, scale.pixel(*value))).collect();
    let last = points.last()?.1;
    let (shape, colour) = line(entry, points, 0.75, options);
    scene.shapes.push(shape);
    Some((last, entry.label.clone(), colour))
}

/// How late calls began against the schedule of the pace: the greatest of each pixel.
pub fn lateness(entries: &[Entry<'_, '_>], options: &PlotOptions) -> Result<Scene, ReportError> {
    let mut greatest = 1e4f64;
    for entry in entries {
        let run = counted(entry)?;
        if run.lateness.is_empty() {
            return Err(ReportError::Plot(format!(
                "{}: replayed at pace {}, so no call was due at a time: compare with --pace 1x",
                entry.label, entry.counted.comparison.settings.pace
            )));
        }
        greatest = run.lateness.iter().map(|late| late[0] as f64).fold(greatest, f64::max);
    }
    let (mut scene, plot) = empty(options, "Lateness: how long after its time a call began".into(), STRIP);
    let theme = theme(options.dark);
    let scale = Scale {
        low: 100.0,
        high: greatest * 1.2,
        at: plot.y + plot.height,
        length: -plot.height,
        logarithmic: true,
    };
    axes::latency(&mut scene.shapes, plot, &scale, &theme);
    axes::time(&mut scene.shapes, plot, entries.first().map_or(1, |entry| entry.counted.span_ns), &theme);
    let mut ends = Vec::new();
    for entry in entries {
        let column = entry.counted.span_ns as f64 / LATENESS_COLUMNS as f64;
        let late = counted(entry)?.lateness.iter().enumerate();
        let values = late.map(|(at, late)| ((at as f64 + 0.5) * column, late[0] as f64));
        ends.extend(peaks(&mut scene, plot, &scale, entry, values, options));
    }
    axes::end_labels(&mut scene.shapes, plot, ends);
    Ok(scene)
}
