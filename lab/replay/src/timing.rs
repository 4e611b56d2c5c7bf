//! `keel time`: a journal as a script for one thread, played in a fresh process with no clock
//! around its calls.

use crate::Player;
use crate::compile::correct_hints;
use keel_allocators::Allocator;
use keel_journal::{Event, FreeHint, Op, Reader};
use keel_plan::{Call, Reading, Script, SharedError, Step};
use std::collections::HashMap;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// Why there is nothing to play.
#[derive(Debug, thiserror::Error)]
pub enum TimingError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] keel_journal::Error),
    /// There is no memory for it.
    #[error(transparent)]
    Shared(#[from] SharedError),
}

/// The operations between two marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The mark at its end; empty at the end of the journal.
    pub mark: String,
    /// Its operations.
    pub operations: u64,
    /// Requested bytes that are live at its end.
    pub live_bytes: u64,
    /// Live blocks at its end.
    pub live_blocks: u64,
}

/// A journal that is ready to be timed, any number of times.
#[derive(Debug)]
pub struct Timing {
    script: Script,
    /// Its segments, in order.
    pub segments: Vec<Segment>,
    /// Foreign frees, which are not replayed.
    pub skipped: u64,
}

impl Timing {
    /// Reads the journal. With `touch`, the player writes one byte of each page of a new block.
    ///
    /// # Errors
    /// See [`TimingError`].
    pub fn new(reader: &Reader, touch: bool) -> Result<Timing, TimingError> {
        let mut marks = reader.metadata().marks.iter().peekable();
        let mut building = Building::default();
        for batch in reader.batches() {
            for event in batch? {
                while let Some(mark) = marks.next_if(|mark| mark.time <= event.time) {
                    building.end_segment(&mark.text);
                }
                building.take(&event);
            }
        }
        for mark in marks {
            building.end_segment(&mark.text);
        }
        building.end_segment("");
        let Building { steps, ends, segments, slots, skipped, .. } = building;
        Ok(Timing { script: Script::create(&steps, &ends, slots, touch)?, segments, skipped })
    }

    /// Plays it once; a reading for each segment.
    ///
    /// # Errors
    /// A message when the allocator or its player failed.
    pub fn play(&self, player: &Player, allocator: &Allocator) -> Result<Vec<Reading>, String> {
        let mut command = command(player, allocator, "--time", &self.script);
        let place = player.executable.display();
        let mut child = command
            .spawn()
            .map_err(|error| format!("the player {place} cannot be started: {error}"))?;
        let mut said = String::new();
        if let Some(stderr) = child.stderr.take() {
            // Read errors are ignored.
            let _ = stderr.take(1 << 16).read_to_string(&mut said);
        }
        let status = child.wait().map_err(|error| format!("its player was lost: {error}"))?;
        if !status.success() {
            return Err(format!("its player ended with {status}: {}", said.trim()));
        }
        Ok(self.script.readings())
    }
}

