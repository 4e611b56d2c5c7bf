//! The binary blocks of the page, which `page/data.js` inflates and reads stream by stream.

use super::model::{CellFacts, RunBlocks, TileFacts};
use super::stacks::Stacks;
use crate::counts::{Counted, CountedRun, FINEST_COLUMNS, LANES, Operations, Sums};
use crate::encode::{Block, Stream};
use crate::verdict::{SlowCalls, floor_of_probes, is_near_floor};
use keel_results::OPERATIONS;

/// Columns of the threads' lanes.
pub const LANE_COLUMNS: usize = 2048;

/// The blocks that all allocators share: frame marks, the threads' lanes, lifetimes.
pub fn shared(counted: &Counted<'_>, prefix: &str) -> Vec<Block> {
    let mut blocks = vec![frame_marks(&counted.comparison.journal.frames, prefix)];
    blocks.extend(counted.operations.as_ref().map(|operations| lanes(operations, prefix)));
    if let Some(lifetimes) = &counted.lifetimes {
        let (bytes, cells) = lifetimes.encode();
        let mut stream = Stream::default();
        stream.varint(cells as u64);
        stream.append(&bytes);
        blocks.push(Block::new(format!("{prefix}block-lifetimes"), &stream.finish()));
    }
    blocks
}

fn frame_marks(frames: &[u64], prefix: &str) -> Block {
    let mut stream = Stream::default();
    let mut previous = 0;
    for mark in frames {
        stream.varint(mark.saturating_sub(previous));
        previous = previous.max(*mark);
    }
    Block::new(format!("{prefix}frame-marks"), &stream.finish())
}

/// Operations of each thread in each of [`LANE_COLUMNS`], lane by lane.
fn lanes(operations: &Operations, prefix: &str) -> Block {
    let mut counts = vec![[0u32; LANES]; LANE_COLUMNS];
    let group = FINEST_COLUMNS / LANE_COLUMNS;
    for (column, counts) in counts.iter_mut().enumerate() {
        let begin = operations.column_starts[column * group] as usize;
        let end = operations.column_starts[(column + 1) * group] as usize;
        operations.lanes[begin..end].iter().for_each(|lane| counts[usize::from(*lane)] += 1);
    }
    let mut stream = Stream::default();
    for lane in 0..operations.threads.len() {
        counts.iter().for_each(|column| stream.varint(u64::from(column[lane])));
    }
    Block::new(format!("{prefix}block-lanes"), &stream.finish())
}

/// All blocks of the median run of allocator `index`. `name` ends the names of the blocks. `words`
/// are the causes and the stacks of slow calls.
pub fn of_run(
    counted: &Counted<'_>,
    index: usize,
    run: &CountedRun,
    name: &str,
    words: (&SlowCalls, Option<&Stacks>),
) -> (RunBlocks, Vec<Block>) {
    let (mut facts, mut blocks) = (RunBlocks::default(), Vec::new());
    tiles(counted.columns, run, name, &mut facts, &mut blocks);
    planes(run, name, &mut facts, &mut blocks);
    let (outliers, count) = outliers(counted, index, name, words);
    facts.outlier_count = count;
    blocks.push(outliers);
    let ticks_per_ns = counted.comparison.clock.ticks_per_ns;
    blocks.push(sums(&run.frames, ticks_per_ns, format!("frames-{name}")));
    if !run.windows.inside.is_empty() {
        blocks.push(sums(&run.windows, ticks_per_ns, format!("windows-{name}")));
    }
    blocks.push(probes(counted, run, name));
    if !run.lateness.is_empty() {
        let mut stream = Stream::default();
        for which in [0, 1] {
            run.lateness.iter().for_each(|late| stream.varint(late[which]));
        }
        blocks.push(Block::new(format!("lateness-{name}"), &stream.finish()));
    }
    (facts, blocks)
}

