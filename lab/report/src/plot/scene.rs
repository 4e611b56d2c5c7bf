//! A picture as a list of shapes.

use super::colour::Colour;
use super::image::Image;

/// The position of a text's point.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// At its left end.
    Start,
    /// In its middle.
    Middle,
    /// At its right end.
    End,
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

/// One shape of a picture.
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

/// A picture; later shapes cover earlier ones.
pub struct Scene {
    /// Width, CSS pixels.
    pub width: f32,
    /// Height, CSS pixels.
    pub height: f32,
    /// Colour of the background.
    pub ground: Colour,
    /// The shapes.
    pub shapes: Vec<Shape>,
    /// A sentence that describes the picture to people who do not see it.
    pub title: String,
}
