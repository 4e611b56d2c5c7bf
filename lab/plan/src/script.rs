//! The operations of a journal for one thread, in the form that `keel time` replays with the least
//! work between calls.
//!
//! ```text
//! header   magic, slots, steps, segments, touch
//! steps    two words each: kind, alignment and slot | size
//! ends     for each segment the step after its last
//! readings for each segment: ns, resident bytes, calls that returned NULL; written by the player
//! ```
//!
//! A segment ends at each mark of the journal, and at its end.

use crate::{SharedError, SharedMemory};
use std::os::fd::OwnedFd;

const MAGIC: u64 = u64::from_le_bytes(*b"keeltim2");
const HEADER: usize = 5;
const READING: usize = 3;
const WORD: usize = size_of::<u64>();
const KIND_SHIFT: u32 = 56;
const ALIGN_SHIFT: u32 = 48;
const SLOT_MASK: u64 = (1 << ALIGN_SHIFT) - 1;

/// The call of a step; the numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Call {
    /// `malloc(size)` into the slot.
    Malloc = 0,
    /// `free` of the slot.
    Free = 1,
    /// `calloc(1, size)` into the slot.
    Calloc = 2,
    /// `realloc` of the slot, into it.
    Realloc = 3,
    /// An aligned allocation into the slot.
    Aligned = 4,
    /// Free of the slot, with the size.
    FreeSized = 5,
    /// Free of the slot, with the alignment.
    FreeAligned = 6,
    /// Free of the slot, with both.
    FreeAlignedSized = 7,
}

/// One step: two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The call.
    pub call: Call,
    /// log2 of the alignment, for calls that have one.
    pub align_log2: u8,
    /// The block's slot, below 2^48.
    pub slot: u64,
    /// Bytes.
    pub size: u64,
}

impl Step {
    fn words(self) -> [u64; 2] {
        let kind = (self.call as u64) << KIND_SHIFT | u64::from(self.align_log2) << ALIGN_SHIFT;
        [kind | self.slot & SLOT_MASK, self.size]
    }

    /// The step of two words of a script.
    #[inline]
    pub fn from_words(words: &[u64; 2]) -> Step {
        let call = match words[0] >> KIND_SHIFT {
            0 => Call::Malloc,
            1 => Call::Free,
            2 => Call::Calloc,
            3 => Call::Realloc,
            4 => Call::Aligned,
            5 => Call::FreeSized,
            6 => Call::FreeAligned,
            _ => Call::FreeAlignedSized,
        };
        let align_log2 = (words[0] >> ALIGN_SHIFT) as u8 & 63;
        Step { call, align_log2, slot: words[0] & SLOT_MASK, size: words[1] }
    }
}

/// The player's measurement of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// From its first call to the end of its last.
    pub ns: u64,
    /// Resident bytes of the allocator at its end.
    pub resident: u64,
    /// Calls that returned NULL.
    pub refused: u64,
}

/// A script in shared memory.
#[derive(Debug)]
pub struct Script {
    memory: SharedMemory,
    steps: usize,
    segments: usize,
    /// The most blocks that are live at once.
    pub slots: u64,
    /// Whether one byte of each page of a new block is to be written.
    pub touch: bool,
}

