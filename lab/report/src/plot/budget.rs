//! The share of each frame's or audio buffer's time inside calls, an allocator in a lane
//! (`page/frames.js`).

use super::axes;
use super::colour::{Colour, spent, theme};
use super::entry::Entry;
use super::image::Image;
use super::options::{Budget, PlotOptions};
use super::scene::{Anchor, Rect, Scene, Shape};
use crate::counts::WINDOW_NS;
use crate::error::ReportError;
use crate::words::duration;

/// Shares of a budget that are counted; the colour of a bar changes at them.
const SHARES: [f64; 3] = [0.01, 0.05, 0.1];
const SHARE_WORDS: [&str; 4] = ["at most 1 %", "over 1 %", "over 5 %", "over 10 % of the budget"];
/// The least share that has a bar; a whole budget fills the lane.
const LEAST_SHARE: f64 = 1e-4;
/// Heights in CSS pixels: a lane with the gap below it, the gap, a line of text; and the margin.
const LANE: f32 = 24.0;
const GAP: f32 = 3.0;
const LINE: f32 = 17.0;
const MARGIN: f32 = 16.0;
/// Approximate width of a letter of a label.
const LETTER: f32 = 5.6;
/// Below this width the table leaves words out.
const NARROW: f32 = 640.0;

/// Time inside calls of each frame or buffer.
struct Slices {
    /// The start of each, ns of the journal, and the end of the last.
    edges: Vec<f64>,
    /// Time inside calls, ns.
    inside: Vec<f64>,
}

impl Slices {
    fn over(&self, limit: f64) -> f64 {
        self.inside.iter().filter(|ns| **ns > limit).count() as f64
            / self.inside.len().max(1) as f64
    }

    fn mean(&self) -> f64 {
        self.inside.iter().sum::<f64>() / self.inside.len().max(1) as f64
    }

    /// Start and time inside calls of the worst.
    fn worst(&self) -> (f64, f64) {
        let slices = self.edges.iter().copied().zip(self.inside.iter().copied());
        slices.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0.0, 0.0))
    }

    /// The worst in each of `columns` columns. Each covers its duration, at least one column.
    fn worst_of_columns(&self, columns: usize, span: f64) -> Vec<f64> {
        let mut worst = vec![0.0f64; columns];
        let column = |time: f64| (time / span * columns as f64).max(0.0) as usize;
        for (edges, ns) in self.edges.windows(2).zip(&self.inside) {
            let from = column(edges[0]).min(columns.saturating_sub(1));
            let end = column(edges[1]).max(from + 1).min(columns);
            worst[from..end].iter_mut().for_each(|most| *most = most.max(*ns));
        }
        worst
    }
}

fn slices(entry: &Entry<'_, '_>, budget: &Budget) -> Result<Slices, ReportError> {
    let (run, comparison) = (entry.run()?, entry.counted.comparison);
    let ns = |ticks: &u64| *ticks as f64 / comparison.clock.ticks_per_ns;
    let (mut edges, inside): (Vec<f64>, Vec<f64>) = match budget {
        Budget::Hertz(_) => (
            comparison.journal.frames.iter().map(|mark| *mark as f64).collect(),
            // Entry 0 is the time before the first mark, which is no frame.
            run.frames.inside.iter().skip(1).map(ns).collect(),
        ),
        Budget::Buffer(length) => {
            let each = (*length / WINDOW_NS).max(1) as usize;
            let sums = run.windows.inside.chunks(each);
            let inside: Vec<f64> = sums.map(|part| part.iter().map(ns).sum()).collect();
            let edges = (0..inside.len()).map(|slice| (slice * each) as f64 * WINDOW_NS as f64);
            (edges.collect(), inside)
        }
    };
    if inside.is_empty() {
        let what = match budget {
            Budget::Hertz(_) => "the journal has no frame marks: give --budget 2ms, 4ms or 10ms",
            Budget::Buffer(_) => "the recording is too short or too long for audio buffers",
        };
        return Err(ReportError::Plot(format!("{}: {what}", entry.label)));
    }
    edges.truncate(inside.len());
    edges.push(entry.counted.span_ns as f64);
    Ok(Slices { edges, inside })
}

/// The default budget: frames of 60 Hz if all journals have frame marks, else buffers of 2 ms.
fn usual(entries: &[Entry<'_, '_>]) -> Budget {
    let frames = entries.iter().all(|entry| !entry.counted.comparison.journal.frames.is_empty());
    if frames { Budget::Hertz(60) } else { Budget::Buffer(WINDOW_NS) }
}

