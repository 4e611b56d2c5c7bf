//! Every call over time and latency, or over size and latency: an allocator in a panel, with common
//! axes.

use super::axes::{self, Scale};
use super::colour::{SHADES, chroma, look, shade, theme};
use super::entry::Entry;
use super::image::Image;
use super::options::{Hue, PlotOptions};
use super::scene::{Anchor, Rect, Scene, Shape};
use crate::counts::{
    Counted, LATENCY_ROWS, LIFETIME_STEPS_PER_OCTAVE, ROWS_PER_OCTAVE, TileCell, Tiles,
    cause_index, size_step,
};
use crate::error::ReportError;
use crate::words::{duration, folder_label};
use keel_results::{OPERATIONS, figure_label};
use std::path::PathBuf;

const LEFT: f32 = 56.0;
const RIGHT: f32 = 10.0;
const TITLE: f32 = 20.0;
const BOTTOM: f32 = 24.0;
const ROW_PIXELS: f32 = 1.2;
const SIZE_STEPS_SHOWN: usize = 97;
const MOST_DOTS: usize = 300;
/// The axis of lifetimes begins at 32 ns: no program frees sooner.
const SHORTEST_OCTAVE: usize = 5;

/// Panels in rows and columns.
struct Grid {
    rows: (u16, u16),
    panel: Rect,
    columns: usize,
}

impl Grid {
    fn new(rows: (u16, u16), panels: usize, width: f32) -> Grid {
        let columns = if panels == 1 || width < 640.0 { 1 } else { 2 };
        let height = (f32::from(rows.1 - rows.0 + 1) * ROW_PIXELS).clamp(150.0, 300.0);
        let panel =
            Rect { x: 0.0, y: 0.0, width: width / columns as f32, height: TITLE + height + BOTTOM };
        Grid { rows, panel, columns }
    }

    fn plot(&self, number: usize) -> Rect {
        let (column, line) = ((number % self.columns) as f32, (number / self.columns) as f32);
        Rect {
            x: column * self.panel.width + LEFT,
            y: HEAD + line * self.panel.height + TITLE,
            width: self.panel.width - LEFT - RIGHT,
            height: self.panel.height - TITLE - BOTTOM,
        }
    }

    fn height(&self, panels: usize) -> f32 {
        HEAD + panels.div_ceil(self.columns) as f32 * self.panel.height + 6.0
    }

    fn latency(&self, plot: Rect) -> Scale {
        let ns = |row: u16| f64::from(row) / f64::from(ROWS_PER_OCTAVE);
        Scale {
            low: ns(self.rows.0).exp2(),
            high: ns(self.rows.1 + 1).exp2(),
            at: plot.y + plot.height,
            length: -plot.height,
            logarithmic: true,
        }
    }
}

const HEAD: f32 = 30.0;

fn kind_of(operation: &str) -> Result<usize, ReportError> {
    let found = OPERATIONS.iter().position(|name| *name == operation);
    found
        .ok_or_else(|| ReportError::Plot(format!("a density shows one operation, not {operation}")))
}

fn grid(
    entries: &[Entry<'_, '_>],
    kind: usize,
    options: &PlotOptions,
) -> Result<Grid, ReportError> {
    let mut range = (u16::MAX, 0);
    for entry in entries {
        if let Some((low, high)) = entry.run()?.tiles[kind].row_range() {
            range = (range.0.min(low), range.1.max(high));
        }
    }
    if range.0 > range.1 {
        return Err(ReportError::Plot(format!("there is no call of {}", OPERATIONS[kind])));
    }
    let rows = (range.0.saturating_sub(3), (range.1 + 4).min(LATENCY_ROWS as u16 - 1));
    Ok(Grid::new(rows, entries.len(), options.width as f32))
}

/// Every call over time.
pub fn time(
    entries: &[Entry<'_, '_>],
    operation: &str,
    options: &PlotOptions,
) -> Result<Scene, ReportError> {
    let kind = kind_of(operation)?;
    let grid = grid(entries, kind, options)?;
    let columns = grid.plot(0).width * options.scale.max(1.0);
    let mut tiles = Vec::new();
    for entry in entries {
        let mut level = entry.run()?.tiles[kind].clone();
        while level.columns() as f32 > columns {
            level = level.halve();
        }
        tiles.push(level);
    }
    let highest =
        tiles.iter().flat_map(Tiles::each).map(|(_, _, cell)| cell.calls).max().unwrap_or(1);
    let mut scene = scene(&grid, entries.len(), options, format!("Every {operation} over time"));
    for (number, (entry, tiles)) in entries.iter().zip(&tiles).enumerate() {
        let plot = frame(&mut scene, &grid, number, entry, operation, options);
        axes::time(&mut scene.shapes, plot, entry.counted.span_ns, &theme(options.dark));
        let image = time_image(tiles, grid.rows, highest, options);
        scene.shapes.push(Shape::Picture(plot, image));
        dots(&mut scene, &grid, plot, entry, kind, options);
    }
    Ok(scene)
}

