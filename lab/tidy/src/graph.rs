//! Cycles in a small directed graph.

use std::collections::{BTreeMap, BTreeSet};

/// Edges by name: `from -> {to}`.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// The cycles of the graph, each as a path that returns to its start; none if the graph is acyclic.
///
/// Depth-first search, O(nodes + edges). Each back edge gives one cycle, so a connected component
/// may give several.
pub fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    let mut search = Search { graph, done: BTreeSet::new(), path: Vec::new(), found: Vec::new() };
    for node in graph.keys() {
        search.visit(node);
    }
    search.found
}

struct Search<'a> {
    graph: &'a Graph,
    done: BTreeSet<&'a str>,
    path: Vec<&'a str>,
    found: Vec<Vec<String>>,
}

impl<'a> Search<'a> {
    fn visit(&mut self, node: &'a str) {
        if let Some(start) = self.path.iter().position(|&on_path| on_path == node) {
            let mut cycle: Vec<String> =
                self.path[start..].iter().map(|&name| name.to_owned()).collect();
            cycle.push(node.to_owned());
            self.found.push(cycle);
            return;
        }
        if !self.done.insert(node) {
            return;
        }
        self.path.push(node);
        for next in self.graph.get(node).into_iter().flatten() {
            self.visit(next);
        }
        self.path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    }

    #[test]
    fn a_cycle_is_found_and_a_diamond_is_not_one() {
        assert_eq!(
            cycles(&graph(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])),
            Vec::<Vec<String>>::new()
        );
        assert_eq!(
            cycles(&graph(&[("a", "b"), ("b", "c"), ("c", "b")])),
            vec![vec!["b", "c", "b"]]
        );
    }
}
