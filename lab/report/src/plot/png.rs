//! Pictures as PNG. Shapes and text go through an SVG renderer; the densities are stretched by hand, pixel by pixel, so
//! that nothing is smoothed away.

use super::scene::{Image, Rect, Scene, Shape, svg_overlay};
use crate::ReportError;
use resvg::tiny_skia::{Color, Pixmap, PremultipliedColorU8, Transform};
use resvg::usvg;
use std::sync::Arc;

/// Encodes an image at its own size.
pub fn encode(image: &Image) -> Result<Vec<u8>, ReportError> {
    let mut pixmap = new_pixmap(image.width, image.height)?;
    let pixels = pixmap.pixels_mut();
    for (to, from) in pixels.iter_mut().zip(image.rgba.chunks_exact(4)) {
        // Either fully there or not at all: nothing to multiply.
        *to = pixel(from);
    }
    finish(&pixmap)
}

fn pixel(rgba: &[u8]) -> PremultipliedColorU8 {
    let alpha = if rgba[3] == 0 { 0 } else { 255 };
    let part = |at: usize| if alpha == 0 { 0 } else { rgba[at] };
    PremultipliedColorU8::from_rgba(part(0), part(1), part(2), alpha)
        .unwrap_or(PremultipliedColorU8::TRANSPARENT)
}

fn new_pixmap(width: u32, height: u32) -> Result<Pixmap, ReportError> {
    Pixmap::new(width.max(1), height.max(1)).ok_or_else(|| {
        ReportError::Plot(format!("{width} x {height} pixels are too many: choose less --width"))
    })
}

fn finish(pixmap: &Pixmap) -> Result<Vec<u8>, ReportError> {
    pixmap.encode_png().map_err(|error| ReportError::Plot(format!("the PNG could not be written: {error}")))
}

/// The whole picture, `scale` pixels to a CSS pixel.
pub fn render(scene: &Scene, scale: f32) -> Result<Vec<u8>, ReportError> {
    let (width, height) = ((scene.width * scale).round() as u32, (scene.height * scale).round() as u32);
    let mut pixmap = new_pixmap(width, height)?;
    let [red, green, blue] = scene.ground;
    pixmap.fill(Color::from_rgba8(red, green, blue, 255));
    // In the scene's order: shapes between two images are drawn together.
    let mut pending: Vec<&Shape> = Vec::new();
    for shape in &scene.shapes {
        match shape {
            Shape::Picture(at, image) => {
                draw(scene, &mut pending, &mut pixmap, scale)?;
                stretch(image, *at, scale, &mut pixmap);
            }
            other => pending.push(other),
        }
    }
    draw(scene, &mut pending, &mut pixmap, scale)?;
    finish(&pixmap)
}

fn draw(
    scene: &Scene,
    pending: &mut Vec<&Shape>,
    pixmap: &mut Pixmap,
    scale: f32,
) -> Result<(), ReportError> {
    if pending.is_empty() {
        return Ok(());
    }
    let text = svg_overlay(scene, pending)?;
    pending.clear();
    let tree = usvg::Tree::from_str(&text, &options())
        .map_err(|error| ReportError::Plot(format!("the picture could not be drawn: {error}")))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixmap.as_mut());
    Ok(())
}

/// The one font that is always there: no picture depends on what a machine has installed.
fn options() -> usvg::Options<'static> {
    let mut options = usvg::Options { font_family: "Ubuntu".into(), ..usvg::Options::default() };
    let fonts = Arc::make_mut(&mut options.fontdb);
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    fonts.set_sans_serif_family("Ubuntu");
    options
}

/// Each pixel of the box takes the image's pixel under its middle.
fn stretch(image: &Image, at: Rect, scale: f32, pixmap: &mut Pixmap) {
    let (left, top) = ((at.x * scale).round() as u32, (at.y * scale).round() as u32);
    let (wide, tall) = ((at.width * scale).round() as u32, (at.height * scale).round() as u32);
    let (right, bottom) = ((left + wide).min(pixmap.width()), (top + tall).min(pixmap.height()));
    let across = pixmap.width();
    let pixels = pixmap.pixels_mut();
    for y in top..bottom {
        let row = u64::from(y - top) * u64::from(image.height) / u64::from(tall.max(1));
        for x in left..right {
            let column = u64::from(x - left) * u64::from(image.width) / u64::from(wide.max(1));
            let from = ((row * u64::from(image.width) + column) * 4) as usize;
            if image.rgba[from + 3] != 0 {
                pixels[(y * across + x) as usize] = pixel(&image.rgba[from..from + 4]);
            }
        }
    }
}
