//! A small fast generator, whose cost is low compared with the measured calls.

/// SplitMix64 (Steele, Lea, Flood 2014): one addition, two multiplications; the same sequence for
/// the same seed.
pub struct Random(u64);

impl Random {
    /// Each seed has a different sequence.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Uniform below `bound` (at most 2^32), by multiplication instead of division.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z >> 32) * bound) >> 32
    }
}
