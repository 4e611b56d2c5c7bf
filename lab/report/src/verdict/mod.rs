//! From figures to sentences: the allocator that is lowest in each figure, the slowest individual
//! calls and their causes, and each two allocators compared. The page, the terminal and Markdown
//! show these sentences; nothing else words them.

mod advice;
mod cause;
mod cautions;
mod criteria;
mod headline;
mod hitch;
mod judge;
mod pairs;
mod price;
mod same_calls;
mod sentences;
#[cfg(test)]
mod tests;
mod unseen;
mod used;

pub use advice::{Change, CodeCost};
pub use cause::SlowCalls;
pub use hitch::{Hitch, hitch_calls, hitches, read_hitches};
pub use judge::{Verdict, base_of, judge};
pub use pairs::{PAIR_PHRASES, Pair, PairFacts, PairPhrases, PairRow, all_pairs, pair};
pub use same_calls::{floor_of_probes, is_near_floor, same_calls};
