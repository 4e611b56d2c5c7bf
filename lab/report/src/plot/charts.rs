//! Curves: latency percentiles, memory over time.

use super::axes::{self, Scale};
use super::colour::{Colour, look, theme};
use super::entry::Entry;
use super::options::PlotOptions;
use super::scene::{Anchor, Rect, Scene, Shape};
use crate::figures::{CURVE_POINTS_PER_NINE, NINES, OperationSummary, Spread, nines};
use crate::words::bytes;
use keel_results::{Interval, PERCENTILES};

/// A picture with a heading and an empty chart, which leaves room for names at its right end.
pub fn empty(options: &PlotOptions, title: String, height: f32) -> (Scene, Rect) {
    let (theme, width) = (theme(options.dark), options.width as f32);
    let plot = Rect {
        x: 62.0,
        y: 34.0,
        width: (width - 62.0 - 150.0).max(80.0),
        height: height - 34.0 - 34.0,
    };
    let heading = Shape::Text {
        x: plot.x,
        y: 20.0,
        text: title.clone(),
        colour: theme.ink,
        size: 15.0,
        anchor: Anchor::Start,
    };
    let shapes = vec![heading, Shape::Rectangle(plot, theme.plot)];
    (Scene { width, height, ground: theme.paper, shapes, title }, plot)
}

/// The line of an entry and its colour; each folder has its own dashes.
pub fn line(
    entry: &Entry<'_, '_>,
    points: Vec<(f32, f32)>,
    weight: f32,
    options: &PlotOptions,
) -> (Shape, Colour) {
    const DASHES: [&[f32]; 3] = [&[7.0, 3.0], &[2.0, 2.5], &[10.0, 3.0, 2.0, 3.0]];
    let (colour, dash) = look(entry.name(), entry.index, options.dark);
    let dash = if entry.folder == 0 { dash } else { DASHES[(entry.folder - 1) % DASHES.len()] };
    let width = weight * if entry.name() == "keel" { 2.4 } else { 1.5 };
    (Shape::Line { points, colour, width, dash }, colour)
}

/// The position of each percentile on the axis of nines, and its 95 % interval.
fn intervals(summary: &OperationSummary) -> impl Iterator<Item = (f64, Interval)> + '_ {
    let quantile =
        |name: &str| PERCENTILES.iter().find(|one| one.column == name).map(|one| one.fraction);
    summary
        .percentiles
        .iter()
        .filter_map(move |(name, spread)| Some((nines(quantile(name)?), spread.interval?)))
}

/// Latency percentiles: medians over runs, their range shaded, 95 % intervals as vertical lines
/// beside each other.
pub fn percentiles(entries: &[Entry<'_, '_>], operation: &str, options: &PlotOptions) -> Scene {
    let found: Vec<(&Entry<'_, '_>, OperationSummary)> = entries
        .iter()
        .filter_map(|entry| {
            let result = &entry.counted.comparison.allocators[entry.index];
            Some((entry, entry.counted.summary(result, operation)?))
        })
        .collect();
    let (mut scene, plot) = empty(options, format!("Latency percentiles of {operation}"), 420.0);
    let theme = theme(options.dark);
    let points = found.iter().map(|(_, one)| one.curve[0].len()).max().unwrap_or(2).max(2);
    let reach = (points - 1) as f64 / CURVE_POINTS_PER_NINE + 0.25;
    let lows = found.iter().filter_map(|(_, one)| one.curve[1].first().copied());
    let highs = found.iter().map(|(_, one)| one.worst.high);
    let latency = Scale {
        low: (lows.fold(f64::INFINITY, f64::min) * 0.85).max(1.0),
        high: highs.fold(10.0, f64::max) * 1.2,
        at: plot.y + plot.height,
        length: -plot.height,
        logarithmic: true,
    };
    axes::latency(&mut scene.shapes, plot, &latency, &theme);
    let x_of = |nines: f64| plot.x + plot.width * (nines / reach) as f32;
    for (nines, text) in NINES.into_iter().filter(|(nines, _)| *nines <= reach) {
        let line = Rect { x: x_of(nines), y: plot.y, width: 1.0, height: plot.height + 4.0 };
        scene.shapes.push(Shape::Rectangle(line, theme.line));
        let y = plot.y + plot.height + 18.0;
        scene.shapes.push(axes::label(x_of(nines), y, text, theme.soft, Anchor::Middle));
    }
    let mut ends = Vec::new();
    for (place, (entry, summary)) in found.iter().enumerate() {
        let (colour, _) = look(entry.name(), entry.index, options.dark);
        let aside = (place as f32 - (found.len() - 1) as f32 / 2.0) * 3.0;
        for (nines, interval) in intervals(summary) {
            let (from, to) = (latency.pixel(interval.low), latency.pixel(interval.high));
            let x = x_of(nines) + aside;
            scene.shapes.push(Shape::Area {
                points: vec![(x - 0.6, from), (x + 0.6, from), (x + 0.6, to), (x - 0.6, to)],
                colour,
                opacity: 0.6,
            });
        }
        let curve = |values: &[f64], worst: f64| -> Vec<(f32, f32)> {
            let along = values.iter().enumerate();
            let point = |(at, ns): (usize, &f64)| {
                (x_of(at as f64 / CURVE_POINTS_PER_NINE), latency.pixel(*ns))
            };
            along.map(point).chain([(x_of(reach), latency.pixel(worst))]).collect()
        };
        let Spread { median, low, high, .. } = summary.worst;
        let mut area = curve(&summary.curve[1], low);
        area.extend(curve(&summary.curve[2], high).into_iter().rev());
        scene.shapes.push(Shape::Area { points: area, colour, opacity: 0.14 });
        scene.shapes.push(line(entry, curve(&summary.curve[0], median), 1.0, options).0);
        ends.push((latency.pixel(median), entry.label.clone(), colour));
    }
    axes::end_labels(&mut scene.shapes, plot, ends);
    scene
}

