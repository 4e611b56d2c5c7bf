//! Executes a script ([`keel_plan::Script`]) and prints where its blocks are and which memory of
//! the allocator is then resident.
//!
//! ```text
//! kernel BYTES          anonymous resident bytes of the allocator, as the kernel sums them up
//! block SLOT ADDRESS    a live block
//! resident START PAGES  neighbouring resident system pages of the allocator
//! ```
//!
//! A page belongs to the allocator if it is anonymous, and was not resident before the allocator
//! was loaded. All memory of this module is resident by then.

use crate::{system, timing};
use keel_allocators::table::Table;
use keel_plan::Script;
use std::ffi::c_void;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

const PAGE_BYTES: u64 = 4096;
/// Room for the text of `/proc/self/maps`: the kernel allows 65,530 mappings.
const MAPS_BYTES: usize = 16 << 20;
/// Room for ranges of pages.
const MOST_RANGES: usize = 1 << 20;
/// Entries of `/proc/self/pagemap` that are read at once.
const ENTRIES: usize = 1 << 13;
/// Readings of memory that changes, and the time between two of them.
const MOST_READINGS: u32 = 100;
const BETWEEN_READINGS: Duration = Duration::from_millis(20);
/// Bits of an entry: the page is present; it belongs to a file or to shared memory.
const PRESENT: u64 = 1 << 63;
const OF_FILE: u64 = 1 << 61;

/// The memory before the allocator was loaded, and room for what is read afterwards.
pub struct Before {
    slots: &'static mut [*mut c_void],
    pages: Ranges,
    bytes: u64,
    after: Ranges,
    buffers: Buffers,
}

impl Before {
    /// Reads the memory. The allocator must not be loaded yet.
    ///
    /// # Errors
    /// A sentence, if the kernel does not show the process's memory, or there is none for it.
    pub fn read(script: &Script) -> Result<Before, String> {
        let slots = timing::slots(script.slots as usize)?;
        let (mut pages, after, mut buffers) = (Ranges::new()?, Ranges::new()?, Buffers::new()?);
        // The first reading makes the memory that readings need resident.
        anonymous_bytes()?;
        buffers.scan(&mut pages)?;
        Ok(Before { slots, pages, bytes: anonymous_bytes()?, after, buffers })
    }

    /// Executes the script and prints the result.
    ///
    /// # Errors
    /// As for [`Before::read`].
    ///
    /// # Safety
    /// The table is initialised, in this thread too.
    pub unsafe fn play(mut self, table: &Table, script: &Script) -> Result<(), String> {
        // SAFETY: guaranteed by the caller.
        unsafe { timing::perform::<true>(table, script.steps(), self.slots) };
        let bytes = self.read_after()?.saturating_sub(self.bytes);
        print(bytes, self.slots, &self.pages, &self.after).map_err(|error| error.to_string())
    }

    /// Reads the memory when it no longer changes: a thread of the allocator may still obtain or
    /// return some. Returns the anonymous bytes.
    fn read_after(&mut self) -> Result<u64, String> {
        let mut bytes = anonymous_bytes()?;
        for _ in 0..MOST_READINGS {
            self.after.count = 0;
            self.buffers.scan(&mut self.after)?;
            let now = anonymous_bytes()?;
            if now == bytes {
                break;
            }
            bytes = now;
            std::thread::sleep(BETWEEN_READINGS);
        }
        Ok(bytes)
    }
}

fn print(
    kernel: u64,
    slots: &[*mut c_void],
    before: &Ranges,
    after: &Ranges,
) -> std::io::Result<()> {
    let mut text = format!("kernel {kernel}\n");
    for (slot, block) in slots.iter().enumerate().filter(|(_, block)| !block.is_null()) {
        let _ = writeln!(text, "block {slot} {}", block.addr());
    }
    for (start, pages) in after.without(before) {
        let _ = writeln!(text, "resident {start} {pages}");
    }
    std::io::stdout().write_all(text.as_bytes())
}

/// Anonymous resident bytes of this process, counted by the kernel in its page tables.
fn anonymous_bytes() -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")
        .map_err(|error| format!("the kernel does not show the memory of processes: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| "/proc/self/smaps_rollup has no total".to_owned())
}

/// Memory of this process that is resident from the beginning.
fn populated<T>(count: usize) -> Result<&'static mut [T], String> {
    let memory = system::anonymous(count * size_of::<T>(), libc::MAP_POPULATE)
        .ok_or("there is no memory for the list of pages")?;
    // SAFETY: fresh zeroed memory of this size, never unmapped and not used elsewhere; zero is a
    // valid value of the types of this module.
    Ok(unsafe { std::slice::from_raw_parts_mut(memory.as_ptr().cast(), count) })
}

/// Neighbouring pages: the first address, and their number.
type Range = (u64, u64);

/// Ranges of pages in the order of their addresses.
struct Ranges {
    room: &'static mut [Range],
    count: usize,
}

impl Ranges {
    fn new() -> Result<Ranges, String> {
        Ok(Ranges { room: populated(MOST_RANGES)?, count: 0 })
    }

