//! The functions and lines of return addresses: those that the recording names, and those of the
//! modules' object files.

use crate::debug_files::{DebugFolders, Files, ModuleState};
use crate::frame::{Frame, file_name};
use crate::functions;
use crate::tail_calls::{Code, Next};
use crate::wrapper::Function;
use addr2line::{Loader, demangle_auto, gimli};
use keel_journal::{Module, NamedCall, Stacks};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use rustc_hash::FxHashMap;

/// Names the calls at return addresses. Each address is looked up once.
pub struct Symbols<'a> {
    modules: &'a [Module],
    stacks: &'a Stacks,
    folders: &'a DebugFolders,
    files: FxHashMap<u32, Option<ObjectFile>>,
    states: Vec<Option<ModuleState>>,
    frames: Vec<Frame>,
    indices: FxHashMap<Frame, u32>,
    sites: FxHashMap<u32, Vec<u32>>,
    /// The frames of tail calls, by the site of the call and by what was called from them.
    tails: FxHashMap<(u32, Next), Vec<u32>>,
}

struct ObjectFile {
    /// The debug information, or the symbol table of the object file.
    loader: Loader,
    /// Offset in the file, length, address when loaded.
    segments: Vec<(u64, u64, u64)>,
    /// Address, size and name of the object file's functions, by address.
    functions: Vec<(u64, u64, String)>,
    code: Code,
}

