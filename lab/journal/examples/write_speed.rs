//! Measures the events per second of the writer: `... --example write_speed -- IN.parquet OUT`
//!
//! Reads the journal into memory. Then writes it five times at each of three zstd levels, and
//! prints the best result of each level.
#![allow(clippy::print_stdout, reason = "printing is its job")]

use keel_journal::{Error, Event, Options, Reader, Writer};
use std::time::Instant;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args_os().skip(1);
    let (input, output) =
        (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let reader = Reader::open(input)?;
    let started = Instant::now();
    let events: Vec<Event> = reader.events().collect::<Result<_, _>>()?;
    println!("read: {:.1} M events/s", events.len() as f64 / 1e6 / started.elapsed().as_secs_f64());
    for zstd_level in [1, 3, 9] {
        let mut least = f64::MAX;
        let mut bytes = 0;
        for _ in 0..5 {
            let started = Instant::now();
            let mut writer =
                Writer::with_options(&output, Options { zstd_level, ..Options::default() })?;
            writer.push_batch(&events)?;
            bytes = writer.finish(reader.metadata().clone())?.bytes;
            least = least.min(started.elapsed().as_secs_f64());
        }
        let (count, size) = (events.len() as f64, bytes as f64);
        println!(
            "zstd {zstd_level}: {:.1} M events/s, {:.3} bytes per event",
            count / 1e6 / least,
            size / count
        );
    }
    Ok(())
}