/// A lane for each allocator: in each pixel column the worst frame or buffer. Below, a table.
pub fn frames(entries: &[Entry<'_, '_>], options: &PlotOptions) -> Result<Scene, ReportError> {
    let budget = options.budget.unwrap_or_else(|| usual(entries));
    let (length, what, title) = match budget {
        Budget::Hertz(hertz) => {
            (1e9 / f64::from(hertz), "frame", format!("Frame budget at {hertz} Hz"))
        }
        Budget::Buffer(ns) => {
            (ns as f64, "buffer", format!("Budget of audio buffers of {}", duration(ns as f64)))
        }
    };
    let all = entries.iter().map(|entry| slices(entry, &budget)).collect::<Result<Vec<_>, _>>()?;
    let (mut scene, plot) = ground(entries, options, title, what);
    let span = entries.iter().map(|entry| entry.counted.span_ns).max().unwrap_or(1);
    axes::time(&mut scene.shapes, plot, span, &theme(options.dark));
    let columns = (plot.width * options.scale.max(1.0)).round().max(1.0) as usize;
    let tall = ((LANE - GAP) * options.scale.max(1.0)).round() as usize;
    for (number, (entry, slices)) in entries.iter().zip(&all).enumerate() {
        let lane = Rect { y: plot.y + number as f32 * LANE, height: LANE - GAP, ..plot };
        let shares: Vec<f64> =
            slices.worst_of_columns(columns, span as f64).iter().map(|ns| ns / length).collect();
        scene.shapes.push(Shape::Rectangle(lane, theme(options.dark).plot));
        scene.shapes.push(Shape::Picture(lane, bars(&shares, tall, options.dark)));
        let name = entry.label.clone();
        let (x, y) = (plot.x - 8.0, lane.y + LANE / 2.0 + 2.0);
        scene.shapes.push(axes::label(x, y, name, theme(options.dark).soft, Anchor::End));
    }
    table(&mut scene, plot, entries, &all, length, what, options);
    Ok(scene)
}

/// Heading, legend, and the area of the lanes, right of their names.
fn ground(
    entries: &[Entry<'_, '_>],
    options: &PlotOptions,
    title: String,
    what: &str,
) -> (Scene, Rect) {
    let (theme, width) = (theme(options.dark), options.width as f32);
    let text = title.clone();
    let (colour, anchor) = (theme.ink, Anchor::Start);
    let mut shapes = vec![Shape::Text { x: MARGIN, y: 20.0, text, colour, size: 15.0, anchor }];
    let longest = entries.iter().map(|entry| entry.label.chars().count()).max().unwrap_or(0) as f32;
    let left = (MARGIN + 8.0 + longest * LETTER).clamp(62.0, width * 0.4);
    let plot = Rect {
        x: left,
        y: legend(&mut shapes, what, options) + 14.0,
        width: (width - left - MARGIN).max(80.0),
        height: entries.len() as f32 * LANE - GAP,
    };
    (Scene { width, height: plot.y + plot.height + 34.0, ground: theme.paper, shapes, title }, plot)
}

/// The legend of colours and heights, on as many lines as needed; returns the y of the last.
fn legend(shapes: &mut Vec<Shape>, what: &str, options: &PlotOptions) -> f32 {
    let (soft, end) = (theme(options.dark).soft, options.width as f32 - MARGIN);
    let (mut x, mut y) = (MARGIN, 40.0);
    let mut place = |wide: f32| {
        if x > MARGIN && x + wide > end {
            (x, y) = (MARGIN, y + LINE);
        }
        x += wide + 16.0;
        (x - wide - 16.0, y)
    };
    for (limits, words) in SHARE_WORDS.into_iter().enumerate() {
        let (x, y) = place(14.0 + words.len() as f32 * LETTER);
        let swatch = Rect { x, y: y - 8.0, width: 9.0, height: 9.0 };
        shapes.push(Shape::Rectangle(swatch, spent(limits, options.dark)));
        shapes.push(axes::label(x + 14.0, y, words, soft, Anchor::Start));
    }
    for words in [
        format!("the worst {what} in each column"),
        "a full lane is the whole budget (logarithmic)".into(),
    ] {
        let (x, y) = place(words.len() as f32 * LETTER);
        shapes.push(axes::label(x, y, words, soft, Anchor::Start));
    }
    y
}