impl<'a> Symbols<'a> {
    /// No file is read before the first address of its module is looked up.
    pub fn new(
        modules: &'a [Module],
        stacks: &'a Stacks,
        folders: &'a DebugFolders,
    ) -> Symbols<'a> {
        Symbols {
            modules,
            stacks,
            folders,
            files: FxHashMap::default(),
            states: vec![None; modules.len()],
            frames: Vec::new(),
            indices: FxHashMap::default(),
            sites: FxHashMap::default(),
            tails: FxHashMap::default(),
        }
    }

    /// The calls at a site, innermost first, as indices of frames: several where functions were
    /// inlined. `site` is an index into the sites of the stacks.
    pub fn frames_at(&mut self, site: u32) -> &[u32] {
        if !self.sites.contains_key(&site) {
            let mut found = self.recorded(self.stacks.names_of(site));
            if found.is_empty() {
                let place = self.stacks.sites.get(site as usize).copied();
                found = place.map(|place| self.look_up(place)).unwrap_or_default();
            }
            let indices = found.into_iter().map(|frame| self.intern(frame)).collect();
            self.sites.insert(site, indices);
        }
        self.sites.get(&site).map_or(&[], Vec::as_slice)
    }

    /// The calls of a stack, innermost first, as indices of frames. `stack` is an index into the
    /// nodes of the stacks.
    pub fn frames_of_stack(&mut self, stack: u32) -> Vec<u32> {
        let mut frames = Vec::new();
        let stacks = self.stacks;
        let mut inner = None;
        for site in stacks.walk_indices(stack) {
            self.frames_at(site);
            frames.extend_from_slice(self.tail_calls(site, inner));
            frames.extend_from_slice(self.frames_at(site));
            inner = Some(site);
        }
        frames
    }

    /// The functions that were entered by the call of a site, and left by a jump to the code of the
    /// site `inner`; None: to the allocator. The frames of the site are known.
    fn tail_calls(&mut self, site: u32, inner: Option<u32>) -> &[u32] {
        let place = |site: u32| self.stacks.sites.get(site as usize).copied();
        let Some((module, back)) = place(site) else { return &[] };
        let file = u32::try_from(module).ok().and_then(|module| self.files.get(&module));
        let Some(file) = file.and_then(Option::as_ref) else { return &[] };
        let next = match inner.map(place) {
            None => Next::Allocator,
            Some(Some((other, offset))) if other == module => match file.address(offset) {
                // The call instruction ends at the return address.
                Some(address) => Next::Here(address.wrapping_sub(1)),
                None => Next::Elsewhere,
            },
            Some(_) => Next::Elsewhere,
        };
        if !self.tails.contains_key(&(site, next)) {
            let name = self.modules.get(module as usize).map_or("", |one| file_name(&one.path));
            let back = file.address(back).unwrap_or_default();
            let jumps = file.code.jumps(&file.functions, back, next);
            let found: Vec<Frame> = jumps.iter().flat_map(|at| file.frames_of(*at, name)).collect();
            let indices = found.into_iter().map(|frame| self.intern(frame)).collect();
            self.tails.insert((site, next), indices);
        }
        self.tails.get(&(site, next)).map_or(&[], Vec::as_slice)
    }

    /// Whether a name in the recording, or a function of one of its object files, is wanted. The
    /// second argument is false for a name without namespaces and parameters, from the debug
    /// information.
    pub fn defines(&self, wanted: &dyn Fn(&str, bool) -> bool) -> bool {
        let is_named = self.stacks.names.iter().any(|name| wanted(&name.function, true));
        let has = |module: &Module| {
            let files = self.folders.find(module);
            files.is_ok_and(|files| functions::defines(&files, wanted).unwrap_or(false))
        };
        is_named || self.modules.iter().any(has)
    }

    /// A frame, by its index.
    pub fn frame(&self, index: u32) -> &Frame {
        &self.frames[index as usize]
    }

    /// All frames, and what is known about each module; None if no stack passed through it.
    pub(crate) fn finish(self) -> (Vec<Frame>, Vec<Option<ModuleState>>) {
        (self.frames, self.states)
    }

    fn intern(&mut self, frame: Frame) -> u32 {
        if let Some(index) = self.indices.get(&frame) {
            return *index;
        }
        let index = self.frames.len() as u32;
        self.frames.push(frame.clone());
        self.indices.insert(frame, index);
        index
    }

    /// The frames of names in the recording.
    fn recorded(&self, names: &[NamedCall]) -> Vec<Frame> {
        let frames = names.iter().enumerate().map(|(index, name)| {
            let module = name.module.and_then(|module| self.modules.get(module as usize));
            let module = module.map_or("", |module| file_name(&module.path));
            let function = if name.function.is_empty() { module } else { &name.function };
            let file = Some(name.file.as_str()).filter(|file| !file.is_empty());
            let place = file.map(|file| (file, name.line));
            let inlined = index + 1 < names.len();
            Frame { inlined, ..frame(function, None, place, module) }
        });
        frames.collect()
    }

    fn look_up(&mut self, (module, offset): (i64, u64)) -> Vec<Frame> {
        let found = u32::try_from(module).ok();
        let found = found.and_then(|index| Some((index, self.modules.get(index as usize)?)));
        let Some((index, module)) = found else {
            let function = format!("{offset:#x}");
            return vec![Frame { function, ..Frame::default() }];
        };
        let (folders, states) = (self.folders, &mut self.states);
        let file = self.files.entry(index).or_insert_with(|| {
            let (file, state) = ObjectFile::open(module, folders);
            states[index as usize] = Some(state);
            file
        });
        let name = file_name(&module.path).to_owned();
        // The call instruction ends at the return address.
        let call = offset.saturating_sub(1);
        let mut frames = file.as_ref().map(|file| file.frames(call, &name)).unwrap_or_default();
        if frames.is_empty() {
            let function = format!("{name}+{offset:#x}");
            frames.push(Frame { function, module: name, ..Frame::default() });
        }
        for frame in &mut frames {
            frame.wrapper |= Function {
                name: &frame.function,
                file: Some(frame.file.as_str()).filter(|file| !file.is_empty()),
                module: &frame.module,
                is_rust: false,
            }
            .is_wrapper();
        }
        frames
    }
}

impl ObjectFile {
    fn open(module: &Module, folders: &DebugFolders) -> (Option<ObjectFile>, ModuleState) {
        let files = match folders.find(module) {
            Ok(files) => files,
            Err(state) => return (None, state),
        };
        match ObjectFile::read(&files) {
            Ok(file) => {
                let state = match files.debug {
                    Some(file) => ModuleState::Lines { file },
                    None => ModuleState::Functions,
                };
                (Some(file), state)
            }
            Err(detail) => (None, ModuleState::Unreadable { detail }),
        }
    }