/// Resident memory over time, above the live bytes of the program.
pub fn memory(entries: &[Entry<'_, '_>], options: &PlotOptions) -> Scene {
    let (mut scene, plot) = empty(options, "Resident memory".into(), 320.0);
    let theme = theme(options.dark);
    let curves: Vec<Vec<[f64; 2]>> =
        entries.iter().map(|entry| entry.counted.resident(entry.index)).collect();
    let live = entries.first().map_or(Vec::new(), |entry| entry.counted.live());
    let most =
        curves.iter().chain([&live]).flatten().map(|point| point[1]).fold(1.0, f64::max) * 1.04;
    let scale = Scale {
        low: 0.0,
        high: most,
        at: plot.y + plot.height,
        length: -plot.height,
        logarithmic: false,
    };
    let mut step = (most / 5.0).log2().ceil().exp2();
    if most / step < 3.0 {
        step /= 2.0;
    }
    for tick in (0..).map(|number| f64::from(number) * step).take_while(|tick| *tick <= most) {
        let y = scale.pixel(tick);
        scene.shapes.push(Shape::Rectangle(
            Rect { x: plot.x, y, width: plot.width, height: 1.0 },
            theme.line,
        ));
        scene.shapes.push(axes::label(plot.x - 6.0, y + 4.0, bytes(tick), theme.soft, Anchor::End));
    }
    let span = entries.first().map_or(1, |entry| entry.counted.span_ns);
    axes::time(&mut scene.shapes, plot, span, &theme);
    let point = |span: u64| {
        move |at: &[f64; 2]| {
            (plot.x + plot.width * (at[0] / span as f64) as f32, scale.pixel(at[1]))
        }
    };
    if let (Some(first), Some(last)) = (live.first(), live.last()) {
        let mut points: Vec<(f32, f32)> = live.iter().map(point(span)).collect();
        points.push((point(span)(last).0, scale.pixel(0.0)));
        points.push((point(span)(first).0, scale.pixel(0.0)));
        scene.shapes.push(Shape::Area { points, colour: theme.line, opacity: 1.0 });
    }
    let mut ends: Vec<(f32, String, Colour)> = live
        .last()
        .map(|last| (scale.pixel(last[1]), "live".to_owned(), theme.soft))
        .into_iter()
        .collect();
    for (entry, curve) in entries.iter().zip(curves).filter(|(_, curve)| !curve.is_empty()) {
        let points: Vec<(f32, f32)> = curve.iter().map(point(entry.counted.span_ns)).collect();
        let end = points.last().map_or(plot.y, |last| last.1);
        let (shape, colour) = line(entry, points, 1.0, options);
        ends.push((end, entry.label.clone(), colour));
        scene.shapes.push(shape);
    }
    axes::end_labels(&mut scene.shapes, plot, ends);
    scene
}
