//! Random operations over several regimes of size; a failing sequence is shrunk and printed. The
//! cases are the same in every run (`.cargo/config.toml`); more of them with
//! `PROPTEST_CASES=20000`, others with `PROPTEST_RNG_SEED=$RANDOM`.

use keel_model::{Library, Model, Operation};
use proptest::prelude::*;
use std::ops::Range;

/// Where sizes come from.
#[derive(Debug, Clone, Copy)]
struct Regime {
    least: usize,
    most: usize,
    /// Slots: how many blocks can be live.
    slots: usize,
    /// log2 of the largest alignment, less 3.
    most_shift: u32,
}

const TINY: Regime = Regime { least: 0, most: 130, slots: 64, most_shift: 7 };
const SMALL: Regime = Regime { least: 0, most: 2_050, slots: 200, most_shift: 9 };
const MEDIUM: Regime = Regime { least: 1_000, most: 140_000, slots: 40, most_shift: 13 };
const LARGE: Regime = Regime { least: 60_000, most: 5_000_000, slots: 12, most_shift: 18 };
const HUGE: Regime = Regime { least: 3_000_000, most: 80_000_000, slots: 5, most_shift: 20 };

/// Sizes spread over their magnitudes, and often right at a power of two, where size classes end.
fn size(range: Range<usize>) -> BoxedStrategy<usize> {
    let magnitudes = range.start.max(1).ilog2()..=range.end.ilog2();
    let (least, most) = (range.start, range.end);
    prop_oneof![
        3 => range.clone(),
        3 => magnitudes.clone().prop_flat_map(|bits| (1usize << bits)..(2usize << bits)),
        2 => (magnitudes, 0usize..18)
            .prop_map(|(bits, off)| (1usize << bits).saturating_add(off).saturating_sub(9)),
    ]
    .prop_map(move |size| size.clamp(least, most))
    .boxed()
}

fn operation(regime: Regime) -> impl Strategy<Value = Operation> {
    let slot = 0..regime.slots;
    let sizes = || size(regime.least..regime.most);
    prop_oneof![
        6 => (slot.clone(), sizes()).prop_map(|(slot, size)| Operation::Malloc { slot, size }),
        2 => (slot.clone(), sizes(), 1usize..9)
            .prop_map(|(slot, size, count)| Operation::Calloc { slot, count, size: size / count }),
        4 => (slot.clone(), sizes()).prop_map(|(slot, size)| Operation::Realloc { slot, size }),
        2 => (slot.clone(), sizes(), 0..=regime.most_shift, any::<bool>())
            .prop_map(|(slot, size, shift, c11)| Operation::Aligned { slot, size, shift, c11 }),
        5 => slot.clone().prop_map(|slot| Operation::Free { slot }),
        1 => slot.prop_map(|slot| Operation::Fill { slot }),
    ]
}

fn mixed() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => operation(TINY), 8 => operation(SMALL), 4 => operation(MEDIUM), 1 => operation(LARGE)
    ]
}

fn keeps_its_promises(slots: usize, operations: &[Operation]) -> Result<(), TestCaseError> {
    let library = Library::under_test().map_err(|error| TestCaseError::fail(error.to_string()))?;
    let mut model = Model::new(library, slots);
    for &operation in operations {
        model.perform(operation).map_err(|broken| TestCaseError::fail(broken.to_string()))?;
    }
    model.finish().map_err(|broken| TestCaseError::fail(broken.to_string()))
}

macro_rules! property {
    ($name:ident, $operation:expr, $slots:expr, $count:expr, $cases:expr) => {
        proptest! {
            #![proptest_config(config($cases))]
            #[test]
            fn $name(operations in proptest::collection::vec($operation, 1..$count)) {
                keeps_its_promises($slots, &operations)?;
            }
        }
    };
}

/// As many cases as `PROPTEST_CASES` says, else the number that fits into an everyday run. They run
/// in a child, so that a case that crashes is shrunk like any other.
fn config(everyday: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(everyday);
    ProptestConfig { cases, max_shrink_iters: 5_000, fork: true, ..ProptestConfig::default() }
}

property!(tiny_blocks, operation(TINY), TINY.slots, 600, 300);
property!(small_blocks, operation(SMALL), SMALL.slots, 1_500, 150);
property!(medium_blocks, operation(MEDIUM), MEDIUM.slots, 300, 100);
property!(large_blocks, operation(LARGE), LARGE.slots, 120, 60);
property!(huge_blocks, operation(HUGE), HUGE.slots, 40, 30);
property!(blocks_of_all_sizes, mixed(), 150, 800, 120);
