//! The colours of the page (`page/colour.js`): lightness is density; hue is size, cause or thread.

use super::options::Hue;

/// Red, green, blue.
pub type Colour = [u8; 3];

/// Shades of a ramp, from a single call to the densest cell.
pub const SHADES: usize = 128;

/// Colours of background, text, labels and lines.
pub struct Theme {
    /// Behind the plots.
    pub paper: Colour,
    /// In the plots.
    pub plot: Colour,
    /// Text.
    pub ink: Colour,
    /// Labels of axes.
    pub soft: Colour,
    /// Lines of axes.
    pub line: Colour,
}

/// The light or the dark theme.
pub const fn theme(dark: bool) -> Theme {
    if dark {
        Theme {
            paper: [0x0d, 0x10, 0x14],
            plot: [0x0a, 0x0c, 0x10],
            ink: [0xe9, 0xec, 0xf0],
            soft: [0x94, 0x9c, 0xa8],
            line: [0x27, 0x2d, 0x36],
        }
    } else {
        Theme {
            paper: [0xff, 0xff, 0xff],
            plot: [0xff, 0xff, 0xff],
            ink: [0x15, 0x18, 0x1c],
            soft: [0x64, 0x6b, 0x75],
            line: [0xe3, 0xe1, 0xda],
        }
    }
}

fn oklab(lightness: f64, a: f64, b: f64) -> Colour {
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548 * b).powi(3);
    let linear = [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701 * s,
    ];
    linear.map(|value| {
        let v = value.clamp(0.0, 1.0);
        let encoded = if v <= 0.003_130_8 { 12.92 * v } else { 1.055 * v.powf(1.0 / 2.4) - 0.055 };
        (255.0 * encoded).round() as u8
    })
}

type Chroma = (f64, f64);

fn polar(hue: f64, chroma: f64) -> Chroma {
    (chroma * hue.to_radians().cos(), chroma * hue.to_radians().sin())
}

/// Position, hue and chroma from the smallest blocks to the largest.
const SIZE_STOPS: [(f64, f64, f64); 6] = [
    (0.0, 272.0, 0.17),
    (0.3, 232.0, 0.12),
    (0.52, 178.0, 0.085),
    (0.72, 92.0, 0.13),
    (0.86, 62.0, 0.16),
    (1.0, 34.0, 0.19),
];
const LANE_HUES: [f64; 15] = [
    245.0, 60.0, 155.0, 350.0, 200.0, 95.0, 300.0, 25.0, 130.0, 270.0, 75.0, 180.0, 325.0, 225.0,
    110.0,
];

fn size_chroma(part: f64) -> Chroma {
    let next =
        SIZE_STOPS.iter().position(|stop| stop.0 >= part).unwrap_or(SIZE_STOPS.len() - 1).max(1);
    let (from, to) = (SIZE_STOPS[next - 1], SIZE_STOPS[next]);
    let (a, b) = (polar(from.1, from.2), polar(to.1, to.2));
    let share = (part - from.0) / (to.0 - from.0);
    (a.0 + (b.0 - a.0) * share, a.1 + (b.1 - a.1) * share)
}

/// The hue of a cell: by its size step, by its cause (see [`crate::counts::TileCell`]) or by its
/// lane.
pub fn chroma(hue: Hue, size_step: f64, cause: u8, lane: u8) -> Chroma {
    match hue {
        Hue::Size if size_step < 0.5 => (0.0, 0.0),
        Hue::Size => size_chroma((((size_step - 1.0) / 4.0 - 4.0) / 16.0).clamp(0.0, 1.0)),
        Hue::Cause => match cause {
            2 => polar(350.0, 0.2),
            1 => polar(75.0, 0.16),
            _ => polar(240.0, 0.1),
        },
        Hue::Thread => polar(LANE_HUES[usize::from(lane) % LANE_HUES.len()], 0.14),
    }
}