fn scene(grid: &Grid, panels: usize, options: &PlotOptions, title: String) -> Scene {
    let theme = theme(options.dark);
    let heading = Shape::Text {
        x: LEFT,
        y: 19.0,
        text: title.clone(),
        colour: theme.ink,
        size: 15.0,
        anchor: Anchor::Start,
    };
    Scene {
        width: options.width as f32,
        height: grid.height(panels),
        ground: theme.paper,
        shapes: vec![heading],
        title,
    }
}

/// Draws a panel's background, name and latency axis; returns the area of its plot.
fn frame(
    scene: &mut Scene,
    grid: &Grid,
    number: usize,
    entry: &Entry<'_, '_>,
    operation: &str,
    options: &PlotOptions,
) -> Rect {
    let (theme, plot) = (theme(options.dark), grid.plot(number));
    scene.shapes.push(Shape::Rectangle(plot, theme.plot));
    axes::latency(&mut scene.shapes, plot, &grid.latency(plot), &theme);
    let (colour, _) = look(entry.name(), entry.index, options.dark);
    let swatch = Rect { x: plot.x, y: plot.y - 14.0, width: 9.0, height: 9.0 };
    scene.shapes.push(Shape::Rectangle(swatch, colour));
    let name =
        axes::label(plot.x + 15.0, plot.y - 6.0, entry.label.clone(), theme.ink, Anchor::Start);
    scene.shapes.push(name);
    let result = &entry.counted.comparison.allocators[entry.index];
    let summary = entry.counted.summary(result, operation);
    let figures = summary.map(|one| {
        let tail = one.percentiles.get("p999");
        let tail = tail.map(|p| format!("{} {}, ", figure_label("p999"), duration(p.median)));
        format!("{}worst {}", tail.unwrap_or_default(), duration(one.worst.median))
    });
    let end = plot.x + plot.width;
    scene.shapes.push(axes::label(
        end,
        plot.y - 6.0,
        figures.unwrap_or_default(),
        theme.soft,
        Anchor::End,
    ));
    plot
}

struct Painter<'a> {
    image: Image,
    highest: f64,
    options: &'a PlotOptions,
}

impl Painter<'_> {
    fn put(&mut self, column: usize, row: usize, calls: u64, step: f64, cause: u8, lane: u8) {
        let strength = (calls as f64).log2() / (self.highest + 1.0).log2();
        let strength = (strength * (SHADES - 1) as f64).round() / (SHADES - 1) as f64;
        let chroma = chroma(self.options.hue, step, cause, lane);
        let [red, green, blue] = shade(chroma, strength.min(1.0), self.options.dark);
        let at = ((self.image.height as usize - 1 - row) * self.image.width as usize + column) * 4;
        self.image.rgba[at..at + 4].copy_from_slice(&[red, green, blue, 255]);
    }
}

fn painter(columns: usize, rows: usize, highest: u64, options: &PlotOptions) -> Painter<'_> {
    let image =
        Image { width: columns as u32, height: rows as u32, rgba: vec![0; columns * rows * 4] };
    Painter { image, highest: highest.max(1) as f64, options }
}

fn time_image(
    tiles: &Tiles,
    (low, high): (u16, u16),
    highest: u64,
    options: &PlotOptions,
) -> Image {
    let mut painter = painter(tiles.columns(), usize::from(high - low) + 1, highest, options);
    for (column, row, TileCell { calls, size_step, cause, lane }) in tiles.each() {
        painter.put(column, usize::from(row.clamp(low, high) - low), calls, size_step, cause, lane);
    }
    painter.image
}

/// A dot for each of the slowest calls.
fn dots(
    scene: &mut Scene,
    grid: &Grid,
    plot: Rect,
    entry: &Entry<'_, '_>,
    kind: usize,
    options: &PlotOptions,
) {
    let (Some(run), Some(operations)) = (entry.counted.run(entry.index), &entry.counted.operations)
    else {
        return;
    };
    let ticks_per_ns = entry.counted.comparison.clock.ticks_per_ns;
    let mut calls: Vec<_> = run
        .outliers
        .iter()
        .filter_map(|call| Some((operations.detail(call.row)?, call)))
        .filter(|(detail, _)| usize::from(detail.kind) == kind)
        .collect();
    calls.sort_by_key(|(_, call)| std::cmp::Reverse(call.ticks));
    let scale = grid.latency(plot);
    let lane = |thread| {
        operations.threads.iter().position(|lane| lane.thread == Some(thread)).unwrap_or(15)
    };
    for (detail, call) in calls.into_iter().take(MOST_DOTS) {
        let step = f64::from(size_step(detail.size));
        let cause = cause_index(call.cause);
        let chroma = chroma(options.hue, step, cause, lane(detail.thread) as u8);
        scene.shapes.push(Shape::Dot {
            x: plot.x + plot.width * (detail.time as f64 / entry.counted.span_ns as f64) as f32,
            y: scale.pixel(f64::from(call.ticks) / ticks_per_ns),
            radius: 1.9,
            colour: shade(chroma, if options.dark { 0.72 } else { 0.62 }, options.dark),
        });
    }
}

