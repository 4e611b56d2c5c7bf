//! `--between`: what each thread reads between two calls, so that the caches are as they are in the
//! program.

use crate::format;
use anyhow::{Result, bail};
use keel_journal::{Caches, Metadata, cache_sizes};
use keel_replay::{CLASSES, Eviction, LEVELS, Pace, Shares};

/// The value of the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// `evict=SIZE`.
    Bytes(u64),
    /// `evict=auto`: as recorded.
    Auto,
}

/// Pauses of a class with fewer samples count like those of the class before.
const LEAST_SAMPLES: u64 = 8;
/// A journal with fewer samples in all is refused.
const LEAST_IN_ALL: u64 = 32;
/// The most that is read in a pause to evict the last level.
const MOST_BYTES: u64 = 256 << 20;

/// Parses `evict=SIZE` or `evict=auto`.
pub fn parse(text: &str) -> Result<Between, String> {
    match text.strip_prefix("evict=").ok_or("give evict=auto or evict=SIZE, such as evict=1M")? {
        "auto" => Ok(Between::Auto),
        size => format::parse_size(size).map(Between::Bytes),
    }
}

/// Refuses paces at which the option has no effect or no meaning.
pub fn check(between: Option<Between>, pace: Pace) -> Result<()> {
    if between.is_some() && pace == Pace::Max {
        bail!(
            "--between has no effect at pace max, where the next call is always due: add --pace 1x"
        );
    }
    if between == Some(Between::Auto) && !matches!(pace, Pace::Compressed | Pace::Times(1.0)) {
        bail!(
            "--between evict=auto evicts what the program evicted in pauses of the recorded \
             length: use --pace 1x or compressed"
        );
    }
    Ok(())
}

/// The eviction for a journal.
pub fn eviction(between: Option<Between>, metadata: &Metadata) -> Result<Eviction> {
    match between {
        None => Ok(Eviction::None),
        Some(Between::Bytes(bytes)) => Ok(Eviction::Bytes(bytes)),
        Some(Between::Auto) => {
            let here = cache_sizes();
            let sizes = if here.is_empty() { &metadata.caches.sizes } else { &here };
            recorded(&metadata.caches, sizes)
        }
    }
}

fn recorded(caches: &Caches, sizes: &[u64]) -> Result<Eviction> {
    let all: u64 = caches.samples().iter().sum();
    if all < LEAST_IN_ALL {
        let found = match all {
            0 => "contains no samples".to_owned(),
            1 => "contains only one sample".to_owned(),
            _ => format!("contains only {all} samples"),
        };
        bail!(
            "the journal {found} of what the program evicts from the caches (keel record takes \
             one in about 1,024 operations; imported traces have none): give a size instead, such \
             as --between evict=1M"
        );
    }
    let mut of_65536 = [[0; LEVELS]; CLASSES];
    let mut last = [0; LEVELS];
    for (class, shares) in of_65536.iter_mut().enumerate() {
        let found = caches.pauses.iter().find(|pauses| pauses.from_ns == 1 << class);
        if let Some(found) =
            found.filter(|found| found.samples.iter().sum::<u64>() >= LEAST_SAMPLES)
        {
            let total: u64 = found.samples.iter().sum();
            for (level, share) in last.iter_mut().enumerate() {
                let at_least: u64 = found.samples[level + 1..].iter().sum();
                *share = (at_least * 65_536 / total) as u32;
            }
        }
        *shares = last;
    }
    // More than the level: addresses are not spread evenly over its sets.
    let bytes = |level: usize| {
        let size = sizes.get(level).or(sizes.last()).copied().unwrap_or(0);
        (size.saturating_mul(3) / 2).min(MOST_BYTES)
    };
    Ok(Eviction::Recorded(Shares { bytes: std::array::from_fn(bytes), of_65536 }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn shares(samples: &[(u64, usize, u64)]) -> Result<Shares> {
        let mut caches = Caches::default();
        for (pause, levels, count) in samples {
            (0..*count).for_each(|_| caches.add(*pause, *levels));
        }
        match recorded(&caches, &[1 << 15, 1 << 20, 1 << 30])? {
            Eviction::Recorded(shares) => Ok(shares),
            other => bail!("{other:?}"),
        }
    }

    #[test]
    fn shares_are_those_of_the_samples() {
        // The three samples of 4,096 ns are too few: they count as those of 2,048.
        let shares = shares(&[(1100, 0, 30), (1500, 1, 10), (2048, 2, 8), (4096, 3, 3)]).unwrap();
        assert_eq!(shares.of_65536[9], [0, 0, 0], "shorter pauses than any sample's");
        assert_eq!(shares.of_65536[10], [16_384, 0, 0]);
        assert_eq!(shares.of_65536[11], [65_536, 65_536, 0]);
        assert_eq!(shares.of_65536[12], shares.of_65536[11]);
        assert_eq!(shares.of_65536[CLASSES - 1], shares.of_65536[11]);
        assert_eq!(shares.bytes, [48 << 10, 1536 << 10, 256 << 20]);
    }

    #[test]
    fn few_samples_are_refused_with_the_next_step() {
        for (count, words) in [(0, "no samples"), (1, "only one sample"), (31, "only 31 samples")] {
            let error = shares(&[(1000, 1, count)]).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("--between evict=1M"), "{error}");
        }
        assert!(shares(&[(1000, 1, 32)]).is_ok());
    }
}