/// The colour of a share of a budget, by the number of the limits 1, 5 and 10 % that it exceeds.
pub fn spent(limits: usize, dark: bool) -> Colour {
    const HUES: [(f64, f64); 4] = [(250.0, 0.07), (95.0, 0.15), (62.0, 0.17), (34.0, 0.2)];
    let (hue, chroma) = HUES[limits.min(3)];
    shade(polar(hue, chroma), if dark { 0.6 } else { 0.4 }, dark)
}

/// A shade of a hue: strength 0 is a single call, 1 the densest cell.
pub fn shade((a, b): Chroma, strength: f64, dark: bool) -> Colour {
    let lightness = if dark { 0.42 + 0.53 * strength } else { 0.76 - 0.5 * strength };
    let fullness =
        if dark { 0.55 + 0.9 * strength * (1.35 - strength) } else { 0.6 + 0.5 * strength.sqrt() };
    oklab(lightness, a * fullness, b * fullness)
}

/// An allocator's colour and dashes, the same as on every page.
pub fn look(name: &str, index: usize, dark: bool) -> (Colour, &'static [f32]) {
    const SPARE: [([u8; 3], [u8; 3]); 3] = [
        ([0x8a, 0x3b, 0x12], [0xe0, 0xa1, 0x84]),
        ([0x2b, 0x5f, 0x5f], [0x85, 0xc9, 0xc9]),
        ([0x7a, 0x2f, 0x6b], [0xd5, 0x9a, 0xc9]),
    ];
    let (light, night, dash): (Colour, Colour, &'static [f32]) = match name {
        "keel" => ([0xd1, 0x49, 0x0c], [0xff, 0x7a, 0x3d], &[]),
        "glibc" | "system" => ([0x5b, 0x64, 0x70], [0xa3, 0xad, 0xb9], &[]),
        "glibc-tuned" => ([0x1c, 0x25, 0x30], [0xe4, 0xea, 0xf1], &[6.0, 3.0]),
        "mimalloc" => ([0x00, 0x67, 0xa3], [0x4a, 0xa8, 0xe0], &[]),
        "mimalloc2" => ([0x3b, 0x9b, 0xd0], [0x8f, 0xd0, 0xf5], &[6.0, 3.0]),
        "jemalloc" => ([0x00, 0x80, 0x5c], [0x2f, 0xc2, 0x9a], &[]),
        "snmalloc" => ([0xb0, 0x58, 0x8c], [0xe3, 0x9a, 0xc4], &[]),
        "rpmalloc" => ([0xb8, 0x7a, 0x00], [0xf0, 0xb3, 0x2e], &[]),
        "tlsf" => ([0x75, 0x70, 0x0a], [0xd8, 0xd0, 0x4f], &[6.0, 3.0]),
        "dlmalloc" => ([0x6a, 0x4f, 0xb5], [0xab, 0x93, 0xee], &[6.0, 3.0]),
        "null" => ([0x9a, 0xa1, 0xaa], [0x6c, 0x74, 0x7e], &[2.0, 3.0]),
        _ => (SPARE[index % 3].0, SPARE[index % 3].1, &[2.0, 2.0]),
    };
    (if dark { night } else { light }, dash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_move_away_from_the_background_and_hues_differ() {
        let sum = |colour: Colour| colour.iter().map(|part| u32::from(*part)).sum::<u32>();
        let small = chroma(Hue::Size, 17.0, 0, 0);
        assert!(
            sum(shade(small, 0.0, false)) > sum(shade(small, 1.0, false)),
            "darker on a light background"
        );
        assert!(
            sum(shade(small, 0.0, true)) < sum(shade(small, 1.0, true)),
            "lighter on a dark background"
        );
        assert_ne!(shade(small, 0.5, false), shade(chroma(Hue::Size, 81.0, 0, 0), 0.5, false));
        assert_ne!(chroma(Hue::Thread, 0.0, 0, 0), chroma(Hue::Thread, 0.0, 0, 1));
        let [red, green, blue] = shade((0.0, 0.0), 0.5, false);
        assert!(red == green && green == blue, "no hue is grey");
    }
}
