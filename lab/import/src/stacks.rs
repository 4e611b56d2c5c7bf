//! Collects the call stacks of a trace in the form in which a journal stores them.

use keel_journal::{Module, NamedCall, Origin, Stacks};
use rustc_hash::FxHashMap;

/// The modules and the stacks of a trace.
#[derive(Default)]
pub(crate) struct StackTable {
    modules: Vec<Module>,
    module_indices: FxHashMap<String, u32>,
    stacks: Stacks,
    node_indices: FxHashMap<(u32, u32), u32>,
}

/// A stack, or the lack of one, as a number: 0 for none, otherwise 1 + the index of the innermost
/// call among the nodes of [`Stacks`].
pub(crate) type StackNumber = u32;

impl StackTable {
    /// The index of the module with this path.
    pub fn module(&mut self, path: &str) -> u32 {
        if let Some(index) = self.module_indices.get(path) {
            return *index;
        }
        let index = self.modules.len() as u32;
        self.modules.push(Module { path: path.to_owned(), build_id: String::new() });
        self.module_indices.insert(path.to_owned(), index);
        index
    }

    /// Adds a site whose calls have these names, the innermost first. `address` is where it was in
    /// the memory of the program; 0 if unknown.
    pub fn named_site(&mut self, address: u64, names: impl Iterator<Item = NamedCall>) -> u32 {
        let site = self.site(None, address);
        self.stacks.names.extend(names.map(|name| NamedCall { site, ..name }));
        site
    }

    /// Adds a site by its module and its return address in the module, or in memory.
    pub fn site(&mut self, module: Option<u32>, offset: u64) -> u32 {
        self.stacks.sites.push((module.map_or(-1, i64::from), offset));
        self.stacks.sites.len() as u32 - 1
    }

    /// The stack whose innermost call is at this site and whose other calls are those of `outer`.
    pub fn stack(&mut self, outer: StackNumber, site: u32) -> StackNumber {
        let nodes = &mut self.stacks.nodes;
        *self.node_indices.entry((outer, site)).or_insert_with(|| {
            nodes.push((i64::from(outer) - 1, site));
            nodes.len() as u32
        })
    }

    /// The origin of an operation with this stack.
    pub fn origin(&self, stack: StackNumber) -> Origin {
        let Some(index) = stack.checked_sub(1) else { return Origin::UNKNOWN };
        let Some((_, site)) = self.stacks.nodes.get(index as usize) else { return Origin::UNKNOWN };
        let by_place = self.stacks.sites.get(*site as usize).map_or(-1, |site| site.0);
        let by_name = self.stacks.names_of(*site).first().and_then(|name| name.module);
        let module = u32::try_from(by_place).ok().or(by_name).unwrap_or(Origin::NONE);
        Origin { module, stack: index }
    }

    /// The modules and the stacks.
    pub fn into_parts(self) -> (Vec<Module>, Stacks) {
        (self.modules, self.stacks)
    }
}
