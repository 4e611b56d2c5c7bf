//! The options of a recording that waits: `--on`, `--last` and `--when`.

use super::seconds;
use crate::format;
use clap::Args;
use keel_record::{Last, Signal, Wait, When};
use std::time::Duration;

/// Record nothing until something happens.
#[derive(Args, Default)]
pub struct WaitArguments {
    /// Wait for this signal to keel (USR1 or USR2): the first one begins a journal, the next one
    /// ends it, and so on. The journal begins with the blocks that are live then. `kill -USR1 PID`,
    /// with the process id that keel prints
    #[arg(long, value_name = "SIGNAL", value_parser = signal,
          conflicts_with_all = ["last", "length", "max_events", "max_size"])]
    on: Option<Signal>,
    /// Keep the last SECONDS of the program in memory, and write them as a journal when an event of
    /// --when occurs
    #[arg(long, value_name = "SECONDS", value_parser = length,
          conflicts_with_all = ["length", "max_events", "max_size"])]
    last: Option<Duration>,
    /// What makes --last write a journal: `frame=16ms` (a frame takes longer), `mark=TEXT` (the
    /// program passes this mark), `signal=USR1` (or USR2, to keel), `crash` (a signal ends the
    /// program, other than HUP, INT, QUIT, PIPE and TERM) or `exit` (the program ends). This option
    /// can be repeated [default: crash; with `keel attach`, which cannot recognize a crash,
    /// signal=USR1]
    #[arg(long, value_name = "EVENT", value_parser = when, requires = "last")]
    when: Vec<When>,
    /// The most memory for the operations that --last keeps. If the program needs more, the journal
    /// covers a shorter time, and keel states how long. The list of live blocks comes on top
    #[arg(long, value_name = "SIZE", value_parser = buffer, default_value = "256M",
          requires = "last")]
    buffer: u64,
    /// End the recording after this many journals of --last; the program continues. The second
    /// journal is NAME.2.journal.parquet. Frames and marks that follow an event within the time of
    /// --last write none
    #[arg(long, value_name = "N", default_value_t = 10, requires = "last",
          value_parser = clap::value_parser!(u32).range(1..))]
    journals: u32,
}

impl WaitArguments {
    /// What the recording waits for, if it does: `usual` unless the user named an event.
    pub fn wait(self, usual: &When) -> Option<Wait> {
        if let Some(signal) = self.on {
            return Some(Wait::On(signal));
        }
        let when = if self.when.is_empty() { vec![usual.clone()] } else { self.when };
        let (buffer_bytes, journals) = (self.buffer, self.journals);
        self.last.map(|length| Wait::Last(Last { length, buffer_bytes, when, journals }))
    }
}

fn length(text: &str) -> Result<Duration, String> {
    let length = seconds(text)?;
    if length.is_zero() {
        return Err("give a time above 0".to_owned());
    }
    Ok(length)
}

fn buffer(text: &str) -> Result<u64, String> {
    /// With less, hardly a reading of the rings is kept.
    const LEAST: u64 = 64 << 10;
    let bytes = format::parse_size(text)?;
    if bytes < LEAST {
        return Err("give at least 64K: an operation takes 32 bytes".to_owned());
    }
    Ok(bytes)
}

fn signal(text: &str) -> Result<Signal, String> {
    match text.strip_prefix("SIG").unwrap_or(text) {
        "USR1" => Ok(Signal::Usr1),
        "USR2" => Ok(Signal::Usr2),
        _ => Err("give USR1 or USR2; keel passes the other signals to the program".to_owned()),
    }
}

fn when(text: &str) -> Result<When, String> {
    match text.split_once('=').unwrap_or((text, "")) {
        ("crash", "") => Ok(When::Crash),
        ("exit", "") => Ok(When::Exit),
        ("mark", name) if !name.is_empty() => Ok(When::Mark(name.to_owned())),
        ("signal", name) => signal(name).map(When::Signal),
        ("frame", time) => milliseconds(time).map(When::Frame),
        _ => Err("give frame=16ms, mark=TEXT, signal=USR1, crash or exit".to_owned()),
    }
}

/// A time in `ms` or `s`.
fn milliseconds(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or_default(), 1.0),
    };
    let time = number.parse().ok().filter(|number: &f64| *number > 0.0);
    let time = time.and_then(|number| Duration::try_from_secs_f64(number * unit).ok());
    time.ok_or_else(|| "give a time such as frame=16.7ms or frame=0.1s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed_with_their_units() {
        let frame = |ms: u64| Ok(When::Frame(Duration::from_millis(ms)));
        assert_eq!((when("frame=16ms"), when("frame=0.5s")), (frame(16), frame(500)));
        assert_eq!(when("mark=level 2=b"), Ok(When::Mark("level 2=b".to_owned())));
        assert_eq!(when("signal=SIGUSR2"), Ok(When::Signal(Signal::Usr2)));
        let wrong = ["frame=16", "frame=-1ms", "frame", "mark=", "crash=1", "signal=TERM", "hang"];
        assert!(wrong.into_iter().all(|text| when(text).is_err()));
    }

    #[test]
    fn times_and_buffers_that_keep_nothing_are_refused() {
        assert!(["0", "0.0", "-1"].into_iter().all(|text| length(text).is_err()));
        assert!(["0", "1", "65535"].into_iter().all(|text| buffer(text).is_err()));
        assert_eq!((length("0.5"), buffer("64K")), (Ok(Duration::from_millis(500)), Ok(65536)));
    }
}
