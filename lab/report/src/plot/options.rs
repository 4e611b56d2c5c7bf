//! What to draw, and how.

/// What a picture shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View {
    /// Every call over time and latency, an allocator in a panel.
    Density,
    /// Latency percentiles.
    Percentiles,
    /// Resident memory over time.
    Memory,
    /// Every call over size and latency, an allocator in a panel.
    Sizes,
    /// Blocks over size and lifetime, a folder in a panel.
    Lifetimes,
    /// Share of each frame's or audio buffer's time in calls, over time, an allocator in a lane.
    Frames,
    /// How late calls began, over time.
    Lateness,
}

/// The time budget of which the time in calls is a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// Frames per second; at least 1.
    Hertz(u32),
    /// Length of audio buffers, ns: a multiple of 2 ms.
    Buffer(u64),
}

/// The property that the hue of a density shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hue {
    /// The blocks' size.
    Size,
    /// Why calls were slow.
    Cause,
    /// The thread that made more than half of a cell's calls, if there is one; else any.
    Thread,
}

/// How to draw a picture.
#[derive(Clone, Debug)]
pub struct PlotOptions {
    /// What to show.
    pub view: View,
    /// `malloc`, `free`, ...; None for the allocating operation with most calls.
    pub operation: Option<String>,
    /// Names of the allocators to show, in this order; empty for all but the floor.
    pub allocators: Vec<String>,
    /// The property that the hue shows.
    pub hue: Hue,
    /// Budget of [`View::Frames`]; None for frames of 60 Hz, or buffers of 2 ms if the journal has
    /// no frames.
    pub budget: Option<Budget>,
    /// Light lines on a dark background.
    pub dark: bool,
    /// Width in CSS pixels, 320 to 8192.
    pub width: u32,
    /// Pixels of a PNG to a CSS pixel.
    pub scale: f32,
    /// Threads that count.
    pub threads: usize,
}
