use super::*;
use crate::profile::{Column, Sample};
use crate::tally::REQUESTED;

/// Stacks 0: a > b > c, 1: a > b, 2: a > d, and operations without a stack.
fn profile() -> Profile {
    let column = |index: usize| Column { kind: REQUESTED[index], allocator: String::new() };
    let sample = |stack: u32, frames: &[u32], values: [u64; 2]| Sample {
        stack,
        frames: frames.to_vec(),
        values: values.to_vec(),
        compared: Vec::new(),
    };
    Profile {
        columns: vec![column(0), column(1)],
        samples: vec![
            sample(0, &[2, 1, 0], [1, 10]),
            sample(1, &[1, 0], [2, 10]),
            sample(2, &[3, 0], [7, 980]),
            sample(Origin::NONE, &[], [5, 5]),
        ],
        ..Profile::default()
    }
}

fn frames(tree: &CallTree) -> Vec<(u32, u32)> {
    tree.nodes.iter().skip(1).map(|node| (node.parent, node.frame)).collect()
}

#[test]
fn stacks_form_a_tree_in_preorder() {
    let tree = CallTree::new(&profile(), &[], 100);
    assert_eq!(frames(&tree), [(0, 0), (1, 3), (1, 1), (3, 2)]);
    let found = [0, 1, 2, 7, Origin::NONE].map(|stack| tree.of_stack(stack));
    assert_eq!(found, [(4, false), (3, false), (2, false), (0, true), (0, false)]);
    assert_eq!(tree.left_out, 0);
}

#[test]
fn small_values_are_left_out_and_wanted_stacks_are_not() {
    let tree = CallTree::new(&profile(), &[], 3);
    assert_eq!(frames(&tree), [(0, 0), (1, 3)]);
    assert_eq!((tree.of_stack(0), tree.of_stack(1), tree.left_out), ((1, true), (1, true), 2));
    let tree = CallTree::new(&profile(), &[0], 6);
    assert_eq!(frames(&tree)[..3], [(0, 0), (1, 1), (2, 2)]);
    assert_eq!(tree.of_stack(0), (3, false));
}
