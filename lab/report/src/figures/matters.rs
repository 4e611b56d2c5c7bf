//! Which differences matter in practice.

use serde::Serialize;

/// The least differences that matter. A smaller one is of no practical use, even if it is
/// significant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Matters {
    /// The least share of the time in calls.
    pub time: f64,
    /// The least share of the recorded time, for programs without frames.
    pub program: f64,
    /// The least share of the usual length of a recorded frame, in each frame.
    pub frame: f64,
    /// The least share of the peak memory.
    pub memory: f64,
}

impl Default for Matters {
    fn default() -> Matters {
        Matters { time: 0.05, program: 0.01, frame: 0.01, memory: 0.05 }
    }
}

impl std::str::FromStr for Matters {
    type Err = String;

    /// Parts `NAME=PERCENT`, separated by commas. The others keep their defaults.
    fn from_str(text: &str) -> Result<Matters, String> {
        let mut matters = Matters::default();
        for part in text.split(',') {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` is not of the form NAME=PERCENT"))?;
            let percent: f64 = value
                .trim()
                .parse()
                .ok()
                .filter(|percent| (0.0..=100.0).contains(percent))
                .ok_or_else(|| format!("`{value}` is not a number of percent from 0 to 100"))?;
            let place = match name.trim() {
                "time" => &mut matters.time,
                "program" => &mut matters.program,
                "frame" => &mut matters.frame,
                "memory" => &mut matters.memory,
                other => {
                    return Err(format!("`{other}`: give time, program, frame or memory"));
                }
            };
            *place = percent / 100.0;
        }
        Ok(matters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_replace_their_defaults() {
        let expected = Matters { time: 0.02, memory: 0.1, ..Matters::default() };
        assert_eq!("time=2, memory=10".parse(), Ok(expected));
        for wrong in ["", "time", "time=-1", "time=101", "time=NaN", "cpu=1"] {
            assert!(wrong.parse::<Matters>().is_err(), "{wrong}");
        }
    }
}