    fn add_page(&mut self, address: u64) -> Result<(), String> {
        if let Some((start, pages)) = self.room[..self.count].last_mut()
            && *start + *pages * PAGE_BYTES == address
        {
            *pages += 1;
            return Ok(());
        }
        let place = self.room.get_mut(self.count);
        *place.ok_or("the resident memory is in too many pieces")? = (address, 1);
        self.count += 1;
        Ok(())
    }

    /// The ranges without the pages of `others`.
    fn without(&self, others: &Ranges) -> Vec<Range> {
        let (mut found, mut next) = (Vec::new(), 0);
        let others = &others.room[..others.count];
        for (start, pages) in self.room[..self.count].iter().copied() {
            let (mut at, end) = (start, start + pages * PAGE_BYTES);
            while at < end {
                while others.get(next).is_some_and(|(from, n)| from + n * PAGE_BYTES <= at) {
                    next += 1;
                }
                let (from, until) =
                    others.get(next).map_or((end, end), |(from, n)| (*from, from + n * PAGE_BYTES));
                let own = end.min(from.max(at));
                if own > at {
                    found.push((at, (own - at) / PAGE_BYTES));
                }
                at = if own < end { until } else { end };
            }
        }
        found
    }
}

struct Buffers {
    maps: &'static mut [u8],
    entries: &'static mut [u64],
}

impl Buffers {
    fn new() -> Result<Buffers, String> {
        Ok(Buffers { maps: populated(MAPS_BYTES)?, entries: populated(ENTRIES)? })
    }

    /// Finds the resident anonymous pages of this process.
    fn scan(&mut self, ranges: &mut Ranges) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("/proc/self/pagemap: {error}");
        let mut file = File::open("/proc/self/maps").map_err(failed)?;
        let mut length = 0;
        loop {
            match file.read(&mut self.maps[length..]).map_err(failed)? {
                0 => break,
                read => length += read,
            }
        }
        let pagemap = File::open("/proc/self/pagemap").map_err(failed)?;
        for line in self.maps[..length].split(|byte| *byte == b'\n') {
            let Some((start, end)) = mapping(line) else { continue };
            let mut at = start;
            while at < end {
                let count = (((end - at) / PAGE_BYTES) as usize).min(ENTRIES);
                // SAFETY: the bytes of the numbers, which have no padding.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(
                        self.entries.as_mut_ptr().cast::<u8>(),
                        count * size_of::<u64>(),
                    )
                };
                pagemap.read_exact_at(bytes, at / PAGE_BYTES * 8).map_err(failed)?;
                for entry in &self.entries[..count] {
                    if entry & PRESENT != 0 && entry & OF_FILE == 0 {
                        ranges.add_page(at)?;
                    }
                    at += PAGE_BYTES;
                }
            }
        }
        Ok(())
    }
}

/// The addresses of a line of `/proc/self/maps`; None for the kernel's own mappings.
fn mapping(line: &[u8]) -> Option<(u64, u64)> {
    let line = std::str::from_utf8(line).ok()?;
    if line.ends_with("[vsyscall]") || line.ends_with("[vvar]") || line.ends_with("[vdso]") {
        return None;
    }
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;

    fn ranges(list: &[u64]) -> Ranges {
        let mut ranges = Ranges::new().unwrap();
        list.iter().for_each(|page| ranges.add_page(page * PAGE_BYTES).unwrap());
        ranges
    }

    #[test]
    fn pages_that_were_resident_before_are_left_out() {
        let after = ranges(&[1, 2, 3, 4, 5, 9, 10, 20]);
        let own = after.without(&ranges(&[0, 2, 5, 6, 7, 8, 9, 30]));
        let pages: Vec<_> = own.iter().map(|(start, count)| (start / PAGE_BYTES, *count)).collect();
        assert_eq!(pages, [(1, 1), (3, 2), (10, 1), (20, 1)]);
        assert_eq!(after.without(&ranges(&[])).len(), 3);
        assert_eq!(after.without(&after), []);
    }

    #[test]
    fn mappings_of_the_kernel_are_skipped() {
        assert_eq!(mapping(b"1000-3000 rw-p 0 00:00 0 [heap]"), Some((0x1000, 0x3000)));
        assert_eq!(mapping(b"7ff000-7ff100 r--p 0 00:00 0 [vvar]"), None);
        assert_eq!(mapping(b""), None);
    }

    #[test]
    fn touched_pages_are_found() {
        let (mut before, mut after) = (Ranges::new().unwrap(), Ranges::new().unwrap());
        let mut buffers = Buffers::new().unwrap();
        let memory: &mut [u64] = {
            let fresh = system::anonymous(64 * 4096, 0).unwrap();
            // SAFETY: a fresh mapping of this size.
            unsafe { std::slice::from_raw_parts_mut(fresh.as_ptr().cast(), 64 * 512) }
        };
        buffers.scan(&mut before).unwrap();
        memory[10 * 512] = 1;
        memory[11 * 512] = 1;
        buffers.scan(&mut after).unwrap();
        let start = memory.as_ptr().addr() as u64 + 10 * PAGE_BYTES;
        assert!(after.without(&before).contains(&(start, 2)));
    }
}
