//! Which caches a thread evicts between two calls: always the same number of bytes, or as the
//! recorded program did.

/// Levels of caches that are distinguished.
pub const LEVELS: usize = 3;
/// Classes of pauses: class `k` is of 2^k ns to less than twice that.
pub const CLASSES: usize = 40;

/// What each thread reads between two calls, until the next call is due.
#[allow(clippy::large_enum_variant, reason = "a process has one for each thread; it is Copy")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// Nothing.
    #[default]
    None,
    /// So many bytes, after each call.
    Bytes(u64),
    /// As recorded.
    Recorded(Shares),
}

/// How often a program evicts a level of the caches in a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The bytes that are read to evict the first level, the first two, and all three.
    pub bytes: [u64; LEVELS],
    /// For each class of pauses: of 65,536 pauses, how many evict at least so many levels.
    pub of_65536: [[u32; LEVELS]; CLASSES],
}

impl Eviction {
    /// The most bytes that are read in one pause.
    pub fn most_bytes(&self) -> u64 {
        match self {
            Eviction::None => 0,
            Eviction::Bytes(bytes) => *bytes,
            Eviction::Recorded(shares) => {
                let used = |level: &usize| shares.of_65536.iter().any(|class| class[*level] > 0);
                (0..LEVELS).filter(used).map(|level| shares.bytes[level]).max().unwrap_or(0)
            }
        }
    }
}

impl Shares {
    /// The bytes to read in a pause; `draw` is a random number below 65,536.
    pub fn bytes_in(&self, pause_ns: u64, draw: u32) -> u64 {
        let class = (pause_ns.max(1).ilog2() as usize).min(CLASSES - 1);
        let levels = self.of_65536[class].iter().take_while(|share| draw < **share).count();
        levels.checked_sub(1).map_or(0, |level| self.bytes[level])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_evicts_the_levels_of_its_share() {
        let mut of_65536 = [[0; LEVELS]; CLASSES];
        of_65536[10] = [60_000, 1_000, 0];
        let shares = Shares { bytes: [64, 128, 256], of_65536 };
        let read = |pause, draw| shares.bytes_in(pause, draw);
        assert_eq!([read(1023, 0), read(1024, 0), read(2047, 999)], [0, 128, 128]);
        assert_eq!([read(2047, 1_000), read(1500, 59_999), read(1500, 60_000)], [64, 64, 0]);
        assert_eq!([read(0, 0), read(u64::MAX, 0)], [0, 0]);
        assert_eq!(Eviction::Recorded(shares).most_bytes(), 128);
        assert_eq!((Eviction::None.most_bytes(), Eviction::Bytes(7).most_bytes()), (0, 7));
    }
}
