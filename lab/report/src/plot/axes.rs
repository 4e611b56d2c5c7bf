//! Axes of the plots: time, latency, bytes.

use super::colour::{Colour, Theme};
use super::scene::{Anchor, Rect, Shape};
use crate::figures::power_of_ten;
use crate::words::{bytes, duration};

/// Size of labels, CSS pixels.
pub const LABEL: f32 = 11.0;

/// A logarithmic or linear scale onto pixels.
#[derive(Clone, Copy)]
pub struct Scale {
    /// Value at `at`.
    pub low: f64,
    /// Value at `at + length`.
    pub high: f64,
    /// Pixel of `low`.
    pub at: f32,
    /// Pixels; negative where values grow upward.
    pub length: f32,
    /// Whether equal factors have equal distances.
    pub logarithmic: bool,
}

impl Scale {
    /// The pixel of a value, limited to the scale.
    pub fn pixel(&self, value: f64) -> f32 {
        let value = value.clamp(self.low, self.high);
        let part = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.at + self.length * part as f32
    }
}

/// A text.
pub fn label(x: f32, y: f32, text: impl Into<String>, colour: Colour, anchor: Anchor) -> Shape {
    Shape::Text { x, y, text: text.into(), colour, size: LABEL, anchor }
}

fn rule(x: f32, y: f32, width: f32, height: f32, colour: Colour) -> Shape {
    Shape::Rectangle(Rect { x, y, width, height }, colour)
}

/// Lines at each power of ten, labelled at the left.
pub fn latency(shapes: &mut Vec<Shape>, plot: Rect, scale: &Scale, theme: &Theme) {
    let decades = scale.low.log10().ceil() as i32..=scale.high.log10().floor() as i32;
    for power in decades {
        let ns = power_of_ten(power);
        let y = scale.pixel(ns);
        shapes.push(rule(plot.x, y, plot.width, 1.0, theme.line));
        shapes.push(label(plot.x - 6.0, y + 4.0, duration(ns), theme.soft, Anchor::End));
    }
}

/// Round times under a plot.
pub fn time(shapes: &mut Vec<Shape>, plot: Rect, span_ns: u64, theme: &Theme) {
    let span = span_ns as f64;
    let rough = span / f64::from(plot.width / 90.0).max(1.0);
    let power = power_of_ten(rough.log10().floor() as i32);
    let step = [1.0, 2.0, 5.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let mut tick = 0.0;
    while tick <= span {
        let x = plot.x + plot.width * (tick / span) as f32;
        shapes.push(rule(x, plot.y + plot.height, 1.0, 4.0, theme.line));
        let text = if tick == 0.0 { "0 s".to_owned() } else { duration(tick) };
        let at = x.clamp(plot.x + 8.0, plot.x + plot.width - 16.0);
        shapes.push(label(at, plot.y + plot.height + 16.0, text, theme.soft, Anchor::Middle));
        tick += step;
    }
}

/// Sizes in factors of 16 under a plot whose columns are the size steps `1..=steps`.
pub fn sizes(shapes: &mut Vec<Shape>, plot: Rect, steps: usize, theme: &Theme) {
    for octave in (0..=(steps as u32 - 1) / 4).step_by(if plot.width < 420.0 { 8 } else { 4 }) {
        let x = plot.x + plot.width * (4 * octave) as f32 / steps as f32;
        shapes.push(rule(x, plot.y + plot.height, 1.0, 4.0, theme.line));
        let at = x.clamp(plot.x + 8.0, plot.x + plot.width - 18.0);
        let text = bytes(2f64.powi(octave as i32));
        shapes.push(label(at, plot.y + plot.height + 16.0, text, theme.soft, Anchor::Middle));
    }
}

/// Names at the right end of curves, moved apart, each with a line to its curve.
pub fn end_labels(shapes: &mut Vec<Shape>, plot: Rect, mut ends: Vec<(f32, String, Colour)>) {
    const GAP: f32 = 14.0;
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut places: Vec<f32> = Vec::new();
    for (y, _, _) in &ends {
        places.push(places.last().map_or(plot.y + 6.0, |last| last + GAP).max(*y));
    }
    let mut limit = plot.y + plot.height - 4.0;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - GAP;
    }
    let x = plot.x + plot.width;
    for ((y, text, colour), place) in ends.into_iter().zip(places) {
        let points = vec![(x, y), (x + 4.0, y), (x + 10.0, place)];
        shapes.push(Shape::Line { points, colour, width: 1.0, dash: &[] });
        shapes.push(label(x + 13.0, place + 4.0, text, colour, Anchor::Start));
    }
}
