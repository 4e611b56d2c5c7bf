//! Facts about a journal: operations, live set, lifetimes, sizes, frames.
//!
//! [`analyse`] reads a journal once, with memory in proportion to the number of live objects.
//! [`verify`] checks every rule for journals.

mod distribution;
mod facts;
mod survey;

pub use facts::{
    Distribution, Facts, FrameFacts, Leaked, Lifetimes, LivePeak, OperationCount, Rate, SizeBucket,
    Sizes, ThreadFacts, WrongFree, WrongFrees,
};

use crate::{Reader, Result, Rules, Violation};
use survey::Survey;

/// Returns all facts of a journal. After each batch, calls `progress` with the number of rows read
/// so far.
///
/// # Errors
/// A damaged file.
pub fn analyse(reader: &Reader, progress: &mut dyn FnMut(u64)) -> Result<Facts> {
    let mut survey = Survey::new(reader.metadata());
    let mut batches = reader.batches();
    let mut events = Vec::new();
    while batches.next_into(&mut events)? {
        for event in &events {
            survey.add(event);
        }
        progress(survey.rows());
    }
    Ok(survey.finish())
}

/// Checks every rule of [`crate::Event`] and returns the first violation, if there is one.
///
/// # Errors
/// A damaged file.
pub fn verify(reader: &Reader, progress: &mut dyn FnMut(u64)) -> Result<Option<Violation>> {
    let mut rules = match Rules::new(reader.metadata()) {
        Ok(rules) => rules,
        Err(violation) => return Ok(Some(violation)),
    };
    let mut batches = reader.batches();
    let (mut events, mut origins) = (Vec::new(), Vec::new());
    while batches.next_with_origins(&mut events, &mut origins)? {
        for (event, origin) in events.iter().zip(&origins) {
            if let Err(violation) = rules.check(event).and_then(|()| rules.check_origin(*origin)) {
                return Ok(Some(violation));
            }
        }
        progress(rules.rows());
    }
    Ok(None)
}
