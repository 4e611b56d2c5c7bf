//! The modules and call sites with the most operations.

use crate::format;
use addr2line::Loader;
use anyhow::Result;
use keel_journal::{Module, Origin, Reader};
use object::{Object as _, ObjectSegment as _};
use serde::Serialize;
use std::collections::HashMap;

/// Operations that came from one place.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Place {
    /// The module's path, or the calls that led to the call site, innermost first, each as
    /// `function (file:line)` or `module+offset`.
    pub name: Vec<String>,
    /// Operations of every kind.
    pub operations: u64,
    /// Operations that allocated a block.
    pub blocks: u64,
    /// Bytes that these operations requested.
    pub bytes: u64,
    /// Bytes of these blocks that were never freed.
    pub kept_bytes: u64,
}

/// The places with the most operations.
#[derive(Debug, Serialize)]
pub struct Top {
    /// Most operations first.
    pub modules: Vec<Place>,
    /// Most blocks first; empty where no call site was recorded.
    pub sites: Vec<Place>,
    /// The number of all call sites.
    pub sites_in_all: usize,
}

#[derive(Default)]
struct Tally {
    modules: HashMap<u32, Place>,
    stacks: HashMap<u32, Place>,
    /// Origin and size of the live objects.
    live: HashMap<u64, (Origin, u64)>,
}

impl Tally {
    fn take(&mut self, event: &keel_journal::Event, origin: Origin) {
        let blocks = u64::from(event.op.creates());
        for place in self.places(origin) {
            place.operations += 1;
            place.blocks += blocks;
            // The sum of the sizes in a journal may exceed the range of the type.
            place.bytes = place.bytes.saturating_add(event.size);
            place.kept_bytes = place.kept_bytes.saturating_add(event.size);
        }
        if blocks > 0 {
            self.live.insert(event.created, (origin, event.size));
        }
        if let Some((origin, size)) = self.live.remove(&event.released) {
            for place in self.places(origin) {
                place.kept_bytes = place.kept_bytes.saturating_sub(size);
            }
        }
    }

    fn places(&mut self, origin: Origin) -> impl Iterator<Item = &mut Place> {
        let stack =
            (origin.stack != Origin::NONE).then(|| self.stacks.entry(origin.stack).or_default());
        std::iter::once(self.modules.entry(origin.module).or_default()).chain(stack)
    }
}

/// Reads the whole journal.
pub fn top(reader: &Reader, count: usize, progress: &mut dyn FnMut(u64)) -> Result<Top> {
    let mut tally = Tally::default();
    let (mut batches, mut events, mut origins) = (reader.batches(), Vec::new(), Vec::new());
    let mut rows = 0;
    while batches.next_with_origins(&mut events, &mut origins)? {
        for (event, origin) in events.iter().zip(&origins) {
            tally.take(event, *origin);
        }
        rows += events.len() as u64;
        progress(rows);
    }
    let metadata = reader.metadata();
    let mut modules: Vec<(u32, Place)> = tally.modules.into_iter().collect();
    modules.sort_unstable_by_key(|(index, place)| (std::cmp::Reverse(place.operations), *index));
    modules.truncate(count);
    let named = modules.into_iter().map(|(index, place)| {
        let path = metadata.modules.get(index as usize).map(|module| module.path.clone());
        Place { name: vec![path.unwrap_or_else(|| "(unknown)".to_owned())], ..place }
    });
    let mut stacks: Vec<(u32, Place)> = tally.stacks.into_iter().collect();
    let sites_in_all = stacks.len();
    stacks.sort_unstable_by_key(|(index, place)| (std::cmp::Reverse(place.blocks), *index));
    stacks.truncate(count);
    let mut symbols = Symbols::new(&metadata.modules);
    let sites = stacks.into_iter().map(|(index, place)| {
        let name = metadata.stacks.walk(index).flat_map(|site| symbols.names(site)).collect();
        Place { name, ..place }
    });
    Ok(Top { modules: named.collect(), sites: sites.collect(), sites_in_all })
}