/// The ticks of each probed call, twice, and 1 more if it is near the floor.
fn probes(counted: &Counted<'_>, run: &CountedRun, name: &str) -> Block {
    let mut stream = Stream::default();
    let ns = |ticks: u32| f64::from(ticks) / counted.comparison.clock.ticks_per_ns;
    for (ticks, floor) in run.probes.iter().zip(floor_of_probes(counted)) {
        let at_floor = floor.is_some_and(|floor| is_near_floor(ns(*ticks), ns(floor)));
        stream.varint(2 * u64::from(*ticks) + u64::from(at_floor));
    }
    Block::new(format!("probes-{name}"), &stream.finish())
}

fn tiles(
    columns: usize,
    counted: &CountedRun,
    run: &str,
    facts: &mut RunBlocks,
    blocks: &mut Vec<Block>,
) {
    for (kind, tiles) in counted.tiles.iter().enumerate().filter(|(_, tiles)| tiles.cells() > 0) {
        let mut tiles = tiles.clone();
        while tiles.columns() > columns {
            tiles = tiles.halve();
        }
        let name = OPERATIONS[kind];
        let block = Block::new(format!("tiles-{run}-{name}"), &tiles.encode());
        facts.calls += tiles.calls();
        let written =
            TileFacts { block: block.id.clone(), cells: tiles.cells(), calls: tiles.calls() };
        facts.tiles.insert(name, written);
        blocks.push(block);
    }
}

fn planes(counted: &CountedRun, run: &str, facts: &mut RunBlocks, blocks: &mut Vec<Block>) {
    for (kind, plane) in counted.planes.iter().enumerate() {
        let (bytes, cells) = plane.encode();
        if cells == 0 {
            continue;
        }
        let block = Block::new(format!("plane-{run}-{}", OPERATIONS[kind]), &bytes);
        facts.planes.insert(OPERATIONS[kind], CellFacts { block: block.id.clone(), cells });
        blocks.push(block);
    }
}

/// Slow calls by rising time, one stream for each: time since the previous call, operation, size,
/// thread, ticks, cause bits, number of the probe from 1 (0 if the call has none), page faults,
/// bits of system calls, index of the cause's words and index of the verdict, both in
/// `facts.slow_calls`, and the number of its call stack, if stacks are known.
fn outliers(
    counted: &Counted<'_>,
    index: usize,
    name: &str,
    (slow_calls, stacks): (&SlowCalls, Option<&Stacks>),
) -> (Block, usize) {
    let found = counted.slow_calls(index);
    let mut stream = Stream::default();
    let mut previous = 0;
    for (detail, _) in &found {
        stream.varint(detail.time - previous);
        previous = detail.time;
    }
    found.iter().for_each(|(detail, _)| stream.byte(detail.kind));
    found.iter().for_each(|(detail, _)| stream.varint(detail.size));
    found.iter().for_each(|(detail, _)| stream.varint(u64::from(detail.thread)));
    found.iter().for_each(|(_, outlier)| stream.varint(u64::from(outlier.ticks)));
    found.iter().for_each(|(_, outlier)| stream.byte(outlier.cause));
    for (detail, _) in &found {
        stream.varint(counted.probe(detail.row).map_or(0, |probe| probe as u64 + 1));
    }
    found.iter().for_each(|(_, outlier)| stream.varint(u64::from(outlier.faults)));
    found.iter().for_each(|(_, outlier)| stream.varint(u64::from(outlier.calls)));
    found.iter().for_each(|(_, outlier)| stream.varint(slow_calls.cause_index(outlier) as u64));
    found.iter().for_each(|(_, outlier)| stream.byte(slow_calls.verdict_index(outlier) as u8));
    if let Some(stacks) = stacks {
        found.iter().for_each(|(detail, _)| stream.varint(stacks.number_of_row(detail.row)));
    }
    (Block::new(format!("outliers-{name}"), &stream.finish()), found.len())
}

/// Nanoseconds inside calls in each interval, then the part of them in interrupted calls, then
/// those of the busiest thread.
fn sums(sums: &Sums, ticks_per_ns: f64, id: String) -> Block {
    let mut stream = Stream::default();
    for ticks in sums.inside.iter().chain(&sums.interrupted).chain(&sums.busiest) {
        stream.varint((*ticks as f64 / ticks_per_ns).round() as u64);
    }
    Block::new(id, &stream.finish())
}
