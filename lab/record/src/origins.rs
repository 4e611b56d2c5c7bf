//! Resolves addresses in the program to modules and call stacks.

use crate::described::Described;
use crate::ring::{self, RawEvent};
use keel_journal::{Module, Origin, Stacks};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// Code in the program's address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Offset of `start` in the file.
    pub offset: u64,
    /// The file; empty for code without a file (of a just-in-time compiler).
    pub path: String,
}

/// The executable mappings of a text in the format of `/proc/<pid>/maps`.
pub fn parse_maps(text: &str) -> Vec<Mapping> {
    let mapping = |line: &str| {
        // The path may contain spaces; the fields before it do not.
        let mut rest = line;
        let mut field = || {
            let (word, tail) = rest.split_once(' ')?;
            rest = tail;
            Some(word)
        };
        let (start, end) = field()?.split_once('-')?;
        let permissions = field()?;
        let offset = field()?;
        field()?;
        let path = rest.split_once(' ').map_or("", |(_, path)| path).trim_start();
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
        // Memory of `memfd_create` has a name, but no file: .NET puts its code there.
        let has_path = path.starts_with('/') || path.get(1..3) == Some(":/"); // Windows
        let is_file = has_path && !path.starts_with("/memfd:");
        let path = if is_file { path.to_owned() } else { String::new() };
        (permissions.as_bytes().get(2) == Some(&b'x')).then_some(Mapping {
            start,
            end,
            offset,
            path,
        })
    };
    text.lines().filter_map(mapping).collect()
}

/// The modules and stacks of one process's operations.
#[derive(Clone, Default)]
pub struct Origins {
    /// Sorted by start; they do not overlap.
    mappings: BTreeMap<u64, Mapping>,
    /// Where the mappings began at the last two readings.
    present: [FxHashSet<u64>; 2],
    /// Code that is unloaded at a time, in ticks, up to which the rows have not been written; in
    /// the order of the times. At its addresses, the first one comes before `mappings`.
    leaving: Vec<(u64, Mapping)>,
    /// Operations from addresses without a mapping.
    unnamed: u64,
    /// Module of an address's page; cleared when the mappings change.
    pages: FxHashMap<u64, u32>,
    modules: Vec<Module>,
    module_indices: FxHashMap<String, u32>,
    /// Names of modules that are left out.
    skip: Vec<String>,
    skipped: Vec<bool>,
    stacks: Stacks,
    sites: FxHashMap<(i64, u64), u32>,
    nodes: FxHashMap<(i64, u32), u32>,
    /// The addresses of the stacks that the program has named, innermost first.
    frames: FxHashMap<u64, Vec<u64>>,
    /// The same stacks in the present mappings, as far as operations named them.
    named: FxHashMap<u64, Origin>,
    /// Addresses recorded so far of stacks that no operation has named yet, by ring and name.
    pending: FxHashMap<(usize, u64), Vec<u64>>,
    /// The stacks that later events may name without describing them.
    described: Described,
}

const PAGE_SHIFT: u32 = 12;

impl Origins {
    /// `skip`: names of modules to leave out, each the beginning of a file's name, or a whole path.
    pub fn new(skip: &[String]) -> Origins {
        Origins { skip: skip.to_vec(), ..Origins::default() }
    }

    /// Sets the present mappings. Older ones stay where no new one overlaps them, because events
    /// from before a library was closed may still arrive. Stacks with addresses in new mappings are
    /// resolved again when an operation names them: these addresses are now other code.
    pub fn map(&mut self, mappings: &[Mapping]) {
        let starts = mappings.iter().map(|mapping| mapping.start).collect();
        self.present = [std::mem::take(&mut self.present[1]), starts];
        let is_new = |new: &&Mapping| self.mappings.get(&new.start) != Some(*new);
        let changed: Vec<&Mapping> = mappings.iter().filter(is_new).collect();
        if changed.is_empty() {
            return;
        }
        for new in changed {
            self.forget(new.start, new.end);
            self.mappings.insert(new.start, new.clone());
        }
    }

