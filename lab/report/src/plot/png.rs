//! Pictures as PNG. An SVG renderer draws shapes and text; densities are stretched here, pixel by
//! pixel, because smoothing would hide single calls.

use super::image::{Image, finish, new_pixmap, pixel};
use super::scene::{Rect, Scene, Shape};
use super::svg::svg_overlay;
use crate::error::ReportError;
use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg;
use std::sync::Arc;

/// The whole picture, `scale` pixels to a CSS pixel.
pub fn render(scene: &Scene, scale: f32) -> Result<Vec<u8>, ReportError> {
    let (width, height) =
        ((scene.width * scale).round() as u32, (scene.height * scale).round() as u32);
    let mut pixmap = new_pixmap(width, height)?;
    let [red, green, blue] = scene.ground;
    pixmap.fill(Color::from_rgba8(red, green, blue, 255));
    // In the order of the scene: the shapes between two images are drawn together.
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

/// With the embedded font only: pictures do not depend on the fonts of the machine.
fn options() -> usvg::Options<'static> {
    let mut options = usvg::Options { font_family: "Ubuntu".into(), ..usvg::Options::default() };
    let fonts = Arc::make_mut(&mut options.fontdb);
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    fonts.set_sans_serif_family("Ubuntu");
    options
}

/// Each pixel of the box gets the image's pixel under its centre.
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
