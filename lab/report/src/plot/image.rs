//! Images of a picture, and their bytes as PNG.

use crate::error::ReportError;
use resvg::tiny_skia::{Pixmap, PremultipliedColorU8};

/// Pixels that are stretched over a box without smoothing.
pub struct Image {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Red, green, blue, alpha; row by row from the top.
    pub rgba: Vec<u8>,
}

/// Encodes an image at its own size.
pub fn encode(image: &Image) -> Result<Vec<u8>, ReportError> {
    let mut pixmap = new_pixmap(image.width, image.height)?;
    let pixels = pixmap.pixels_mut();
    for (to, from) in pixels.iter_mut().zip(image.rgba.chunks_exact(4)) {
        // Alpha is 0 or 255, so there is nothing to premultiply.
        *to = pixel(from);
    }
    finish(&pixmap)
}

/// A pixel from red, green, blue and alpha; any alpha but 0 is opaque.
pub fn pixel(rgba: &[u8]) -> PremultipliedColorU8 {
    let alpha = if rgba[3] == 0 { 0 } else { 255 };
    let part = |at: usize| if alpha == 0 { 0 } else { rgba[at] };
    PremultipliedColorU8::from_rgba(part(0), part(1), part(2), alpha)
        .unwrap_or(PremultipliedColorU8::TRANSPARENT)
}

/// An empty pixmap.
///
/// Errors: [`ReportError::Plot`] for too many pixels.
pub fn new_pixmap(width: u32, height: u32) -> Result<Pixmap, ReportError> {
    Pixmap::new(width.max(1), height.max(1)).ok_or_else(|| {
        ReportError::Plot(format!(
            "{width} x {height} pixels are too many: choose a smaller --width"
        ))
    })
}

/// The PNG of a pixmap.
pub fn finish(pixmap: &Pixmap) -> Result<Vec<u8>, ReportError> {
    pixmap
        .encode_png()
        .map_err(|error| ReportError::Plot(format!("the PNG could not be written: {error}")))
}