    /// Code was unloaded at this time, up to which the rows have not been written.
    pub fn announce_unloading(&mut self, time: u64, mut code: Mapping) {
        // The loader's path may be a link, or relative.
        if let Ok(path) = std::fs::canonicalize(&code.path) {
            code.path = path.to_string_lossy().into_owned();
        }
        self.forget(code.start, code.end);
        let at = self.leaving.partition_point(|(other, _)| *other <= time);
        self.leaving.insert(at, (time, code));
    }

    /// The rows up to an announced unloading have been written.
    pub fn unloaded(&mut self, start: u64, end: u64) {
        let is_it = |code: &Mapping| (code.start, code.end) == (start, end);
        if let Some(at) = self.leaving.iter().position(|(_, code)| is_it(code)) {
            self.leaving.remove(at);
            self.resolve_again(start, end);
        }
    }

    /// Removes the mappings in a range of addresses.
    fn forget(&mut self, start: u64, end: u64) {
        let overlapping: Vec<u64> = self
            .mappings
            .range(..end)
            .rev()
            .take_while(|(_, old)| old.end > start)
            .map(|(start, _)| *start)
            .collect();
        for start in overlapping {
            self.mappings.remove(&start);
        }
        self.resolve_again(start, end);
    }

    /// Stacks with addresses in this range are resolved again when an operation names them.
    fn resolve_again(&mut self, start: u64, end: u64) {
        let is_changed = |address: &u64| (start..end).contains(address);
        let frames = &self.frames;
        self.named.retain(|name, _| {
            !frames.get(name).is_some_and(|addresses| addresses.iter().any(is_changed))
        });
        self.pages.clear();
    }

    /// Operations that came from code that was gone before its name was known.
    pub fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// Keeps the frames of the stack that an operation names, before it is resolved.
    pub fn keep_frames(&mut self, ring: usize, extra: u64) {
        if extra & ring::ORIGIN_STACK != 0 && !self.pending.is_empty() {
            let name = name_of(extra);
            if let Some(frames) = self.pending.remove(&(ring, name)) {
                self.frames.entry(name).or_insert(frames);
            }
        }
    }

    /// Adds the frames of a `STACK` event.
    pub fn add_frames(&mut self, ring: usize, event: &RawEvent) {
        let name = event.extra();
        self.described.add(ring, name);
        if self.frames.contains_key(&name) {
            return;
        }
        let frames = self.pending.entry((ring, name)).or_default();
        frames.push(event.address);
        if event.size != 0 {
            frames.push(event.size);
        }
    }

    /// The origin in an operation's extra, at the time of the rows that are being written.
    pub fn resolve(&mut self, ring: usize, extra: u64) -> Origin {
        if extra & ring::ORIGIN_STACK == 0 {
            return Origin { module: self.module_of(extra), stack: Origin::NONE };
        }
        let name = name_of(extra);
        if let Some(origin) = self.named.get(&name) {
            return *origin;
        }
        if let Some(frames) = self.pending.remove(&(ring, name)) {
            self.frames.insert(name, frames);
        }
        let Some(frames) = self.frames.get(&name).cloned() else { return Origin::UNKNOWN };
        let mut parent = -1;
        for address in frames.iter().rev() {
            parent = i64::from(self.node(parent, *address));
        }
        let module = frames.first().map_or(Origin::NONE, |address| self.module_of(*address));
        let origin = Origin { module, stack: u32::try_from(parent).unwrap_or(Origin::NONE) };
        self.named.insert(name, origin);
        origin
    }

    fn node(&mut self, parent: i64, address: u64) -> u32 {
        let module = self.module_of(address);
        let place = match self.mapping(address) {
            Some(mapping) if module != Origin::NONE => {
                (i64::from(module), (address - mapping.start).wrapping_add(mapping.offset))
            }
            _ => (-1, address),
        };
        self.call(parent, place)
    }

    /// The number of a call at a place.
    fn call(&mut self, parent: i64, place: (i64, u64)) -> u32 {
        let Stacks { sites, nodes, .. } = &mut self.stacks;
        let site = *self.sites.entry(place).or_insert_with(|| {
            sites.push(place);
            sites.len() as u32 - 1
        });
        *self.nodes.entry((parent, site)).or_insert_with(|| {
            nodes.push((parent, site));
            nodes.len() as u32 - 1
        })
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        let mut leaving = self.leaving.iter().map(|(_, code)| code);
        let leaves = leaving.find(|code| (code.start..code.end).contains(&address));
        if leaves.is_some() {
            return leaves;
        }
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }

