//! Events that make calls slow, each alone, and a loop of frames with all of them.

pub mod contract;
pub mod frames;
pub mod growth;
pub mod threads;

use crate::random::Random;

/// Typical sizes of a program: mostly small, sometimes a page, rarely a buffer.
fn program_size(random: &mut Random) -> usize {
    match random.below(1000) {
        0..900 => 16 + random.below(240) as usize,
        900..990 => 256 + random.below(3840) as usize,
        990..999 => 4096 + random.below(61_440) as usize,
        _ => 65_536 + random.below(983_040) as usize,
    }
}
