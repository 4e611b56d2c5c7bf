//! Evicting caches between two calls, as the work of the program does: the thread reads memory that
//! is not the allocator's, outside of all timed windows, until the next call is due. In a burst of
//! calls there is no time for it, and none for the program's work either.

use crate::clock::Clock;
use crate::system;

/// A line of the caches.
#[repr(align(64))]
pub struct Line([u8; 64]);

/// Lines between two readings of the clock.
const BATCH: usize = 8;

/// Memory for all threads; each reads all of it, into the caches of its processor. Empty for 0
/// bytes. Its pages are present.
///
/// # Errors
/// If there is no memory for it.
pub fn lines(bytes: u64) -> Result<&'static [Line], String> {
    let count = usize::try_from(bytes).unwrap_or(usize::MAX).div_ceil(size_of::<Line>());
    if count == 0 {
        return Ok(&[]);
    }
    let memory = count
        .checked_mul(size_of::<Line>())
        .and_then(|bytes| system::anonymous(bytes, libc::MAP_POPULATE))
        .ok_or_else(|| format!("there is no memory for the {bytes} bytes of --between"))?;
    // SAFETY: fresh zeroed memory of this size, aligned to a page and never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(memory.as_ptr().cast::<Line>(), count) })
}

/// A thread's position in the memory.
pub struct Evictor<'a> {
    lines: &'a [Line],
    next: usize,
    read: u64,
}

impl<'a> Evictor<'a> {
    /// From the first line.
    pub fn new(lines: &'a [Line]) -> Evictor<'a> {
        Evictor { lines, next: 0, read: 0 }
    }

    /// Whether there is anything to read.
    #[inline(always)]
    pub fn is_wanted(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Reads each line once, or as many as possible until the clock shows `due` ticks.
    pub fn read_until<C: Clock>(&mut self, due: u64) {
        let mut left = self.lines.len();
        while left > 0 && C::now() < due {
            let batch = left.min(BATCH);
            for _ in 0..batch {
                // SAFETY: inside of the memory. Volatile: the value is not used.
                unsafe { std::ptr::read_volatile(&raw const self.lines[self.next].0[0]) };
                self.next = if self.next + 1 == self.lines.len() { 0 } else { self.next + 1 };
            }
            left -= batch;
            self.read += batch as u64;
        }
    }

    /// Bytes read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read * size_of::<Line>() as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::clock::Monotonic;

    #[test]
    fn reads_all_lines_or_as_many_as_there_is_time_for() {
        let mut evictor = Evictor::new(lines(64 * 100).unwrap());
        evictor.read_until::<Monotonic>(u64::MAX);
        evictor.read_until::<Monotonic>(u64::MAX);
        assert_eq!(evictor.read_bytes(), 2 * 6400);
        evictor.read_until::<Monotonic>(0);
        assert_eq!(evictor.read_bytes(), 2 * 6400, "the next call is already due");
        assert!(!Evictor::new(lines(0).unwrap()).is_wanted());
        assert!(lines(u64::MAX).is_err());
    }
}