impl Script {
    /// Writes a script into shared memory; `ends` holds the step after the last of each segment.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn create(
        steps: &[Step],
        ends: &[u64],
        slots: u64,
        touch: bool,
    ) -> Result<Script, SharedError> {
        let words = HEADER + 2 * steps.len() + ends.len() + READING * ends.len();
        let memory = SharedMemory::create("script", words * WORD)?;
        let script = Script { memory, steps: steps.len(), segments: ends.len(), slots, touch };
        script.put(0, &[MAGIC, slots, steps.len() as u64, ends.len() as u64, u64::from(touch)]);
        for (index, step) in steps.iter().enumerate() {
            script.put(HEADER + 2 * index, &step.words());
        }
        script.put(HEADER + 2 * steps.len(), ends);
        Ok(script)
    }

    /// Maps the script of another process; its pages are present.
    ///
    /// # Errors
    /// If the memory is not a script.
    pub fn open(descriptor: OwnedFd) -> Result<Script, SharedError> {
        let memory = SharedMemory::open("script", descriptor)?;
        let foreign = || SharedError::Foreign { what: "script" };
        let &[magic, slots, steps, segments, touch] =
            memory.slice::<u64>(0, HEADER).ok_or_else(foreign)?
        else {
            return Err(foreign());
        };
        let (steps, segments) = (steps as usize, segments as usize);
        let words = segments
            .checked_mul(1 + READING)
            .and_then(|words| words.checked_add(steps.checked_mul(2)?));
        let fits = words.and_then(|words| words.checked_add(HEADER)?.checked_mul(WORD))
            == Some(memory.bytes());
        if magic != MAGIC || !fits {
            return Err(foreign());
        }
        Ok(Script { memory, steps, segments, slots, touch: touch != 0 })
    }

    /// The memory, to be passed to the player or locked.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Every step as its two words; [`Step::from_words`] reads one.
    pub fn steps(&self) -> &[[u64; 2]] {
        self.words(HEADER, 2 * self.steps).as_chunks().0
    }

    /// The step after the last, of each segment.
    pub fn ends(&self) -> &[u64] {
        self.words(HEADER + 2 * self.steps, self.segments)
    }

    /// Writes the measurement of a segment.
    pub fn record(&self, segment: usize, reading: Reading) {
        self.put(
            self.readings_at() + READING * segment,
            &[reading.ns, reading.resident, reading.refused],
        );
    }

    /// The measurements, after the player has ended.
    pub fn readings(&self) -> Vec<Reading> {
        let words = self.words(self.readings_at(), READING * self.segments);
        let reading = |three: &[u64; READING]| Reading {
            ns: three[0],
            resident: three[1],
            refused: three[2],
        };
        words.as_chunks().0.iter().map(reading).collect()
    }

    fn readings_at(&self) -> usize {
        HEADER + 2 * self.steps + self.segments
    }

    /// The words, or none if they are out of range.
    fn words(&self, from: usize, count: usize) -> &[u64] {
        self.memory.slice::<u64>(from * WORD, count).unwrap_or_default()
    }

    /// Writes words, unless they are out of range.
    fn put(&self, from: usize, words: &[u64]) {
        if let Some(place) = self.memory.part::<u64>(from * WORD, words.len()) {
            // SAFETY: `part` checked the bounds; the writer and the player use the script one after
            // the other.
            unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), place, words.len()) };
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn a_script_is_read_as_written() {
        let step = |call, align_log2, slot, size| Step { call, align_log2, slot, size };
        let steps = [
            step(Call::Malloc, 0, 0, 100),
            step(Call::Aligned, 12, 1, 1 << 40),
            step(Call::Realloc, 0, 0, 7),
            step(Call::Calloc, 0, 2, 0),
            step(Call::Free, 0, SLOT_MASK, 0),
        ];
        let script = Script::create(&steps, &[2, 5], 3, true).unwrap();
        let descriptor = script.memory().descriptor().as_fd().try_clone_to_owned().unwrap();
        let opened = Script::open(descriptor).unwrap();
        let read: Vec<Step> = opened.steps().iter().map(Step::from_words).collect();
        assert_eq!(read, steps);
        assert_eq!((opened.ends(), opened.slots, opened.touch), (&[2, 5][..], 3, true));
        let readings = [
            Reading { ns: 1, resident: 2, refused: 3 },
            Reading { ns: 4, resident: 5, refused: 6 },
        ];
        readings.iter().enumerate().for_each(|(index, reading)| opened.record(index, *reading));
        assert_eq!(script.readings(), readings);
    }

    #[test]
    fn other_memory_is_refused() {
        let memory = SharedMemory::create("test", 64).unwrap();
        let descriptor = memory.descriptor().try_clone_to_owned().unwrap();
        assert!(Script::open(descriptor).is_err());
    }
}