    fn module_of(&mut self, address: u64) -> u32 {
        let page = address >> PAGE_SHIFT;
        if let Some(module) = self.pages.get(&page) {
            return *module;
        }
        let mapping = self.mapping(address);
        if mapping.is_none() {
            self.unnamed += u64::from(address != 0);
            return Origin::NONE;
        }
        let path = mapping.map(|mapping| mapping.path.clone()).unwrap_or_default();
        let module = if path.is_empty() { Origin::NONE } else { self.module(path) };
        self.pages.insert(page, module);
        module
    }

    fn module(&mut self, path: String) -> u32 {
        if let Some(index) = self.module_indices.get(&path) {
            return *index;
        }
        let index = self.modules.len() as u32;
        self.skipped.push(self.skip.iter().any(|name| is_named(&path, name)));
        self.modules.push(Module { path: path.clone(), build_id: String::new() });
        self.module_indices.insert(path, index);
        index
    }

    /// Whether operations of this module are left out.
    pub fn is_skipped(&self, module: u32) -> bool {
        self.skipped.get(module as usize).copied().unwrap_or(false)
    }

    /// The modules so far.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The stacks so far.
    pub fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// Modules and mappings.
    pub fn paths(&self) -> usize {
        self.modules.len() + self.mappings.len()
    }

    /// How many stacks, calls, pages, modules and mappings it knows, which grows with the time.
    pub fn size(&self) -> usize {
        /// The paths take more memory than the rest.
        const PATH: usize = 64;
        let stacks = self.frames.len() + self.pending.len() + self.stacks.nodes.len();
        self.paths() * PATH + stacks + self.pages.len()
    }

    /// Forgets the stacks and modules that neither `used` has nor later operations can name, and
    /// the mappings that were in none of the last two readings: of these, all operations are
    /// resolved. `queued`: the names in the operations that are not resolved yet. The stacks and
    /// modules in `used` get other numbers.
    pub fn forget_stacks<'a>(
        &mut self,
        queued: impl Iterator<Item = u64>,
        used: impl Iterator<Item = &'a mut Origin>,
    ) {
        let mut names = self.described.names();
        names.extend(queued.filter(|extra| extra & ring::ORIGIN_STACK != 0).map(name_of));
        let (frames, described) = (std::mem::take(&mut self.frames), &self.described);
        self.frames = frames.into_iter().filter(|(name, _)| names.contains(name)).collect();
        self.pending.retain(|(ring, name), _| described.has(*ring, *name));
        // They are resolved again when an operation names them.
        (self.named, self.pages) = Default::default();
        (self.sites, self.nodes) = Default::default();
        let [before, now] = &self.present;
        self.mappings.retain(|start, _| before.contains(start) || now.contains(start));
        (self.module_indices, self.skipped) = Default::default();
        let modules = std::mem::take(&mut self.modules);
        let old = std::mem::take(&mut self.stacks);
        let mut moved = FxHashMap::default();
        for origin in used {
            origin.module = self.keep_module(&modules, origin.module);
            origin.stack = self.keep(&old, &modules, origin.stack, &mut moved);
        }
    }

    /// Adds an old module again, and returns its new number.
    fn keep_module(&mut self, old: &[Module], module: u32) -> u32 {
        let path = old.get(module as usize).map(|module| module.path.clone());
        path.map_or(module, |path| self.module(path))
    }

    /// Adds an old stack again, and returns its new number.
    fn keep(
        &mut self,
        old: &Stacks,
        modules: &[Module],
        stack: u32,
        moved: &mut FxHashMap<u32, u32>,
    ) -> u32 {
        let (mut path, mut next) = (Vec::new(), i64::from(stack));
        if stack == Origin::NONE {
            return stack;
        }
        while let Some((call, false)) =
            u32::try_from(next).ok().map(|call| (call, moved.contains_key(&call)))
        {
            path.push(call);
            next = old.nodes[call as usize].0;
        }
        for call in path.into_iter().rev() {
            let (parent, site) = old.nodes[call as usize];
            let parent = u32::try_from(parent).map_or(-1, |parent| i64::from(moved[&parent]));
            let (module, address) = old.sites[site as usize];
            let module = u32::try_from(module)
                .map_or(-1, |module| i64::from(self.keep_module(modules, module)));
            moved.insert(call, self.call(parent, (module, address)));
        }
        moved[&stack]
    }

    /// Returns modules and stacks; the build ids are read from the files now.
    pub fn finish(mut self) -> (Vec<Module>, Stacks) {
        for module in &mut self.modules {
            module.build_id = build_id(module.path.as_ref()).unwrap_or_default();
        }
        (self.modules, self.stacks)
    }
}

