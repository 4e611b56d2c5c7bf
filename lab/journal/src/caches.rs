//! What the program evicted from the processor's caches between two of its operations.

use serde::{Deserialize, Serialize};

/// Levels of caches that are distinguished.
pub const CACHE_LEVELS: usize = 3;

/// Samples of the caches between two successive operations of a thread, by the length of the pause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caches {
    /// Bytes of the first, second and third level of the machine; shorter if it has fewer.
    pub sizes: Vec<u64>,
    /// By length, ascending.
    pub pauses: Vec<Pauses>,
}

/// Pauses of `from_ns` to less than twice that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pauses {
    /// A power of two; 1 contains all shorter pauses.
    pub from_ns: u64,
    /// The number of samples after which the lines were still in the first level, were evicted from
    /// the first, from the first and the second, and from all three.
    pub samples: [u64; CACHE_LEVELS + 1],
}

impl Caches {
    /// Returns true if nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.pauses.is_empty()
    }

    /// Adds a sample: a pause, and how many levels were evicted in it.
    pub fn add(&mut self, pause_ns: u64, levels: usize) {
        let from_ns = 1 << pause_ns.max(1).ilog2();
        let at = self.pauses.partition_point(|pauses| pauses.from_ns < from_ns);
        if self.pauses.get(at).is_none_or(|pauses| pauses.from_ns != from_ns) {
            self.pauses.insert(at, Pauses { from_ns, ..Pauses::default() });
        }
        self.pauses[at].samples[levels.min(CACHE_LEVELS)] += 1;
    }

    /// The sum of all pauses.
    pub fn samples(&self) -> [u64; CACHE_LEVELS + 1] {
        let mut sums = [0u64; CACHE_LEVELS + 1];
        for pauses in &self.pauses {
            for (sum, count) in sums.iter_mut().zip(pauses.samples) {
                *sum = sum.saturating_add(count);
            }
        }
        sums
    }
}

/// Bytes of this machine's data caches, first level first; empty if the kernel does not say.
pub fn cache_sizes() -> Vec<u64> {
    let mut sizes = Vec::new();
    for index in 0..8 {
        let read = |file: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}");
            std::fs::read_to_string(path).map(|text| text.trim().to_owned())
        };
        let (Ok(kind), Ok(size)) = (read("type"), read("size")) else { break };
        let kibibytes: Option<u64> = size.strip_suffix('K').and_then(|size| size.parse().ok());
        if kind != "Instruction" && sizes.len() < CACHE_LEVELS {
            sizes.extend(kibibytes.map(|kibibytes| kibibytes << 10));
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn samples_are_sorted_by_the_length_of_the_pause() {
        let mut caches = Caches::default();
        for (pause, levels) in [(1000, 1), (0, 0), (1023, 0), (1024, 2), (70, 0), (600, 9)] {
            caches.add(pause, levels);
        }
        let of = |from_ns, samples| Pauses { from_ns, samples };
        let expected = [
            of(1, [1, 0, 0, 0]),
            of(64, [1, 0, 0, 0]),
            of(512, [1, 1, 0, 1]),
            of(1024, [0, 0, 1, 0]),
        ];
        assert_eq!(caches.pauses, expected);
        assert_eq!(caches.samples(), [3, 1, 1, 1]);
        let text = serde_json::to_string(&caches).unwrap();
        assert_eq!(serde_json::from_str::<Caches>(&text).unwrap(), caches);
    }

    #[test]
    fn caches_of_this_machine_grow_from_level_to_level() {
        let sizes = cache_sizes();
        assert!(sizes.is_sorted(), "{sizes:?}");
        assert!(sizes.iter().all(|size| (4 << 10..16 << 30).contains(size)), "{sizes:?}");
    }
}
