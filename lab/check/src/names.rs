//! The named call stacks of a journal.

use crate::metric::Kernel;
use crate::pattern::matches_function;
use keel_blame::{DebugFolders, Frame, Symbols};
use keel_journal::{Origin, Reader, Stacks};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// Names stacks. Each is looked up once.
pub(crate) struct Names<'a> {
    sites: &'a Stacks,
    symbols: Symbols<'a>,
    known: FxHashMap<u32, Rc<[u32]>>,
    /// Number of calls of each stack node, and the largest.
    depths: Vec<u32>,
    deepest: u32,
    /// The outermost calls of stacks that are whole, as indices of sites.
    beginnings: FxHashSet<u32>,
    /// Of each row of the journal, if it was replayed; otherwise empty.
    kernel: &'a [Kernel],
}

/// What identifies a call site: function, file or module, and line.
pub(crate) type Identity = (String, String, u32);

impl<'a> Names<'a> {
    pub fn new(reader: &'a Reader, folders: &'a DebugFolders) -> Names<'a> {
        let metadata = reader.metadata();
        let stacks = &metadata.stacks;
        let mut depths: Vec<u32> = Vec::with_capacity(stacks.nodes.len());
        for (parent, _) in &stacks.nodes {
            let around = usize::try_from(*parent).ok().and_then(|parent| depths.get(parent));
            depths.push(around.map_or(1, |depth| depth + 1));
        }
        let deepest = depths.iter().copied().max().unwrap_or(0);
        let beginnings = beginnings(&stacks.nodes, &depths, deepest);
        let symbols = Symbols::new(&metadata.modules, stacks, folders);
        let known = FxHashMap::default();
        Names { sites: stacks, symbols, known, depths, deepest, beginnings, kernel: &[] }
    }

    /// With what the kernel did for each row of the journal in a replay.
    pub fn with_kernel(self, kernel: &'a [Kernel]) -> Names<'a> {
        Names { kernel, ..self }
    }

    /// What the kernel did for a row; nothing, if that is not known.
    pub fn kernel(&self, row: u64) -> Kernel {
        self.kernel.get(row as usize).copied().unwrap_or_default()
    }

    /// The calls of a stack, innermost first, as indices of frames.
    fn indices(&mut self, stack: u32) -> Rc<[u32]> {
        if stack == Origin::NONE {
            return Rc::from([]);
        }
        let symbols = &mut self.symbols;
        let found = self.known.entry(stack);
        found.or_insert_with(|| symbols.frames_of_stack(stack).into()).clone()
    }

    /// Where the call site is in the stack: the innermost call that is in no wrapper.
    fn site(&self, indices: &[u32]) -> usize {
        indices.iter().position(|index| !self.symbols.frame(*index).wrapper).unwrap_or(0)
    }

    /// The calls from the call site outwards.
    pub fn outwards(&mut self, stack: u32) -> Vec<Frame> {
        let indices = self.indices(stack);
        let site = self.site(&indices);
        indices[site..].iter().map(|index| self.symbols.frame(*index).clone()).collect()
    }

    /// The call site: its function, its file or module, and its line.
    pub fn identity(&mut self, stack: u32) -> Option<Identity> {
        let indices = self.indices(stack);
        let site = self.site(&indices);
        let frame = self.symbols.frame(*indices.get(site)?);
        let file = if frame.file.is_empty() { frame.container() } else { &frame.file };
        Some((frame.function.clone(), file.to_owned(), frame.line))
    }

    /// Whether the function is in the stack: anywhere, or as the call site.
    pub fn is_in(&mut self, stack: u32, pattern: &str, anywhere: bool) -> bool {
        let indices = self.indices(stack);
        let site = self.site(&indices);
        let calls = if anywhere { &indices[..] } else { indices.get(site..=site).unwrap_or(&[]) };
        calls.iter().any(|index| matches_function(pattern, &self.symbols.frame(*index).function))
    }

    /// Whether an object file of the recording has the function, although it may be in no stack.
    pub fn is_defined(&mut self, pattern: &str) -> bool {
        let innermost = pattern.rsplit("::").next().unwrap_or(pattern);
        self.symbols.defines(&|name, is_whole| {
            matches_function(if is_whole { pattern } else { innermost }, name)
        })
    }

    /// Whether calls around the outermost recorded one are missing, because the recording was
    /// limited to fewer calls.
    pub fn is_cut(&mut self, stack: u32) -> bool {
        if self.depths.get(stack as usize).is_none_or(|depth| *depth < self.deepest) {
            return false;
        }
        let outermost = self.sites.walk_indices(stack).last();
        if outermost.is_some_and(|site| self.beginnings.contains(&site)) {
            return false;
        }
        let indices = self.indices(stack);
        let outermost = indices.last().map(|index| self.symbols.frame(*index));
        // A thread begins in the C library.
        outermost.is_some_and(|frame| !frame.wrapper && frame.function != "_start")
    }
}

/// The sites at which threads begin, also in programs without symbols: a stack with fewer calls
/// than the deepest one is not cut off, so its outermost call is such a site.
fn beginnings(nodes: &[(i64, u32)], depths: &[u32], deepest: u32) -> FxHashSet<u32> {
    let mut roots: Vec<u32> = Vec::with_capacity(nodes.len());
    let mut innermost = vec![true; nodes.len()];
    for (parent, site) in nodes {
        let parent = usize::try_from(*parent).ok();
        roots.push(parent.and_then(|parent| roots.get(parent)).copied().unwrap_or(*site));
        if let Some(has_calls) = parent.and_then(|parent| innermost.get_mut(parent)) {
            *has_calls = false;
        }
    }
    let stacks = roots.iter().zip(depths).zip(innermost);
    stacks
        .filter(|((_, depth), is_innermost)| *is_innermost && **depth < deepest)
        .map(|((root, _), _)| *root)
        .collect()
}
