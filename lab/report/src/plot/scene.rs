//! A picture as a list of shapes, and its SVG.

use super::colour::Colour;
use super::png;
use crate::ReportError;
use base64::Engine as _;
use std::fmt::Write as _;

/// Where a text's point lies in it.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// At its left end.
    Start,
    /// In its middle.
    Middle,
    /// At its right end.
    End,
}

/// Pixels to be stretched over a box, without smoothing.
pub struct Image {
    /// Columns and rows.
    pub width: u32,
    /// See `width`.
    pub height: u32,
    /// Red, green, blue, alpha; row by row from the top.
    pub rgba: Vec<u8>,
}

/// A rectangle in CSS pixels.
#[derive(Clone, Copy, Debug)]
pub struct Rect {
    /// Left edge.
    pub x: f32,
    /// Top edge.
    pub y: f32,
    /// Width.
    pub width: f32,
    /// Height.
    pub height: f32,
}

/// One thing to draw.
pub enum Shape {
    /// A filled rectangle.
    Rectangle(Rect, Colour),
    /// A line through points.
    Line { points: Vec<(f32, f32)>, colour: Colour, width: f32, dash: &'static [f32] },
    /// A filled polygon, half transparent.
    Area { points: Vec<(f32, f32)>, colour: Colour, opacity: f32 },
    /// A filled circle.
    Dot { x: f32, y: f32, radius: f32, colour: Colour },
    /// Text; `y` is its baseline.
    Text { x: f32, y: f32, text: String, colour: Colour, size: f32, anchor: Anchor },
    /// An image stretched over a box.
    Picture(Rect, Image),
}

/// A picture: what comes first lies below.
pub struct Scene {
    /// CSS pixels.
    pub width: f32,
    /// See `width`.
    pub height: f32,
    /// The ground.
    pub ground: Colour,
    /// What is drawn on it.
    pub shapes: Vec<Shape>,
    /// What it shows, a sentence for those who do not see it.
    pub title: String,
}

/// The family that SVG text asks for; PNG text has the same by name.
pub const FONT: &str = "Ubuntu, system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

/// The whole picture as SVG, images within it.
pub fn svg(scene: &Scene) -> Result<String, ReportError> {
    let mut text = head(scene);
    let _ = writeln!(text, "<title>{}</title>", escape(&scene.title));
    let whole = Rect { x: 0.0, y: 0.0, width: scene.width, height: scene.height };
    write_shape(&mut text, &Shape::Rectangle(whole, scene.ground))?;
    scene.shapes.iter().try_for_each(|shape| write_shape(&mut text, shape))?;
    text.push_str("</svg>\n");
    Ok(text)
}

/// The shapes of `from` without images and ground, for drawing over them.
pub fn svg_overlay(scene: &Scene, shapes: &[&Shape]) -> Result<String, ReportError> {
    let mut text = head(scene);
    shapes.iter().try_for_each(|shape| write_shape(&mut text, shape))?;
    text.push_str("</svg>\n");
    Ok(text)
}

fn head(scene: &Scene) -> String {
    let (width, height) = (scene.width, scene.height);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"{FONT}\" role=\"img\">\n"
    )
}

fn write_shape(text: &mut String, shape: &Shape) -> Result<(), ReportError> {
    let _ = match shape {
        Shape::Rectangle(at, colour) => writeln!(
            text,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
            at.x,
            at.y,
            at.width,
            at.height,
            hex(*colour)
        ),
        Shape::Line { points, colour, width, dash } => writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"{}/>",
            list(points),
            hex(*colour),
            dashes(dash)
        ),
        Shape::Area { points, colour, opacity } => writeln!(
            text,
            "<polygon points=\"{}\" fill=\"{}\" fill-opacity=\"{opacity}\"/>",
            list(points),
            hex(*colour)
        ),
        Shape::Dot { x, y, radius, colour } => {
            writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{}\"/>", hex(*colour))
        }
        Shape::Text { x, y, text: words, colour, size, anchor } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            writeln!(
                text,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{}\">{}</text>",
                hex(*colour),
                escape(words)
            )
        }
        Shape::Picture(at, image) => {
            let bytes = base64::engine::general_purpose::STANDARD.encode(png::encode(image)?);
            writeln!(
                text,
                "<image x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" preserveAspectRatio=\"none\" \
                 style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{bytes}\"/>",
                at.x, at.y, at.width, at.height
            )
        }
    };
    Ok(())
}

fn list(points: &[(f32, f32)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

fn dashes(dash: &[f32]) -> String {
    if dash.is_empty() {
        return String::new();
    }
    let lengths: Vec<String> = dash.iter().map(f32::to_string).collect();
    format!(" stroke-dasharray=\"{}\"", lengths.join(" "))
}

fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
