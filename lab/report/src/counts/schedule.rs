//! When calls were due, from the pace of the replay.

/// The longest pause that pace `compressed` leaves (`lab/replay/src/compile/pacing.rs`).
const LONGEST_GAP_NS: u64 = 1_000_000;

/// When rows were due, by the pace of the replay.
pub enum Schedule {
    None,
    Times(f64),
    Compressed { last: u64, skipped: u64 },
}

impl Schedule {
    pub fn of(pace: &str) -> Schedule {
        match pace {
            "compressed" => Schedule::Compressed { last: 0, skipped: 0 },
            pace => match pace.strip_suffix('x').and_then(|times| times.parse().ok()) {
                Some(times) if times > 0.0 => Schedule::Times(times),
                _ => Schedule::None,
            },
        }
    }

    pub fn extend(&mut self, times: &[u64], due: &mut Vec<u64>) {
        match self {
            Schedule::None => {}
            Schedule::Times(factor) => {
                due.extend(times.iter().map(|time| (*time as f64 / *factor) as u64))
            }
            Schedule::Compressed { last, skipped } => due.extend(times.iter().map(|time| {
                *skipped += time.saturating_sub(*last).saturating_sub(LONGEST_GAP_NS);
                *last = (*last).max(*time);
                time.saturating_sub(*skipped)
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_follows_the_pace() {
        let due = |pace| {
            let mut due = Vec::new();
            Schedule::of(pace).extend(&[0, 500_000, 9_000_000], &mut due);
            due
        };
        assert_eq!(due("2x"), [0, 250_000, 4_500_000]);
        assert_eq!(due("compressed"), [0, 500_000, 1_500_000]);
        assert!(due("max").is_empty());
    }
}
