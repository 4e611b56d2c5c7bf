//! The part of a program that a limit or a zone concerns.

use keel_journal::CALL_KINDS;
use std::fmt;
use std::str::FromStr;

/// What a limit concerns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All operations of the recording.
    Run,
    /// Each frame on its own; the largest count is compared.
    Frame {
        /// The number of frames at the beginning that are left out.
        warm_up: u64,
    },
    /// All threads with this name, together.
    Threads(String),
    /// From a mark to the next mark with the other text, on all threads; each pass on its own.
    Between {
        /// Text of the first mark.
        from: String,
        /// Text of the second mark.
        to: String,
    },
    /// The operations whose call site is in this function.
    CallSite(String),
    /// The operations with this function anywhere in their stack.
    Within(String),
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Run => formatter.write_str("run"),
            Scope::Frame { .. } => formatter.write_str("frame"),
            Scope::Threads(name) => write!(formatter, "thread {name}"),
            Scope::Between { from, to } => write!(formatter, "between {from} and {to}"),
            Scope::CallSite(function) => write!(formatter, "call site {function}"),
            Scope::Within(function) => write!(formatter, "within {function}"),
        }
    }
}

/// Scheduling classes of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    RoundRobin,
    /// Either of them.
    Realtime,
}

/// Where a program must neither allocate nor free.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ZonePlace {
    /// Threads with this name.
    Thread(String),
    /// Threads of this scheduling class.
    Class(Class),
    /// From a mark to the next mark with the other text, on all threads.
    Marks {
        /// Text of the first mark.
        from: String,
        /// Text of the second mark.
        to: String,
    },
    /// All calls with this function anywhere in their stack.
    Symbol(String),
    /// From `KEEL_ZONE_BEGIN` to `KEEL_ZONE_END`, on the thread that calls them.
    Scope(String),
}

impl fmt::Display for ZonePlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ZonePlace::Thread(name) => write!(formatter, "thread={name}"),
            ZonePlace::Class(Class::Fifo) => formatter.write_str("class=fifo"),
            ZonePlace::Class(Class::RoundRobin) => formatter.write_str("class=rr"),
            ZonePlace::Class(Class::Realtime) => formatter.write_str("class=realtime"),
            ZonePlace::Marks { from, to } => write!(formatter, "marks={from}..{to}"),
            ZonePlace::Symbol(function) => write!(formatter, "symbol={function}"),
            ZonePlace::Scope(name) => write!(formatter, "scope={name}"),
        }
    }
}

/// Calls that may wait, which a zone may exclude besides malloc and free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallKind {
    /// Waits for a lock, a condition, a semaphore, or another thread.
    Lock,
    /// Files and other descriptors.
    File,
    /// Sleeps.
    Sleep,
}

impl CallKind {
    /// All kinds, in the order of [`CALL_KINDS`].
    pub const ALL: [CallKind; 3] = [CallKind::Lock, CallKind::File, CallKind::Sleep];

    /// As in the text of a mark.
    pub fn name(self) -> &'static str {
        CALL_KINDS[self as usize]
    }
}

impl FromStr for CallKind {
    type Err = String;

    fn from_str(text: &str) -> Result<CallKind, String> {
        let mut all = CallKind::ALL.into_iter();
        let found = all.find(|kind| text.strip_suffix('s') == Some(kind.name()));
        found.ok_or_else(|| format!("`{text}` is no kind of calls: give locks, files or sleeps"))
    }
}

/// The forms of a zone on the command line.
const FORMS: &str = "thread=NAME, class=fifo, class=rr, class=realtime, marks=BEGIN..END, \
                     symbol=FUNCTION or scope=NAME";

impl FromStr for ZonePlace {
    type Err = String;

    fn from_str(text: &str) -> Result<ZonePlace, String> {
        let (kind, value) = text.split_once('=').unwrap_or((text, ""));
        if value.is_empty() {
            return Err(format!("give a zone as {FORMS}"));
        }
        match kind {
            "thread" => Ok(ZonePlace::Thread(value.to_owned())),
            "symbol" => Ok(ZonePlace::Symbol(value.to_owned())),
            "scope" => Ok(ZonePlace::Scope(value.to_owned())),
            "class" => value.parse().map(ZonePlace::Class),
            "marks" => {
                let (from, to) = marks(value)?;
                Ok(ZonePlace::Marks { from, to })
            }
            _ => Err(format!("`{kind}` is no kind of zone: give {FORMS}")),
        }
    }
}

/// `BEGIN..END`.
fn marks(text: &str) -> Result<(String, String), String> {
    match text.split_once("..") {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => {
            Ok((from.to_owned(), to.to_owned()))
        }
        _ => Err(format!("`{text}` names no two marks: give BEGIN..END")),
    }
}

impl FromStr for Class {
    type Err = String;

    fn from_str(text: &str) -> Result<Class, String> {
        match text {
            "fifo" => Ok(Class::Fifo),
            "rr" => Ok(Class::RoundRobin),
            "realtime" => Ok(Class::Realtime),
            _ => Err(format!("`{text}` is no scheduling class: give fifo, rr or realtime")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn zones_are_printed_as_they_are_read() {
        for text in [
            "thread=audio*",
            "class=fifo",
            "class=rr",
            "class=realtime",
            "marks=begin..end",
            "symbol=Engine::process",
            "scope=render",
        ] {
            assert_eq!(text.parse::<ZonePlace>().map(|zone| zone.to_string()), Ok(text.to_owned()));
        }
        for wrong in ["audio", "thread=", "thred=audio", "marks=a", "marks=..b", "class=idle"] {
            let message = wrong.parse::<ZonePlace>().unwrap_err();
            assert!(message.contains("give "), "{message}");
        }
    }
}
