//! What a recording waits for, if it does not begin with the program: a signal, or events that
//! write the last seconds.

use crate::clock::Clock;
use crate::ring::{RawEvent, op};
use rustc_hash::FxHashMap;
use std::fmt;
use std::time::Duration;

/// A recording that waits.
#[derive(Clone, Debug)]
pub enum Wait {
    /// A signal to this process begins a journal, and the next one ends it.
    On(Signal),
    /// Each of some events writes what happened before it.
    Last(Last),
}

/// The last seconds of a program are kept in memory until an event writes them.
#[derive(Clone, Debug)]
pub struct Last {
    /// The time before the event that the journal covers.
    pub length: Duration,
    /// Most bytes of memory for that time. If the program records more, the journal covers less.
    pub buffer_bytes: u64,
    /// The events. None of them: [`When::Crash`].
    pub when: Vec<When>,
    /// The recording ends after this many journals.
    pub journals: u32,
}

/// An event that writes a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Two frame marks are farther apart than this.
    Frame(Duration),
    /// The program passes a mark with this text.
    Mark(String),
    /// A signal to this process.
    Signal(Signal),
    /// A signal ended the program, other than those by which it is asked to end.
    Crash,
    /// The program ended.
    Exit,
}

/// A signal that has no other meaning for a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
}

impl Signal {
    /// Its number.
    pub fn number(self) -> i32 {
        match self {
            Signal::Usr1 => libc::SIGUSR1,
            Signal::Usr2 => libc::SIGUSR2,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Signal::Usr1 => "SIGUSR1",
            Signal::Usr2 => "SIGUSR2",
        })
    }
}

impl Wait {
    /// The signal to this process that the recording waits for.
    pub fn signal(&self) -> Option<Signal> {
        match self {
            Wait::On(signal) => Some(*signal),
            Wait::Last(last) => last.when.iter().find_map(|when| match when {
                When::Signal(signal) => Some(*signal),
                _ => None,
            }),
        }
    }
}

impl Last {
    /// Why the end of the program, in the words of the metadata, writes a journal. The words are ""
    /// if the status is unknown.
    pub fn at_end(&self, ended: &str) -> Option<String> {
        let crashed = is_crash(ended) && self.when.contains(&When::Crash);
        let ended_at_all = ended != "still running" && self.when.contains(&When::Exit);
        let text = format!("the program ended: {ended}");
        (crashed || ended_at_all).then(|| text.trim_end_matches(": ").to_owned())
    }
}

/// Signals by which users and the system ask a program to end.
const ASKING: [i32; 5] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGPIPE, libc::SIGTERM];

fn is_crash(ended: &str) -> bool {
    let signal = ended.strip_prefix("signal ").and_then(|number| number.parse().ok());
    signal.is_some_and(|signal: i32| !ASKING.contains(&signal))
}

/// An event that occurred.
#[derive(Debug)]
pub struct Occurred {
    /// Ticks.
    pub time: u64,
    /// In words.
    pub what: String,
    /// Events that follow each other closely, such as long frames, write one journal.
    pub is_frequent: bool,
}

/// Looks for events among those that the program records.
#[derive(Default)]
pub struct Watch {
    last_frame: Option<u64>,
    /// By ring: the text of a mark that is not complete yet.
    texts: FxHashMap<u32, Vec<u8>>,
}

impl Watch {
    /// Another program image begins.
    pub fn reset(&mut self) {
        *self = Watch::default();
    }

