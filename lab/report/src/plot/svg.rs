//! Pictures as SVG.

use super::colour::Colour;
use super::image::encode;
use super::scene::{Anchor, Rect, Scene, Shape};
use crate::error::ReportError;
use crate::words::escape_markup as escape;
use base64::Engine as _;
use std::fmt::Write as _;

/// The font family of SVG text; PNG text has the first of them.
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

/// `shapes` on a transparent background of the scene's size, to draw over images.
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
            writeln!(
                text,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{}\"/>",
                hex(*colour)
            )
        }
        Shape::Text { x, y, text: words, colour, size, anchor } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            writeln!(
                text,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" \
                 fill=\"{}\">{}</text>",
                hex(*colour),
                escape(words)
            )
        }
        Shape::Picture(at, image) => {
            let bytes = base64::engine::general_purpose::STANDARD.encode(encode(image)?);
            writeln!(
                text,
                "<image x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" \
                 href=\"data:image/png;base64,{bytes}\"/>",
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