/// Every call over size.
pub fn sizes(
    entries: &[Entry<'_, '_>],
    operation: &str,
    options: &PlotOptions,
) -> Result<Scene, ReportError> {
    let kind = kind_of(operation)?;
    let grid = grid(entries, kind, options)?;
    let mut planes = Vec::new();
    for entry in entries {
        planes.push(&entry.run()?.planes[kind]);
    }
    let highest =
        planes.iter().flat_map(|plane| plane.each()).map(|(_, _, calls)| calls).max().unwrap_or(1);
    let mut scene = scene(&grid, entries.len(), options, format!("Every {operation} by size"));
    for (number, (entry, plane)) in entries.iter().zip(planes).enumerate() {
        let plot = frame(&mut scene, &grid, number, entry, operation, options);
        axes::sizes(&mut scene.shapes, plot, SIZE_STEPS_SHOWN, &theme(options.dark));
        let (low, high) = grid.rows;
        let by_size = PlotOptions { hue: Hue::Size, ..options.clone() };
        let mut painter = painter(SIZE_STEPS_SHOWN, usize::from(high - low) + 1, highest, &by_size);
        // Step 0 is an unknown size, which is not on the axis.
        for (step, row, calls) in plane.each().filter(|(step, _, _)| *step > 0) {
            let column = (step - 1).min(SIZE_STEPS_SHOWN - 1);
            let row = usize::from((row as u16).clamp(low, high) - low);
            painter.put(column, row, calls, step as f64, 0, 0);
        }
        scene.shapes.push(Shape::Picture(plot, painter.image));
    }
    Ok(scene)
}

/// Blocks by size and lifetime, a folder in a panel: a property of the program, not of an
/// allocator.
pub fn lifetimes(
    folders: &[PathBuf],
    counted: &[Counted<'_>],
    options: &PlotOptions,
) -> Result<Scene, ReportError> {
    let octave = LIFETIME_STEPS_PER_OCTAVE as usize;
    let (low, longest) =
        (SHORTEST_OCTAVE * octave, counted.iter().map(|one| one.span_ns).max().unwrap_or(1));
    let high = ((longest as f64).log2().ceil() as usize).max(SHORTEST_OCTAVE + 1) * octave;
    // A step is three pixels tall.
    let tall = ((high - low) as f32 * 3.0 / ROW_PIXELS) as u16;
    let grid = Grid::new((0, tall), folders.len(), options.width as f32);
    let theme = theme(options.dark);
    let mut scene = scene(&grid, folders.len(), options, "Lifetimes of blocks by size".into());
    for (number, (folder, counted)) in folders.iter().zip(counted).enumerate() {
        let Some(found) = &counted.lifetimes else {
            let folder = folder.display();
            return Err(ReportError::Plot(format!(
                "{folder}: no lifetimes were recorded: compare without --raw none"
            )));
        };
        let plot = grid.plot(number);
        scene.shapes.push(Shape::Rectangle(plot, theme.plot));
        let ns = |step: usize| ((step as f64) / octave as f64).exp2();
        let (at, length) = (plot.y + plot.height, -plot.height);
        let scale = Scale { low: ns(low), high: ns(high), at, length, logarithmic: true };
        axes::latency(&mut scene.shapes, plot, &scale, &theme);
        axes::sizes(&mut scene.shapes, plot, SIZE_STEPS_SHOWN, &theme);
        let name =
            axes::label(plot.x, plot.y - 6.0, folder_label(folder), theme.ink, Anchor::Start);
        let text = format!("{} blocks freed, {} live at the end", found.freed, found.live);
        let figures = axes::label(plot.x + plot.width, plot.y - 6.0, text, theme.soft, Anchor::End);
        scene.shapes.extend([name, figures]);
        let highest = found.each().map(|(_, _, blocks)| blocks).max().unwrap_or(1);
        let by_size = PlotOptions { hue: Hue::Size, ..options.clone() };
        let mut painter = painter(SIZE_STEPS_SHOWN, high - low, highest, &by_size);
        for (step, lifetime, blocks) in found.each().filter(|(step, _, _)| *step > 0) {
            let row = lifetime.clamp(low, high - 1) - low;
            painter.put((step - 1).min(SIZE_STEPS_SHOWN - 1), row, blocks, step as f64, 0, 0);
        }
        scene.shapes.push(Shape::Picture(plot, painter.image));
    }
    Ok(scene)
}
