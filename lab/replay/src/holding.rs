//! Where the blocks of a journal are at one moment of its replay on an allocator, and which memory
//! of the allocator is resident.

use crate::Player;
use crate::timing::{Building, TimingError, command};
use keel_allocators::Allocator;
use keel_journal::{Origin, Reader};
use keel_plan::Script;
use std::collections::HashMap;
use std::process::Stdio;

/// A moment of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When the most bytes are live.
    Peak,
    /// After the last operation.
    End,
}

/// A live block of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Where the allocator placed it.
    pub address: u64,
    /// Requested bytes.
    pub size: u64,
    /// The stack that allocated it; [`Origin::NONE`] if unknown.
    pub stack: u32,
}

/// An allocator's memory at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The live blocks, by address.
    pub survivors: Vec<Survivor>,
    /// Resident system pages: the first address, and the number of pages.
    pub resident: Vec<(u64, u64)>,
    /// Anonymous resident bytes of the allocator, as the kernel sums them up.
    pub kernel_bytes: u64,
}

/// A journal up to a moment, ready to be replayed on one thread.
#[derive(Debug)]
pub struct Holding {
    script: Script,
    /// Size and stack of the block in each slot.
    live: HashMap<u64, (u64, u32)>,
}

impl Holding {
    /// Reads the journal up to the moment.
    ///
    /// # Errors
    /// See [`TimingError`].
    pub fn new(reader: &Reader, moment: Moment) -> Result<Holding, TimingError> {
        let rows = match moment {
            Moment::End => u64::MAX,
            Moment::Peak => rows_until_peak(reader)?,
        };
        let (mut building, mut stacks, mut row) = (Building::default(), HashMap::new(), 0);
        let (mut batches, mut events, mut origins) = (reader.batches(), Vec::new(), Vec::new());
        while row < rows && batches.next_with_origins(&mut events, &mut origins)? {
            for (event, origin) in events.iter().zip(&origins) {
                if row == rows {
                    break;
                }
                row += 1;
                stacks.remove(&event.released);
                if event.created != 0 {
                    stacks.insert(event.created, origin.stack);
                }
                building.take(event);
            }
        }
        building.end_segment("");
        let Building { steps, ends, slots, live, .. } = building;
        let stack = |object: &u64| stacks.get(object).copied().unwrap_or(Origin::NONE);
        let live = live.iter().map(|(object, block)| (block.0, (block.1, stack(object))));
        Ok(Holding { script: Script::create(&steps, &ends, slots, true)?, live: live.collect() })
    }

    /// Replays it on an allocator, with one byte of each page of a block written.
    ///
    /// # Errors
    /// A message when the allocator or its player failed.
    pub fn play(&self, player: &Player, allocator: &Allocator) -> Result<Held, String> {
        let mut command = command(player, allocator, "--hold", &self.script);
        let place = player.executable.display();
        let output = command
            .stdout(Stdio::piped())
            .output()
            .map_err(|error| format!("the player {place} cannot be started: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("its player ended with {}: {}", output.status, said.trim()));
        }
        self.read(&String::from_utf8_lossy(&output.stdout))
            .ok_or_else(|| "its player printed something else than its memory".to_owned())
    }

    /// The player's text.
    fn read(&self, text: &str) -> Option<Held> {
        let mut held = Held::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let kind = words.next()?;
            let first = words.next()?.parse().ok()?;
            match kind {
                "kernel" => held.kernel_bytes = first,
                "block" => {
                    let (size, stack) = self.live.get(&first).copied()?;
                    let address = words.next()?.parse().ok()?;
                    held.survivors.push(Survivor { address, size, stack });
                }
                "resident" => held.resident.push((first, words.next()?.parse().ok()?)),
                _ => return None,
            }
        }
        held.survivors.sort_unstable_by_key(|block| block.address);
        Some(held)
    }
}

/// The number of rows after which the most bytes are live.
fn rows_until_peak(reader: &Reader) -> Result<u64, TimingError> {
    let (mut sizes, mut live, mut peak, mut row) = (HashMap::new(), 0_u64, (0, 0), 0);
    for batch in reader.batches() {
        for event in batch? {
            row += 1;
            live = live.saturating_sub(sizes.remove(&event.released).unwrap_or(0));
            if event.created != 0 {
                sizes.insert(event.created, event.size);
                live = live.saturating_add(event.size);
            }
            if live > peak.0 {
                peak = (live, row);
            }
        }
    }
    Ok(peak.1)
}