/// The command that plays a script on an allocator.
pub(crate) fn command(
    player: &Player,
    allocator: &Allocator,
    mode: &str,
    script: &Script,
) -> Command {
    let script = script.memory().descriptor().as_raw_fd();
    let mut command = allocator.command(&player.executable);
    command.arg(mode).arg(allocator.target());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: between fork and exec only system calls are made, on a descriptor of our own.
    unsafe {
        command.pre_exec(move || {
            let moved = libc::fcntl(script, libc::F_DUPFD_CLOEXEC, 10);
            if moved < 0 || libc::dup2(moved, 3) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    };
    command
}

/// A script under construction.
#[derive(Default)]
pub(crate) struct Building {
    pub steps: Vec<Step>,
    pub ends: Vec<u64>,
    segments: Vec<Segment>,
    /// Slot, size and alignment of each live object; alignment 0 for none.
    pub live: HashMap<u64, (u64, u64, u64)>,
    /// Slots whose blocks were freed; the last one is reused first.
    free: Vec<u64>,
    pub slots: u64,
    live_bytes: u64,
    operations: u64,
    skipped: u64,
}

impl Building {
    pub fn end_segment(&mut self, mark: &str) {
        self.ends.push(self.steps.len() as u64);
        self.segments.push(Segment {
            mark: mark.to_owned(),
            operations: std::mem::take(&mut self.operations),
            live_bytes: self.live_bytes,
            live_blocks: self.live.len() as u64,
        });
    }

    pub fn take(&mut self, event: &Event) {
        let old = self.live.remove(&event.released);
        if let Some((_, size, _)) = old {
            self.live_bytes = self.live_bytes.saturating_sub(size);
        }
        let call = match (event.op, old) {
            (Op::ForeignFree, _) | (Op::Free, None) => {
                self.skipped += 1;
                return;
            }
            (Op::Free, Some((_, size, align))) => {
                freed(correct_hints(event.free_hint, size, align != 0))
            }
            (Op::Calloc, _) => Call::Calloc,
            (Op::Realloc, Some(_)) => Call::Realloc,
            (Op::Aligned, _) => Call::Aligned,
            // The slot is empty, so that this replays `realloc(NULL, size)`.
            (Op::Realloc, None) => Call::Realloc,
            (Op::Malloc | Op::ForeignRealloc, _) => Call::Malloc,
        };
        self.operations += 1;
        let slot = match old {
            Some((slot, ..)) => slot,
            None => self.free.pop().unwrap_or_else(|| {
                self.slots += 1;
                self.slots - 1
            }),
        };
        if event.created == 0 {
            self.free.push(slot);
        } else {
            self.live.insert(event.created, (slot, event.size, event.align));
            self.live_bytes = self.live_bytes.saturating_add(event.size);
        }
        let (size, align) = match old.filter(|_| event.created == 0) {
            Some((_, size, align)) => (size, align),
            None => (event.size, event.align),
        };
        let align_log2 = if align == 0 { 0 } else { align.ilog2() as u8 };
        self.steps.push(Step { call, align_log2, slot, size });
    }
}

fn freed(free_hint: FreeHint) -> Call {
    match (free_hint.has_size(), free_hint.has_align()) {
        (false, false) => Call::Free,
        (true, false) => Call::FreeSized,
        (false, true) => Call::FreeAligned,
        (true, true) => Call::FreeAlignedSized,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;
    use keel_journal::{Mark, Metadata, Writer};

    #[test]
    fn marks_end_segments_and_slots_are_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal.parquet");
        let mut writer = Writer::create(&path).unwrap();
        let event = |time, op, size, created, released| Event {
            size,
            created,
            released,
            free_hint: if op == Op::Free { FreeHint::SIZE } else { FreeHint::NONE },
            ..Event::at(time, op)
        };
        let events = [
            event(0, Op::Malloc, 10, 1, 0),
            event(10, Op::Malloc, 20, 2, 0),
            event(20, Op::Free, 0, 0, 1),
            event(30, Op::ForeignFree, 0, 0, 0),
            event(40, Op::Realloc, 50, 3, 2),
            event(50, Op::Calloc, 5, 4, 0),
        ];
        writer.push_batch(&events).unwrap();
        let mark = |time, text: &str| Mark { time, text: text.to_owned(), ..Mark::default() };
        let marks = vec![mark(20, "built"), mark(60, "done")];
        writer.finish(Metadata { marks, ..Metadata::default() }).unwrap();
        let timing = Timing::new(&Reader::open(&path).unwrap(), false).unwrap();
        let segment = |mark: &str, operations, live_bytes, live_blocks| Segment {
            mark: mark.to_owned(),
            operations,
            live_bytes,
            live_blocks,
        };
        assert_eq!(
            timing.segments,
            [segment("built", 2, 30, 2), segment("done", 3, 55, 2), segment("", 0, 55, 2)]
        );
        assert_eq!((timing.skipped, timing.script.slots), (1, 2));
        let steps: Vec<Step> = timing.script.steps().iter().map(Step::from_words).collect();
        let slots: Vec<(Call, u64)> = steps.iter().map(|step| (step.call, step.slot)).collect();
        let expected = [
            (Call::Malloc, 0),
            (Call::Malloc, 1),
            (Call::FreeSized, 0),
            (Call::Realloc, 1),
            (Call::Calloc, 0),
        ];
        assert_eq!(slots, expected);
        assert_eq!(steps[2].size, 10, "what the block was asked for with");
    }
}
