//! The shared memory of a recorded process: the part of the reader's side of `journal/ring.h` that
//! is the same on every system.
//!
//! The recorded program can write anything into this memory. Nothing read from it is used as an
//! address or a length without a check of its bounds.

use crate::ring::{self, RawEvent, RingEntry, RingHeader, Slot, SpoolHeader};
use memmap2::MmapRaw;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// How often, and for how long, threads waited for free slots.
#[derive(Clone, Copy, Default)]
pub struct Stalls {
    pub count: u64,
    pub ticks: u64,
}

/// The shared memory of one image of one process.
///
/// It keeps no descriptor, so that thousands of processes can be recorded at the same time.
pub struct Spool {
    /// Its file, which is removed with this value; `None` for rings that a program left behind.
    pub path: Option<PathBuf>,
    pub map: MmapRaw,
    pub tails: Vec<u64>,
}

impl Spool {
    /// Maps the rings that a program left behind, for reading only.
    pub fn open_left_behind(path: &Path) -> io::Result<Option<Spool>> {
        let file = File::open(path)?;
        if !is_whole(&file)? {
            return Ok(None);
        }
        let map = memmap2::MmapOptions::new().map_raw_read_only(&file)?;
        Spool::checked(map)
    }

    pub fn checked(map: MmapRaw) -> io::Result<Option<Spool>> {
        let spool = Spool { path: None, map, tails: Vec::new() };
        let header = spool.header();
        if header.ready.load(Acquire) != 1 {
            return Ok(None);
        }
        if header.magic.load(Relaxed) != ring::SPOOL_MAGIC
            || header.version.load(Relaxed) != ring::VERSION
        {
            return Err(io::Error::other("it was made by another version of the recorder"));
        }
        Ok(Some(spool))
    }

    /// The first page.
    pub fn header(&self) -> &SpoolHeader {
        // SAFETY: the mapping is longer than a page and lives as long as self; the fields that
        // change are atomics.
        unsafe { &*self.map.as_ptr().cast::<SpoolHeader>() }
    }

    /// The object files at the image's start, as in `/proc/<pid>/maps`.
    pub fn maps(&self) -> String {
        let length =
            u64::from(self.header().maps_bytes.load(Relaxed)).min(ring::MAPS_BYTES) as usize;
        // SAFETY: inside the mapping; the program wrote it before `ready`; a later change would
        // only damage its own journal.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.map.as_ptr().add(ring::SPOOL_MAPS as usize), length)
        };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Number of rings that have memory.
    pub fn prepared(&self) -> u32 {
        self.header().prepared.load(Acquire).min(ring::RING_MAX)
    }

    /// The rings that threads have owned. Those that none has owned take no memory.
    pub fn used_rings(&self) -> impl Iterator<Item = u32> {
        let is_used = |index: &u32| self.entry(*index).state.load(Acquire) != ring::RING_NEW;
        (0..self.prepared()).filter(is_used)
    }

    pub fn entry(&self, index: u32) -> &RingEntry {
        assert!(index < ring::RING_MAX);
        let at = ring::PAGE_BYTES + index as usize * size_of::<RingEntry>();
        // SAFETY: inside the table, aligned; all fields are atomics.
        unsafe { &*self.map.as_ptr().add(at).cast::<RingEntry>() }
    }

    pub fn ring(&self, index: u32) -> &RingHeader {
        assert!(index < ring::RING_MAX);
        // SAFETY: the offset depends on the index only and is inside the mapping; the fields that
        // change are atomics.
        unsafe { &*self.map.as_ptr().add(ring::ring_offset(index) as usize).cast::<RingHeader>() }
    }

    fn slot(&self, index: u32, at: u64) -> &Slot {
        assert!(index < ring::RING_MAX);
        let place = ring::ring_offset(index) + size_of::<RingHeader>() as u64;
        let number = at & (u64::from(ring::ring_slots(index)) - 1);
        // SAFETY: the slot's number is below the number of slots, so it is inside the mapping; all
        // fields are atomics.
        unsafe { &*self.map.as_ptr().add(place as usize).cast::<Slot>().add(number as usize) }
    }

    /// Index of the first slot that has not been released.
    pub fn released_until(&self, index: u32) -> u64 {
        self.ring(index).tail.load(Acquire)
    }

    /// Copies the events of the ring from index `first` on; returns the index after the last one.
    pub fn copy_out(&self, index: u32, first: u64, last: bool, into: &mut Vec<RawEvent>) -> u64 {
        /// Signal handlers nest no deeper than this in the few instructions between a claim and its
        /// store.
        const HOLES_MAX: u64 = 64;
        let slots = ring::ring_slots(index);
        let mut at = first;
        // No ring reaches such an index.
        if first > u64::MAX / 2 {
            return first;
        }
        while at - first < u64::from(slots) {
            if let Some(event) = self.event(index, at) {
                into.push(event);
                at += 1;
                continue;
            }
            let next =
                (at + 1..at + HOLES_MAX).find(|next| last && self.event(index, *next).is_some());
            let Some(next) = next else { break };
            at = next;
        }
        at
    }

    fn event(&self, index: u32, at: u64) -> Option<RawEvent> {
        let slot = self.slot(index, at);
        let word = slot.word.load(Acquire);
        let tag = ring::lap_tag(at, ring::ring_slots(index));
        if word & 0xff == 0 || (word >> 8) as u8 != tag {
            return None;
        }
        let (time, address, size) = (&slot.time, &slot.address, &slot.size);
        Some(RawEvent {
            time: time.load(Relaxed),
            address: address.load(Relaxed),
            size: size.load(Relaxed),
            word,
        })
    }

    /// How often, and for how long, the program's threads waited for this process.
    pub fn stalls(&self) -> Stalls {
        let rings = self.used_rings().map(|index| self.ring(index));
        rings.fold(Stalls::default(), |sum, ring| Stalls {
            count: sum.count.saturating_add(ring.stalls.load(Relaxed)),
            ticks: sum.ticks.saturating_add(ring.stalled_ticks.load(Relaxed)),
        })
    }

    /// The time after which the program's events are dropped, and the reason, if it has stopped
    /// recording.
    pub fn stopped(&self) -> Option<(u64, u32)> {
        let header = self.header();
        let reason = header.stopped.load(Acquire);
        (reason != 0).then(|| (header.stop_ticks.load(Acquire), reason))
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            drop(std::fs::remove_file(path));
        }
    }
}

/// Whether the file has the size of a spool.
pub fn is_whole(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.len() == ring::ring_offset(ring::RING_MAX))
}

/// A text of the header, up to its NUL.
pub fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// The arguments of `/proc/<pid>/cmdline` without the program. The field is filled up with NULs, so
/// that empty arguments at the end are unknown.
pub fn arguments(bytes: &[u8]) -> Vec<String> {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let words = bytes[..end].split(|byte| *byte == 0).skip(1);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn arguments_may_be_empty() {
        let arguments = super::arguments(b"./big\x00100\0\0foo\0a b\0\0\0\0");
        assert_eq!(arguments, ["100", "", "foo", "a b"]);
        assert!(super::arguments(b"./big\0\0\0").is_empty());
        assert!(super::arguments(&[0; 4]).is_empty());
    }
}