/// Upright bars from a lane's bottom, logarithmic, coloured by the limits that they exceed.
fn bars(shares: &[f64], tall: usize, dark: bool) -> Image {
    let mut rgba = vec![0; shares.len() * tall * 4];
    for (x, share) in shares.iter().enumerate().filter(|(_, share)| **share > LEAST_SHARE) {
        let part = (1.0 - share.ln() / LEAST_SHARE.ln()).clamp(0.0, 1.0);
        let height = ((tall as f64 * part).round() as usize).max(1);
        let [red, green, blue]: Colour =
            spent(SHARES.iter().filter(|limit| share > *limit).count(), dark);
        for y in tall - height..tall {
            let at = (y * shares.len() + x) * 4;
            rgba[at..at + 4].copy_from_slice(&[red, green, blue, 255]);
        }
    }
    Image { width: shares.len() as u32, height: tall as u32, rgba }
}

fn table(
    scene: &mut Scene,
    plot: Rect,
    entries: &[Entry<'_, '_>],
    all: &[Slices],
    budget: f64,
    what: &str,
    options: &PlotOptions,
) {
    let (theme, top) = (theme(options.dark), scene.height + 4.0);
    let narrow = scene.width < NARROW;
    let first = plot.x + if narrow { 38.0 } else { 76.0 };
    let step = (plot.x + plot.width - first) / 4.0;
    let columns: Vec<f32> = (0..5).map(|at| first + at as f32 * step).collect();
    let mut heads = vec![if narrow { "mean".to_owned() } else { format!("mean {what}") }];
    let over = if narrow { "over".to_owned() } else { format!("{what}s over") };
    heads.extend(SHARES.map(|share| format!("{over} {} %", share * 100.0)));
    heads.push(if narrow { "worst".to_owned() } else { format!("worst {what}") });
    for (head, x) in heads.into_iter().zip(&columns) {
        scene.shapes.push(axes::label(*x, top, head, theme.soft, Anchor::End));
    }
    for (number, (entry, slices)) in entries.iter().zip(all).enumerate() {
        let y = top + (number + 1) as f32 * LINE;
        scene.shapes.push(axes::label(
            plot.x - 8.0,
            y,
            entry.label.clone(),
            theme.ink,
            Anchor::End,
        ));
        let (moment, worst) = slices.worst();
        let mut cells = vec![duration(slices.mean())];
        cells.extend(SHARES.map(|share| format!("{:.2} %", 100.0 * slices.over(share * budget))));
        let when = if narrow { String::new() } else { format!(" at {:.2} s", moment / 1e9) };
        cells.push(format!("{}{when}", duration(worst)));
        for (cell, x) in cells.into_iter().zip(&columns) {
            scene.shapes.push(axes::label(*x, y, cell, theme.ink, Anchor::End));
        }
    }
    scene.height = top + (entries.len() + 1) as f32 * LINE;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_the_worst_frame_that_touches_it() {
        let slices =
            Slices { edges: vec![0.0, 40.0, 41.0, 42.0, 100.0], inside: vec![1.0, 7.0, 3.0, 2.0] };
        // The two short ones share a column with the start of the long one after them.
        assert_eq!(slices.worst_of_columns(5, 100.0), [1.0, 1.0, 7.0, 2.0, 2.0], "to the very end");
        assert_eq!(slices.worst_of_columns(1, 100.0), [7.0]);
        assert_eq!(slices.worst(), (40.0, 7.0));
        assert_eq!([slices.over(2.0), slices.over(7.0)], [0.5, 0.0]);
    }

    #[test]
    fn bars_grow_with_the_share_and_change_colour_at_the_limits() {
        let shares = [0.0, 0.001, 0.01, 0.02, 0.06, 0.2, 1.0, 5.0];
        let image = bars(&shares, 20, false);
        let column = |x: usize| {
            let cells = (0..20).map(|y| &image.rgba[(y * shares.len() + x) * 4..][..4]);
            let bar: Vec<&[u8]> = cells.filter(|cell| cell[3] != 0).collect();
            (bar.len(), bar.first().map(|cell| [cell[0], cell[1], cell[2]]))
        };
        let heights: Vec<usize> = (0..shares.len()).map(|x| column(x).0).collect();
        assert_eq!(
            heights,
            [0, 5, 10, 12, 14, 17, 20, 20],
            "no bar at zero, the whole lane from a whole budget"
        );
        let limits = [None, Some(0), Some(0), Some(1), Some(2), Some(3), Some(3), Some(3)];
        for (x, limits) in limits.into_iter().enumerate() {
            assert_eq!(column(x).1, limits.map(|limits| spent(limits, false)), "{}", shares[x]);
        }
    }
}
