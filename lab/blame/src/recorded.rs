//! The call stacks of a result folder, and the blocks that its operations allocate.

use crate::error::BlameError;
use crate::over_time::{OverTime, Parts};
use crate::tally::{Block, PeakFinder, Tally, Weights};
use keel_journal::{Module, Stacks};
use keel_results::raw::{AgeReader, OPERATIONS_FILE, OperationReader, STACKS_FILE, StackReader};
use serde::Deserialize;
use std::path::Path;

/// Codes of the `op` column that return no block: a free, and a free of an unknown block.
const FREES: [u8; 2] = [1, 5];

/// The modules and the stacks of the journal.
#[derive(Deserialize)]
pub(crate) struct Recorded {
    modules: Vec<Module>,
    stacks: Stacks,
}

impl Recorded {
    pub fn read(folder: &Path) -> Result<Recorded, BlameError> {
        let path = folder.join(STACKS_FILE);
        if !path.exists() {
            return Err(BlameError::NoStacksInResults(folder.to_path_buf()));
        }
        let failed = |detail: String| BlameError::Stacks { path: path.clone(), detail };
        let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
    }

    pub fn both(&self) -> (&[Module], &Stacks) {
        (&self.modules, &self.stacks)
    }
}

/// An operation: it releases a block, or allocates one, or both.
struct Step {
    row: u64,
    released: Option<u64>,
    is_free: bool,
    block: Block,
}

/// What each stack requested, by the operations of a result folder. Blocks are numbered by the rows
/// that allocate them.
pub(crate) fn requested_in(
    folder: &Path,
    short_ns: u64,
    parts: Parts,
) -> Result<OverTime<u64>, BlameError> {
    let mut peak = PeakFinder::default();
    each_step(folder, &mut |step| {
        step.released.iter().for_each(|row| peak.release(*row));
        if !step.is_free {
            peak.create(step.row, step.block.size);
        }
        peak.end_row();
    })?;
    let mut tally = Tally::new(parts, short_ns, Weights(None));
    each_step(folder, &mut |step| {
        step.released.iter().for_each(|row| tally.release(*row, step.block.time));
        if !step.is_free {
            tally.create(step.row, step.block);
        }
        if step.row == peak.peak_row {
            tally.note_peak();
        }
    })?;
    Ok(tally.values)
}

fn each_step(folder: &Path, take: &mut dyn FnMut(Step)) -> Result<(), BlameError> {
    let path = folder.join(OPERATIONS_FILE);
    let (mut operations, mut ages) = (OperationReader::open(&path)?, AgeReader::open(&path)?);
    let (mut stacks, mut row) = (StackReader::open(&path)?, 0);
    // All have the same rows, in batches of the same size.
    while let (Some(batch), Some(ages), Some(stacks)) =
        (operations.next_rows()?, ages.next_rows()?, stacks.next_rows()?)
    {
        let what = batch.op.iter().zip(batch.size).zip(batch.time);
        for (((&op, &size), &time), (&age, &stack)) in what.zip(ages.iter().zip(stacks)) {
            let released = (age > 0).then(|| u64::saturating_sub(row, u64::from(age)));
            let is_free = FREES.contains(&op);
            take(Step { row, released, is_free, block: Block { stack, size, time } });
            row += 1;
        }
    }
    Ok(())
}