/// Function names of places in modules.
struct Symbols<'a> {
    modules: &'a [Module],
    /// `None`: the file is missing, or its build id differs.
    files: HashMap<i64, Option<File>>,
    known: HashMap<(i64, u64), Vec<String>>,
}

struct File {
    loader: Loader,
    /// Offset in the file, length, address when loaded.
    segments: Vec<(u64, u64, u64)>,
}

impl<'a> Symbols<'a> {
    fn new(modules: &'a [Module]) -> Symbols<'a> {
        Symbols { modules, files: HashMap::new(), known: HashMap::new() }
    }

    /// The calls at a return address, innermost first: several where functions were inlined.
    fn names(&mut self, site: (i64, u64)) -> Vec<String> {
        if let Some(names) = self.known.get(&site) {
            return names.clone();
        }
        let module = usize::try_from(site.0).ok().and_then(|index| self.modules.get(index));
        let names = match module {
            None => vec![format!("{:#x}", site.1)],
            Some(module) => {
                let file = self.files.entry(site.0).or_insert_with(|| File::open(module));
                let found = file.as_ref().map(|file| file.names(site.1)).unwrap_or_default();
                if found.is_empty() {
                    vec![format!("{}+{:#x}", file_name(&module.path), site.1)]
                } else {
                    found
                }
            }
        };
        self.known.insert(site, names.clone());
        names
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl File {
    fn open(module: &Module) -> Option<File> {
        let bytes = std::fs::read(&module.path).ok()?;
        let object = object::File::parse(&*bytes).ok()?;
        let id = object.build_id().ok()?.unwrap_or_default();
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        if !module.build_id.is_empty() && id != module.build_id {
            return None;
        }
        let segments = object.segments().map(|segment| {
            let (offset, length) = segment.file_range();
            (offset, length, segment.address())
        });
        let segments = segments.collect();
        Some(File { loader: Loader::new(&module.path).ok()?, segments })
    }

    fn names(&self, offset: u64) -> Vec<String> {
        // The call instruction ends at the return address.
        let call = offset.saturating_sub(1);
        let segment = self
            .segments
            .iter()
            .find(|(start, length, _)| (*start..start + length).contains(&call));
        let Some((start, _, address)) = segment else { return Vec::new() };
        let at = call - start + address;
        let mut names = Vec::new();
        if let Ok(mut frames) = self.loader.find_frames(at) {
            while let Ok(Some(frame)) = frames.next() {
                let Some(function) = frame.function else { continue };
                let name = function.demangle().map(|name| name.into_owned()).unwrap_or_default();
                let place =
                    frame.location.and_then(|place| Some((place.file?.to_owned(), place.line?)));
                names.push(match place {
                    Some((file, line)) => format!("{name} ({}:{line})", file_name(&file)),
                    None => name,
                });
            }
        }
        if names.is_empty() {
            let symbol = self.loader.find_symbol(at);
            names.extend(
                symbol.map(|name| addr2line::demangle_auto(name.into(), None).into_owned()),
            );
        }
        names
    }
}

/// Prints the tables.
pub fn text(top: &Top, line: &mut impl FnMut(String)) {
    let row = |place: &Place, name: &str| {
        format!(
            "  {:>14}{:>14}{:>12}{:>14}  {name}",
            format::count(place.operations),
            format::count(place.blocks),
            format::bytes(place.bytes),
            format::bytes(place.kept_bytes),
        )
    };
    let head = |what: &str| {
        format!(
            "\n  {:>14}{:>14}{:>12}{:>14}  {what}",
            "operations", "blocks", "bytes", "never freed"
        )
    };
    line(head("called from"));
    for place in &top.modules {
        line(row(place, place.name.first().map_or("", String::as_str)));
    }
    if top.sites.is_empty() {
        line("  (no call sites: record with --stacks DEPTH)".to_owned());
        return;
    }
    line(head(&format!("call site ({} in all)", format::count(top.sites_in_all as u64))));
    for place in &top.sites {
        for (index, name) in place.name.iter().enumerate() {
            line(if index == 0 { row(place, name) } else { format!("{:58}< {name}", "") });
        }
    }
}
