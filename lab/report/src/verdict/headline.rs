//! The first sentence of a report without an advice: why there is none.

use super::criteria::Criterion;

/// Why the allocators cannot be compared; empty if they can.
pub fn headline(criteria: &[Criterion], runs: usize) -> String {
    let compared = criteria.iter().map(|criterion| criterion.rows.len()).max().unwrap_or(0);
    match () {
        () if compared < 2 => "Only one allocator was measured, so there is no comparison.".into(),
        () if runs < 2 => {
            "Each allocator ran only once. This is not enough for a comparison.".into()
        }
        () => String::new(),
    }
}