/// The build id of an object file.
fn build_id(path: &Path) -> Option<String> {
    use object::Object as _;
    let file = File::open(path).ok()?;
    // SAFETY: an object file. If it shrank meanwhile, the programs that use it would crash as well.
    let map = unsafe { memmap2::Mmap::map(&file) }.ok()?;
    let object = object::File::parse(&*map).ok()?;
    let id = object.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The name of a stack, in an operation's extra.
fn name_of(extra: u64) -> u64 {
    extra & !ring::ORIGIN_STACK
}

/// Whether `name` matches a module: the beginning of its file's name, or its whole path.
pub fn is_named(path: &str, name: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    if name.contains('/') { path == name } else { !name.is_empty() && file.starts_with(name) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    const MAPS: &str = "55d0000-55e0000 r--p 00000000 fe:00 123    /usr/bin/a program
55e0000-55f0000 r-xp 00001000 fe:00 123    /usr/bin/a program
7000000-7100000 rwxp 00000000 00:00 0
7200000-7300000 r-xs 00000000 00:01 2049   /memfd:doublemapper (deleted)
7f00000-7fff000 r-xp 00028000 fe:00 77     /usr/lib/libc.so.6 (deleted)
ffff000-fffffff000 r-xp 00000000 00:00 0    [vdso]
nonsense
";

    fn stack(name: u64, address: u64, outer: u64) -> RawEvent {
        RawEvent { time: 0, address, size: outer, word: name << 16 | 11 }
    }

    #[test]
    fn code_of_a_program_for_windows_has_a_path() {
        let maps = parse_maps("140001000-14000d8f0 r-xp 600 00:00 0 C:/my game/game.exe\n");
        assert_eq!((maps[0].path.as_str(), maps[0].offset), ("C:/my game/game.exe", 0x600));
    }

    #[test]
    fn only_code_is_parsed_and_paths_may_contain_spaces() {
        let maps = parse_maps(MAPS);
        let paths: Vec<&str> = maps.iter().map(|mapping| mapping.path.as_str()).collect();
        assert_eq!(paths, ["/usr/bin/a program", "", "", "/usr/lib/libc.so.6 (deleted)", ""]);
        assert_eq!((maps[0].start, maps[0].end, maps[0].offset), (0x55e_0000, 0x55f_0000, 0x1000));
    }

    #[test]
    fn library_loaded_in_place_of_another_is_a_new_module() {
        let mut origins = Origins::new(&["libold".to_owned()]);
        let at = |start, end, path: &str| Mapping { start, end, offset: 0, path: path.to_owned() };
        origins.map(&[at(0x1000, 0x9000, "/lib/libold.so"), at(0x9000, 0xa000, "/lib/libc.so")]);
        let old = origins.resolve(0, 0x5000);
        origins.map(&[at(0x4000, 0x6000, "/lib/libnew.so")]);
        let new = origins.resolve(0, 0x5000);
        assert_eq!((old.module, new.module), (0, 1));
        assert_eq!(origins.resolve(0, 0x9abc).module, 2, "a mapping that nothing overlaps stays");
        assert_eq!(
            origins.resolve(0, 0x1000).module,
            Origin::NONE,
            "an overlapped mapping is removed"
        );
        assert!(
            origins.is_skipped(0) && !origins.is_skipped(1) && !origins.is_skipped(Origin::NONE)
        );
    }

    #[test]
    fn calls_before_an_unloading_are_those_of_the_code_that_was_unloaded() {
        let mut origins = Origins::new(&[]);
        let at =
            |path: &str| Mapping { start: 0x1000, end: 0x9000, offset: 0, path: path.to_owned() };
        // Two libraries at one place are known only by their unloading, a third one is mapped.
        origins.announce_unloading(20, at("/no/two.so"));
        origins.announce_unloading(10, at("/no/one.so"));
        origins.map(&[at("/no/three.so")]);
        let found = |origins: &mut Origins| origins.resolve(0, 0x5000).module as usize;
        let mut order = vec![found(&mut origins)];
        for _ in 0..2 {
            origins.unloaded(0x1000, 0x9000);
            order.push(found(&mut origins));
        }
        let paths: Vec<&str> =
            order.iter().map(|index| origins.modules()[*index].path.as_str()).collect();
        assert_eq!(paths, ["/no/one.so", "/no/two.so", "/no/three.so"]);
        assert_eq!((origins.resolve(0, 0xa000).module, origins.unnamed()), (Origin::NONE, 1));
    }

    #[test]
    fn a_stack_is_resolved_again_when_other_code_is_at_its_addresses() {
        let mut origins = Origins::new(&[]);
        let at = |start, path: &str| Mapping {
            start,
            end: start + 0x1000,
            offset: 0,
            path: path.to_owned(),
        };
        let program = at(0x9000, "/bin/game");
        origins.map(&[at(0x1000, "/lib/libold.so"), program.clone()]);
        for (name, inner) in [(5, 0x1100), (6, 0x9100)] {
            origins.add_frames(0, &stack(name, inner, 0x9200));
        }
        let resolve = |origins: &mut Origins| {
            [5, 6].map(|name| origins.resolve(0, name | ring::ORIGIN_STACK))
        };
        let before = resolve(&mut origins);
        origins.map(std::slice::from_ref(&program));
        assert_eq!(resolve(&mut origins), before, "events of a closed library may still arrive");
        origins.map(&[at(0x1000, "/lib/libnew.so"), program]);
        let after = resolve(&mut origins);
        assert_eq!(after[1], before[1]);
        let (modules, stacks) = origins.finish();
        let module = |origin: Origin| modules[origin.module as usize].path.as_str();
        assert_eq!((module(before[0]), module(after[0])), ("/lib/libold.so", "/lib/libnew.so"));
        let outer = |origin: Origin| stacks.walk(origin.stack).nth(1);
        assert_eq!(outer(before[0]), outer(after[0]));
    }

    #[test]
    fn stacks_share_their_outer_calls() {
        let mut origins = Origins::new(&[]);
        origins.map(&parse_maps(MAPS));
        for (name, inner) in [(5, 0x7f1_0000), (6, 0x7f2_0000)] {
            origins.add_frames(3, &stack(name, inner, 0x55e_8000));
            origins.add_frames(3, &stack(name, 0x705_0000, 0));
        }
        origins.add_frames(4, &stack(5, 1, 2));
        let first = origins.resolve(3, 5 | ring::ORIGIN_STACK);
        let second = origins.resolve(3, 6 | ring::ORIGIN_STACK);
        assert_eq!(
            origins.resolve(4, 5 | ring::ORIGIN_STACK),
            first,
            "a name means the same in all rings"
        );
        assert_eq!(origins.resolve(4, 9 | ring::ORIGIN_STACK), Origin::UNKNOWN);
        let (modules, stacks) = origins.finish();
        assert_eq!(modules[first.module as usize].path, "/usr/lib/libc.so.6 (deleted)");
        assert_eq!(
            stacks.walk(first.stack).skip(1).map(|site| site.1).collect::<Vec<_>>(),
            [0x9000, 0x705_0000]
        );
        assert_eq!(stacks.walk(second.stack).next().unwrap().1, 0x4_8000);
        assert_eq!((stacks.sites.len(), stacks.nodes.len()), (4, 4), "{stacks:?}");
    }

    #[test]
    fn names_match_beginnings_of_file_names_or_whole_paths() {
        let path = "/usr/lib/x86_64-linux-gnu/libGLX_mesa.so.0";
        assert!(
            is_named(path, "libGLX_mesa.so.0") && is_named(path, "libGLX") && is_named(path, path)
        );
        assert!(
            !is_named(path, "GLX")
                && !is_named(path, "usr")
                && !is_named(path, "/usr/lib")
                && !is_named(path, "")
        );
    }
}
