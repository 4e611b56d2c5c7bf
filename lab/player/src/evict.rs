//! Evicting caches between two calls, as the work of the program does: the thread reads memory that
//! is not the allocator's, outside of all timed windows, until the next call is due. In a burst of
//! calls there is no time for it, and none for the program's work either.

use crate::clock::Clock;
use crate::system;
use keel_plan::Eviction;

/// A line of the caches.
#[repr(align(64))]
pub struct Line([u8; 64]);

/// Lines between two readings of the clock, which takes as long as reading several lines.
const BATCH: usize = 32;

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
    eviction: Eviction,
    next: usize,
    read: u64,
    /// When the previous call was due, ns since the run's start.
    previous_ns: u64,
    /// The state of the random numbers; the same in every run.
    random: u64,
}

impl<'a> Evictor<'a> {
    /// From the first line. `lines` has the most bytes that `eviction` needs.
    pub fn new(lines: &'a [Line], eviction: Eviction) -> Evictor<'a> {
        Evictor { lines, eviction, next: 0, read: 0, previous_ns: 0, random: 1 }
    }

    /// Whether there is anything to read.
    #[inline(always)]
    pub fn is_wanted(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Reads what the eviction demands before the call that is due at `due_ns`, or as much as
    /// possible until the clock shows `due` ticks.
    pub fn read_until<C: Clock>(&mut self, due: u64, due_ns: u64) {
        let pause_ns = due_ns.saturating_sub(std::mem::replace(&mut self.previous_ns, due_ns));
        let mut left = self.lines_in(pause_ns);
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

    /// How many lines to read in a pause.
    fn lines_in(&mut self, pause_ns: u64) -> usize {
        let Eviction::Recorded(shares) = &self.eviction else { return self.lines.len() };
        // Xorshift of Marsaglia, 2003.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let bytes = shares.bytes_in(pause_ns, (self.random >> 48) as u32);
        // The same lines again: a program whose work fits into a level evicts only the levels
        // before it.
        self.next = 0;
        (bytes as usize / size_of::<Line>()).min(self.lines.len())
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
    use keel_plan::{CLASSES, LEVELS, Shares};

    #[test]
    fn reads_all_lines_or_as_many_as_there_is_time_for() {
        let mut evictor = Evictor::new(lines(64 * 100).unwrap(), Eviction::Bytes(6400));
        evictor.read_until::<Monotonic>(u64::MAX, 1);
        evictor.read_until::<Monotonic>(u64::MAX, 2);
        assert_eq!(evictor.read_bytes(), 2 * 6400);
        evictor.read_until::<Monotonic>(0, 3);
        assert_eq!(evictor.read_bytes(), 2 * 6400, "the next call is already due");
        assert!(!Evictor::new(lines(0).unwrap(), Eviction::None).is_wanted());
        assert!(lines(u64::MAX).is_err());
    }

    #[test]
    fn recorded_pauses_evict_as_often_as_the_program_did() {
        let mut of_65536 = [[0; LEVELS]; CLASSES];
        of_65536[10] = [16_384, 0, 0];
        of_65536[11] = [65_536, 65_536, 0];
        let eviction = Eviction::Recorded(Shares { bytes: [64, 640, 6400], of_65536 });
        let mut evictor = Evictor::new(lines(640).unwrap(), eviction);
        let mut read = |pause: u64, calls: u64| {
            let before = evictor.read_bytes();
            for call in 1..=calls {
                evictor.previous_ns = call * pause;
                evictor.read_until::<Monotonic>(u64::MAX, (call + 1) * pause);
            }
            evictor.read_bytes() - before
        };
        assert_eq!(read(500, 1000), 0, "no sample of such pauses evicted anything");
        assert_eq!(read(2048, 100), 100 * 640, "all evicted two levels");
        let quarter = read(1024, 100_000) / 64;
        assert!((24_000..26_000).contains(&quarter), "{quarter} of 100,000, a quarter expected");
    }
}