    /// The first of the events in `when` in one reading of all rings.
    pub fn look(
        &mut self,
        rings: &[(u32, Vec<RawEvent>)],
        clock: &Clock,
        when: &[When],
    ) -> Option<Occurred> {
        let mut found = Vec::new();
        let mut frames = Vec::new();
        for (ring, events) in rings {
            for event in events {
                match event.op() {
                    op::FRAME => frames.push(event.time),
                    op::TEXT => self.texts.entry(*ring).or_default().extend(event.text()),
                    op::MARK => found.extend(self.mark(*ring, event, when)),
                    _ => {}
                }
            }
        }
        frames.sort_unstable();
        let limit = when.iter().find_map(|when| match when {
            When::Frame(limit) => Some(limit.as_nanos() as u64),
            _ => None,
        });
        for time in frames {
            let before = self.last_frame.replace(time);
            let length = before.map_or(0, |before| clock.duration(time.saturating_sub(before)));
            if limit.is_some_and(|limit| length > limit) {
                let what = format!("a frame took {:.1} ms", length as f64 / 1e6);
                found.push(Occurred { time, what, is_frequent: true });
            }
        }
        found.into_iter().min_by_key(|one| one.time)
    }

    fn mark(&mut self, ring: u32, event: &RawEvent, when: &[When]) -> Option<Occurred> {
        let mut text = self.texts.remove(&ring).unwrap_or_default();
        text.extend(event.text());
        let text = String::from_utf8_lossy(&text);
        let is_wanted = |when: &When| matches!(when, When::Mark(name) if *name == text);
        when.iter().any(is_wanted).then(|| Occurred {
            time: event.time,
            what: format!("the program passed the mark {text}"),
            is_frequent: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64, op: u8) -> RawEvent {
        RawEvent { time, address: 0, size: 0, word: u64::from(op) }
    }

    fn text(time: u64, op: u8, text: &str) -> RawEvent {
        let mut bytes = [0; 16];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        let (first, second) = bytes.split_at(8);
        let word = |half: &[u8]| half.iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b));
        RawEvent { time, address: word(first), size: word(second), word: u64::from(op) }
    }

    fn clock() -> Clock {
        Clock::between(crate::ring::CLOCK_MONOTONIC, Default::default(), Default::default())
    }

    #[test]
    fn a_long_frame_is_found_across_readings_and_threads() {
        let (mut watch, clock) = (Watch::default(), clock());
        let when = [When::Frame(Duration::from_nanos(100))];
        let mut look = |rings: &[(u32, Vec<RawEvent>)]| {
            watch.look(rings, &clock, &when).map(|found| found.time)
        };
        // Without an earlier mark there is no frame.
        assert_eq!(look(&[(0, vec![at(1000, op::FRAME)])]), None);
        let two = [(0, vec![at(1100, op::FRAME)]), (3, vec![at(1050, op::FRAME)])];
        assert_eq!(look(&two), None);
        assert_eq!(look(&[(0, vec![at(1200, op::FRAME), at(1301, op::FRAME)])]), Some(1301));
    }

    #[test]
    fn a_mark_is_found_by_its_whole_text() {
        let (mut watch, clock) = (Watch::default(), clock());
        let when = [When::Mark("0123456789abcdef!".to_owned())];
        let begin = [(2, vec![text(5, op::TEXT, "0123456789abcdef")])];
        assert!(watch.look(&begin, &clock, &when).is_none());
        let others = [(1, vec![text(6, op::MARK, "!")]), (2, vec![text(7, op::MARK, "!")])];
        assert_eq!(watch.look(&others, &clock, &when).map(|found| found.time), Some(7));
    }

    #[test]
    fn a_crash_is_no_request_to_end() {
        let last = |when: &[When]| Last {
            length: Duration::ZERO,
            buffer_bytes: 0,
            when: when.to_vec(),
            journals: 1,
        };
        let crash = last(&[When::Crash]);
        let writes = |ended| crash.at_end(ended).is_some();
        assert!(["signal 11", "signal 6", "signal 9"].into_iter().all(writes));
        assert!(!["signal 15", "signal 2", "exit 1", "still running", ""].into_iter().any(writes));
        let exit = last(&[When::Exit]);
        assert!(exit.at_end("exit 0").is_some() && exit.at_end("still running").is_none());
        assert_eq!(exit.at_end("").as_deref(), Some("the program ended"));
    }
}
