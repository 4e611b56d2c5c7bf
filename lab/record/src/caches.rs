//! In which level of the caches were the lines of a sample? The recorder's library reads a chain of
//! lines (`in_process/recorder/caches.c`) and reads it again at the thread's next event; here the
//! same chain is timed with the lines in a known level.

use keel_journal::{CACHE_LEVELS, cache_sizes};
use std::sync::OnceLock;

/// One system page, of which every fourth line belongs to the chain. The same order as in
/// `caches.c`.
#[repr(align(4096))]
struct Chain([u32; 1024]);

const ORDER: [u32; 16] = [0, 7, 14, 5, 12, 3, 10, 1, 8, 15, 6, 13, 4, 11, 2, 9];
/// Words between two lines of the chain.
const APART: u32 = 64;
const TRIES: usize = 7;
/// A level whose lines take less than this many times as long as those of the one before is not
/// distinguished.
const LEAST_RATIO: f64 = 1.3;

impl Chain {
    fn new() -> Box<Chain> {
        let mut chain = Box::new(Chain([0; 1024]));
        for (place, next) in ORDER.iter().zip(ORDER.iter().cycle().skip(1)) {
            chain.0[(place * APART) as usize] = next * APART;
        }
        chain
    }

    /// Ticks that it takes to read the chain.
    fn read(&self) -> u64 {
        let mut at = 0u32;
        let began = fenced_ticks();
        for _ in ORDER {
            // SAFETY: inside of the page. Volatile: the loads are the purpose.
            at = unsafe { std::ptr::read_volatile(&raw const self.0[at as usize]) };
        }
        std::hint::black_box(at);
        fenced_ticks() - began
    }

    /// The time after `evict`: the lower quartile, because other programs evict the lines further.
    fn after(&self, evict: impl Fn(&Chain)) -> u64 {
        let mut times = [0; TRIES];
        for time in &mut times {
            self.read();
            evict(self);
            *time = self.read();
        }
        times.sort_unstable();
        times[TRIES / 4]
    }
}

/// The clock, read after all earlier loads and before all later ones.
#[cfg(target_arch = "x86_64")]
fn fenced_ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 has SSE2.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn fenced_ticks() -> u64 {
    0
}

/// Removes the chain from all caches.
fn flush(chain: &Chain) {
    #[cfg(target_arch = "x86_64")]
    for place in ORDER {
        let line: *const u32 = &raw const chain.0[(place * APART) as usize];
        // SAFETY: an address of the page.
        unsafe { std::arch::x86_64::_mm_clflush(line.cast()) };
    }
    #[cfg(target_arch = "x86_64")]
    fenced_ticks();
    std::hint::black_box(chain);
}

/// Distinguishes the levels of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Bytes of each level that is distinguished.
    pub sizes: Vec<u64>,
    /// Readings of at least so many ticks found the lines outside of the level.
    bounds: Vec<u64>,
}

impl Levels {
    /// Those of this machine, measured once; None if the levels cannot be distinguished.
    pub fn of_this_machine() -> Option<&'static Levels> {
        static LEVELS: OnceLock<Option<Levels>> = OnceLock::new();
        LEVELS.get_or_init(|| measured(&cache_sizes())).as_ref()
    }

    /// `times`: of a reading in the first level, in the second, ..., and in memory.
    fn between(sizes: &[u64], times: &[u64]) -> Option<Levels> {
        let mut levels = Levels { sizes: Vec::new(), bounds: Vec::new() };
        for (size, pair) in sizes.iter().zip(times.windows(2)) {
            let (near, far) = (pair[0].max(1) as f64, pair[1] as f64);
            // A level that is not found ends the list: those behind it have no number.
            if far < near * LEAST_RATIO {
                break;
            }
            levels.sizes.push(*size);
            levels.bounds.push((near * far).sqrt() as u64);
        }
        (!levels.sizes.is_empty()).then_some(levels)
    }

    /// How many levels the lines had been evicted from.
    pub fn evicted(&self, ticks: u64) -> usize {
        self.bounds.iter().take_while(|bound| ticks >= **bound).count()
    }
}

/// Calibrations. What disturbs one (neighbours on the machine, pages that share cache sets) adds
/// time: so a level's least time is the nearest to its own.
const CALIBRATIONS: usize = 16;

fn measured(sizes: &[u64]) -> Option<Levels> {
    if !cfg!(target_arch = "x86_64") || sizes.is_empty() {
        return None;
    }
    // Each calibration has a chain of its own, in another place of the caches.
    let all = (0..CALIBRATIONS).map(|_| times_of_levels(&Chain::new(), sizes));
    Levels::between(sizes, &least(all))
}

/// The least time of each level.
fn least(calibrations: impl Iterator<Item = Vec<u64>>) -> Vec<u64> {
    calibrations
        .reduce(|best, times| best.iter().zip(times).map(|(one, other)| other.min(*one)).collect())
        .unwrap_or_default()
}

/// The times of a chain of loads from each level, the innermost first, and from memory.
fn times_of_levels(chain: &Chain, sizes: &[u64]) -> Vec<u64> {
    let mut times = vec![chain.after(|_| {})];
    // Twice the level before: addresses are not spread evenly over the sets.
    for inner in &sizes[..sizes.len().min(CACHE_LEVELS) - 1] {
        let other = vec![1u8; (inner * 2) as usize];
        times.push(chain.after(|_| {
            for line in other.chunks(64) {
                std::hint::black_box(line[0]);
            }
        }));
    }
    times.push(chain.after(flush));
    times
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn times_are_assigned_to_the_nearest_level() {
        let levels = Levels::between(&[32 << 10, 1 << 20, 32 << 20], &[100, 200, 600, 3000]);
        let levels = levels.unwrap();
        let found = [90, 100, 130, 150, 200, 300, 400, 600, 1300, 1400, 9000];
        let found = found.map(|ticks| levels.evicted(ticks));
        assert_eq!(found, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3]);
    }

    #[test]
    fn levels_that_look_alike_are_not_distinguished() {
        assert_eq!(Levels::between(&[32 << 10, 1 << 20], &[100, 110, 900]), None);
        let one = Levels::between(&[32 << 10, 1 << 20], &[100, 200, 210]).unwrap();
        assert_eq!((one.sizes.as_slice(), one.evicted(1_000_000)), (&[32 << 10][..], 1));
    }

    #[test]
    fn a_calibration_that_was_disturbed_hides_no_level() {
        let sizes = [32 << 10, 1 << 20, 32 << 20];
        // Each is disturbed elsewhere: none alone distinguishes all levels.
        let disturbed = [[100, 590, 610, 3100], [180, 200, 2900, 3000], [400, 480, 600, 3200]];
        for times in disturbed {
            let levels = Levels::between(&sizes, &times);
            assert!(levels.is_none_or(|levels| levels.sizes.len() < 3), "{times:?}");
        }
        let times = least(disturbed.iter().map(|times| times.to_vec()));
        assert_eq!(times, [100, 200, 600, 3000]);
        assert_eq!(Levels::between(&sizes, &times).unwrap().sizes, sizes);
    }

    #[test]
    fn the_chain_visits_each_of_its_lines_once() {
        let chain = Chain::new();
        let mut seen = std::collections::BTreeSet::new();
        let mut at = 0;
        while seen.insert(at) {
            at = chain.0[at as usize];
        }
        assert_eq!((seen.len(), at), (ORDER.len(), 0));
    }
}
