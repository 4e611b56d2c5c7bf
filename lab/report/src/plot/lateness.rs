//! The lateness of calls over time.

use super::axes::{self, Scale};
use super::charts::{empty, line};
use super::colour::theme;
use super::entry::Entry;
use super::options::PlotOptions;
use super::scene::{Rect, Scene};
use crate::counts::LATENESS_COLUMNS;
use crate::error::ReportError;

/// Height of the picture, CSS pixels.
const STRIP: f32 = 230.0;

/// Draws a line through the greatest value of each pixel column; returns its end, name and colour.
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
    let points: Vec<(f32, f32)> =
        found.map(|(x, value)| (plot.x + x as f32, scale.pixel(*value))).collect();
    let last = points.last()?.1;
    let (shape, colour) = line(entry, points, 0.75, options);
    scene.shapes.push(shape);
    Some((last, entry.label.clone(), colour))
}

/// How late calls began against the schedule of the pace: the greatest lateness in each pixel
/// column.
pub fn lateness(entries: &[Entry<'_, '_>], options: &PlotOptions) -> Result<Scene, ReportError> {
    let mut greatest = 1e4f64;
    for entry in entries {
        let run = entry.run()?;
        if run.lateness.is_empty() {
            return Err(ReportError::Plot(format!(
                "{}: replayed at pace {}, so calls had no schedule: compare with --pace 1x",
                entry.label, entry.counted.comparison.settings.pace
            )));
        }
        greatest = run.lateness.iter().map(|late| late[0] as f64).fold(greatest, f64::max);
    }
    let (mut scene, plot) =
        empty(options, "Lateness: delay of calls against the schedule".into(), STRIP);
    let theme = theme(options.dark);
    let scale = Scale {
        low: 100.0,
        high: greatest * 1.2,
        at: plot.y + plot.height,
        length: -plot.height,
        logarithmic: true,
    };
    axes::latency(&mut scene.shapes, plot, &scale, &theme);
    axes::time(
        &mut scene.shapes,
        plot,
        entries.first().map_or(1, |entry| entry.counted.span_ns),
        &theme,
    );
    let mut ends = Vec::new();
    for entry in entries {
        let column = entry.counted.span_ns as f64 / LATENESS_COLUMNS as f64;
        let late = entry.run()?.lateness.iter().enumerate();
        let values = late.map(|(at, late)| ((at as f64 + 0.5) * column, late[0] as f64));
        ends.extend(peaks(&mut scene, plot, &scale, entry, values, options));
    }
    axes::end_labels(&mut scene.shapes, plot, ends);
    Ok(scene)
}