    fn read(files: &Files) -> Result<ObjectFile, String> {
        let bytes = std::fs::read(&files.object).map_err(|error| error.to_string())?;
        let object = object::File::parse(&*bytes).map_err(|error| error.to_string())?;
        let segments = object.segments().map(|segment| {
            let (offset, length) = segment.file_range();
            (offset, length, segment.address())
        });
        let symbols = object.symbols().chain(object.dynamic_symbols());
        let mut functions: Vec<(u64, u64, String)> = symbols
            .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0)
            .filter_map(|symbol| {
                Some((symbol.address(), symbol.size(), symbol.name().ok()?.into()))
            })
            .collect();
        functions.sort_unstable();
        functions.dedup_by_key(|function| function.0);
        let debug = files.debug.as_ref().unwrap_or(&files.object);
        let loader = Loader::new_with_sup(debug, files.supplement.as_ref());
        let loader = loader.map_err(|error| error.to_string())?;
        let code = Code::read(&object);
        Ok(ObjectFile { segments: segments.collect(), functions, code, loader })
    }

    /// The calls at an offset in the file, innermost first; empty if nothing is known.
    fn frames(&self, call: u64, module: &str) -> Vec<Frame> {
        self.address(call).map(|at| self.frames_of(at, module)).unwrap_or_default()
    }

    /// The address of an offset in the file.
    fn address(&self, offset: u64) -> Option<u64> {
        let is_in = |(start, length, _): &&(u64, u64, u64)| {
            (*start..start.saturating_add(*length)).contains(&offset)
        };
        self.segments.iter().find(is_in).map(|(start, _, address)| offset - start + address)
    }

    /// As [`ObjectFile::frames`], at an address.
    fn frames_of(&self, at: u64, module: &str) -> Vec<Frame> {
        let mut frames = self.described(at, module);
        if frames.is_empty()
            && let Some(name) = self.symbol(at)
        {
            frames.push(frame(name, None, None, module));
        }
        // All but the outermost are inlined.
        for inner in frames.iter_mut().rev().skip(1) {
            inner.inlined = true;
        }
        frames
    }

    /// By the debug information.
    fn described(&self, at: u64, module: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        let Ok(mut found) = self.loader.find_frames(at) else { return frames };
        while let Ok(Some(one)) = found.next() {
            let place = one.location.and_then(|place| Some((place.file?, place.line.unwrap_or(0))));
            let (name, language) = match &one.function {
                Some(function) => (function.raw_name().ok().map(Into::into), function.language),
                // A file with lines but without functions.
                None => (self.symbol(at).map(str::to_owned), None),
            };
            let Some(name): Option<String> = name else { continue };
            frames.push(frame(&name, language, place, module));
        }
        frames
    }

    /// The function of the symbol table that contains the address.
    fn symbol(&self, at: u64) -> Option<&str> {
        let after = self.functions.partition_point(|function| function.0 <= at);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        (at - start < *size).then_some(name)
    }
}

fn frame(
    raw_name: &str,
    language: Option<gimli::DwLang>,
    place: Option<(&str, u32)>,
    module: &str,
) -> Frame {
    let demangled = demangle_auto(raw_name.into(), language);
    let is_rust = language == Some(gimli::DW_LANG_Rust)
        || raw_name.starts_with("_R")
        || without_hash(&demangled).is_some();
    let function = without_hash(&demangled).unwrap_or(&demangled).to_owned();
    let (file, line) = place.unwrap_or_default();
    let judged = Function { name: &function, file: place.map(|place| place.0), module, is_rust };
    let wrapper = judged.is_wrapper();
    let (file, module) = (file.to_owned(), module.to_owned());
    Frame { function, file, line, module, inlined: false, wrapper }
}

/// The name without the hash that Rust appends to it; None if it has none.
fn without_hash(name: &str) -> Option<&str> {
    let (rest, hash) = name.rsplit_once("::h")?;
    (hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(rest)
}
