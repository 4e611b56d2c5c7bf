//! All stacks as one tree, with a limited number of nodes.

use crate::profile::Profile;
use keel_journal::Origin;
use rustc_hash::FxHashMap;

/// A call in the context of its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallNode {
    /// The call that contains it: an index into [`CallTree::nodes`].
    pub parent: u32,
    /// An index into [`Profile::frames`].
    pub frame: u32,
}

/// The calls of all stacks, outermost first. Calls with small values are left out, and their values
/// belong to their callers.
#[derive(Clone, Debug, Default)]
pub struct CallTree {
    /// A call precedes the calls within it, which follow it directly (preorder). Node 0 is the
    /// whole program; its frame has no meaning.
    pub nodes: Vec<CallNode>,
    /// Number of calls that were left out.
    pub left_out: usize,
    /// The innermost node of each stack, and whether inner calls of the stack were left out.
    of_stack: FxHashMap<u32, (u32, bool)>,
}

/// The tree while it grows. Node 0 is the program.
struct Growing {
    nodes: Vec<CallNode>,
    /// An upper limit of the node's share of any column.
    shares: Vec<f64>,
    children: FxHashMap<(u32, u32), u32>,
}

impl CallTree {
    /// Builds the tree of a profile, with at most `most` nodes: first the calls of the `wanted`
    /// stacks (half of the nodes at most), then those with the largest share of any column.
    pub fn new(profile: &Profile, wanted: &[u32], most: usize) -> CallTree {
        let totals: Vec<u64> =
            (0..profile.columns.len()).map(|column| profile.total(column)).collect();
        let mut tree = Growing {
            nodes: vec![CallNode { parent: 0, frame: 0 }],
            shares: vec![f64::INFINITY],
            children: FxHashMap::default(),
        };
        let mut leaves = FxHashMap::default();
        for sample in &profile.samples {
            let parts = sample.values.iter().zip(&totals).filter(|(_, total)| **total > 0);
            let share = parts.map(|(value, total)| *value as f64 / *total as f64);
            let leaf = tree.add(&sample.frames, share.fold(0.0, f64::max));
            leaves.insert(sample.stack, leaf);
        }
        tree.prefer(wanted.iter().filter_map(|stack| leaves.get(stack).copied()), most / 2);
        tree.cut(&leaves, most)
    }

    /// The innermost node of a stack, and whether inner calls of the stack were left out. Node 0
    /// for operations without a stack.
    pub fn of_stack(&self, stack: u32) -> (u32, bool) {
        if stack == Origin::NONE {
            return (0, false);
        }
        self.of_stack.get(&stack).copied().unwrap_or((0, true))
    }
}

impl Growing {
    /// Adds a stack, innermost call first. Returns its innermost node.
    fn add(&mut self, frames: &[u32], share: f64) -> u32 {
        let mut node = 0;
        for frame in frames.iter().rev() {
            let next = self.nodes.len() as u32;
            let child = *self.children.entry((node, *frame)).or_insert(next);
            if child == next {
                self.nodes.push(CallNode { parent: node, frame: *frame });
                self.shares.push(0.0);
            }
            self.shares[child as usize] += share;
            node = child;
        }
        node
    }

    /// Makes the stacks that end at these nodes the first choice, up to a number of nodes.
    fn prefer(&mut self, leaves: impl Iterator<Item = u32>, mut most: usize) {
        for leaf in leaves {
            let mut path = Vec::new();
            let mut node = leaf;
            while node != 0 && self.shares[node as usize].is_finite() {
                path.push(node);
                node = self.nodes[node as usize].parent;
            }
            if path.len() > most {
                return;
            }
            most -= path.len();
            path.into_iter().for_each(|node| self.shares[node as usize] = f64::INFINITY);
        }
    }

    /// The tree of the `most` nodes with the largest shares. The share of a call is at least that
    /// of each call within it, and calls come before the calls within them, so no node is kept
    /// without its callers.
    fn cut(self, leaves: &FxHashMap<u32, u32>, most: usize) -> CallTree {
        let share = |node: u32| self.shares[node as usize];
        let mut order: Vec<u32> = (0..self.nodes.len() as u32).collect();
        order.sort_by(|one, other| share(*other).total_cmp(&share(*one)).then(one.cmp(other)));
        order.truncate(most.max(1));
        let left_out = self.nodes.len() - order.len();
        let mut children: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        // The node with the smallest share is pushed first, so that it is popped last.
        for node in order.iter().rev().filter(|node| **node != 0) {
            children.entry(self.nodes[*node as usize].parent).or_default().push(*node);
        }
        let mut kept = vec![None; self.nodes.len()];
        let (mut nodes, mut pending) = (Vec::with_capacity(order.len()), vec![0_u32]);
        while let Some(node) = pending.pop() {
            let CallNode { parent, frame } = self.nodes[node as usize];
            kept[node as usize] = Some(nodes.len() as u32);
            nodes.push(CallNode { parent: kept[parent as usize].unwrap_or(0), frame });
            pending.extend(children.get(&node).into_iter().flatten());
        }
        let nearest = |leaf: u32| {
            let mut node = leaf;
            loop {
                match kept[node as usize] {
                    Some(found) => return (found, node != leaf),
                    None => node = self.nodes[node as usize].parent,
                }
            }
        };
        let of_stack = leaves.iter().map(|(stack, leaf)| (*stack, nearest(*leaf))).collect();
        CallTree { nodes, left_out, of_stack }
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
