//! Writes a journal of any length: `... --example synthesize -- OPERATIONS OUT.parquet`
//!
//! The events are those of no program, but have its properties: four threads, sizes from 16 bytes
//! to 256 KiB, most of them small, most blocks freed soon and some late, a tenth by another thread,
//! frames of 10,000 operations, and about 200,000 live blocks. Memory does not grow with the
//! length.
#![allow(clippy::print_stdout, reason = "printing is its job")]

use keel_journal::{Error, Event, Metadata, Op, Options, Thread, Writer};
use std::time::Instant;

const THREADS: u32 = 4;
const FRAME: u64 = 10_000;
const LIVE: usize = 200_000;
/// Nanoseconds between two operations: a million a second, as a busy program.
const STEP_NS: u64 = 1_000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn size(&mut self) -> u64 {
        match self.below(1000) {
            0 => 4096 + self.below(256 << 10),
            1..=49 => 256 + self.below(4096),
            _ => 16 + 8 * self.below(30),
        }
    }
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let operations = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let output = arguments.next().unwrap_or_else(|| "synthetic.journal.parquet".to_owned());
    let started = Instant::now();
    let options = Options { zstd_level: 1, ..Options::default() };
    let mut writer = Writer::with_options(&output, options)?;
    let (mut random, mut live, mut frames) = (Random(7), Vec::with_capacity(LIVE), Vec::new());
    let mut objects = 0;
    for row in 0..operations {
        let time = row * STEP_NS + random.below(STEP_NS / 2);
        if row % FRAME == FRAME - 1 {
            frames.push(time);
        }
        let frame = frames.len() as u32;
        let is_free = live.len() >= LIVE || (live.len() > LIVE / 2 && random.below(2) == 0);
        let event = if is_free {
            // Of eight, seven are among the youngest 64.
            let range = if random.below(8) == 0 { live.len() } else { live.len().min(64) };
            let at = live.len() - 1 - random.below(range as u64) as usize;
            let (released, owner) = live.swap_remove(at);
            let thread =
                if random.below(10) == 0 { random.below(THREADS.into()) as u32 } else { owner };
            Event { released, thread, frame, ..Event::at(time, Op::Free) }
        } else {
            objects += 1;
            let thread = random.below(THREADS.into()) as u32;
            live.push((objects, thread));
            let op = if random.below(16) == 0 { Op::Calloc } else { Op::Malloc };
            Event { created: objects, size: random.size(), thread, frame, ..Event::at(time, op) }
        };
        writer.push(&event)?;
    }
    let threads = (0..THREADS).map(|_| Thread::default()).collect();
    let metadata =
        Metadata { program: "synthetic".to_owned(), threads, frames, ..Metadata::default() };
    let bytes = writer.finish(metadata)?.bytes;
    println!(
        "{output}: {operations} operations, {:.2} bytes each, {:.0} s",
        bytes as f64 / operations as f64,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
