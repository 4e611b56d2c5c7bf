//! Allocators that a program contains. The recorder replaces functions that the program takes from
//! libraries. It must change those that the program has itself, so this module finds them in the
//! program's file, by their symbols, and prepares the changes (`journal/patches.h`).

mod code;
pub mod patch;

use self::code::Function;
use self::patch::Patch;
use crate::Error;
use crate::program::{Elf, Mapped, not_recordable};
use object::elf;
use object::read::elf::{FileHeader as _, ProgramHeader as _, Sym as _};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;

/// Where the recorder's library states the names of the functions that it can record.
const NAMES: &[u8] = b"kl_record_names";

/// The changes of a program.
#[derive(Debug, Default)]
pub struct Contained {
    pub patches: Vec<Patch>,
    /// Why functions that keel found are not recorded.
    pub note: Option<String>,
}

/// Texts that only these allocators contain.
const TEXTS: [(&str, &[u8]); 3] = [
    ("jemalloc", b"<jemalloc>: "),
    ("mimalloc", b"mimalloc: "),
    ("TCMalloc", b"tcmalloc: large alloc"),
];

/// What the user should know about a program in which no function was found because its file has no
/// symbols.
pub fn without_symbols(program: &Path) -> Option<String> {
    use object::{Object as _, ObjectSection as _};
    let file = Mapped::open(program).ok()?;
    let object = object::File::parse(file.bytes()).ok()?;
    if object.symbols().next().is_some() {
        return None;
    }
    let constants = object.section_by_name(".rodata")?.data().ok()?;
    let contains = |text: &[u8]| memchr::memmem::find(constants, text).is_some();
    let (name, _) = TEXTS.iter().find(|(_, text)| contains(text))?;
    let program = program.display();
    Some(format!(
        "{program} seems to contain {name}, but it is stripped: without the names of its functions \
         keel cannot record their calls. Record a build with symbols (for Rust: strip = false)"
    ))
}

/// Finds the allocator in the program, if its file has the names of the functions. `recorder`: the
/// recorder's library.
///
/// # Errors
/// [`Error::NotRecordable`] if the program exports its own malloc, and the recorder could not see
/// its calls.
pub fn find(program: &Path, recorder: &Path) -> Result<Contained, Error> {
    let file = Mapped::open(program)?;
    let broken = |error: object::Error| not_recordable(program, error.to_string());
    let names = Names::read(recorder)?;
    let mut program_file = Program::read(&file, &names).map_err(broken)?;
    if program_file.found.is_empty() {
        return Ok(Contained::default());
    }
    let exports_malloc = program_file.choose(&names);
    let starts = program_file.starts().map_err(broken)?;
    let mut contained = Contained::default();
    // The functions of malloc's family, and the allocator's own, are two groups: if one of a group
    // cannot be changed, blocks would be allocated and never freed, or freed and never allocated.
    for is_family in [true, false] {
        let group = program_file.patches(&names, &starts, is_family);
        match group {
            Ok(patches) => contained.patches.extend(patches),
            Err((name, reason)) if is_family && exports_malloc => {
                return Err(not_recordable(
                    program,
                    format!(
                        "it exports its own malloc, and keel cannot get the calls of its \
                         function {name}: {reason}. Build it without that allocator to record \
                         it, or let it report its allocations itself (keel/recorder.h) and \
                         record it with --embedded"
                    ),
                ));
            }
            Err((name, reason)) => {
                contained.note = Some(format!(
                    "the allocator in {} is not recorded: keel cannot get the calls of its \
                     function {name}: {reason}",
                    program.display()
                ));
            }
        }
    }
    Ok(contained)
}

/// The names that the recorder knows, by their indexes (`recorder/names.h`).
struct Names {
    indexes: FxHashMap<Vec<u8>, u32>,
    /// The indexes of malloc's family, and of C++'s operators.
    family: std::ops::Range<u32>,
}

impl Names {
    fn read(recorder: &Path) -> Result<Names, Error> {
        use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
        let file = Mapped::open(recorder)?;
        let fail = || not_recordable(recorder, "it is not the recorder of this keel".to_owned());
        let library = object::File::parse(file.bytes()).map_err(|_| fail())?;
        let symbol = library.dynamic_symbols().find(|one| one.name_bytes() == Ok(NAMES));
        let symbol = symbol.ok_or_else(fail)?;
        let text = symbol.section_index().and_then(|section| {
            let section = library.section_by_index(section).ok()?;
            section.data_range(symbol.address(), symbol.size()).ok()?
        });
        let all: Vec<&[u8]> = text.ok_or_else(fail)?.split(|byte| *byte == 0).collect();
        let mut groups = all.iter().zip(0..).filter(|(name, _)| name.is_empty());
        let family = groups.next().map_or(0, |(_, at)| at)..groups.next().map_or(0, |(_, at)| at);
        let indexes = all.iter().zip(0..).filter(|(name, _)| !name.is_empty());
        let indexes = indexes.map(|(name, index)| (name.to_vec(), index)).collect();
        Ok(Names { indexes, family })
    }

    /// The functions that the recorder only calls come last.
    fn is_called(&self, index: u32) -> bool {
        index > self.family.end
    }
}

/// A function of the program that the recorder knows.
struct Found {
    name: Vec<u8>,
    index: u32,
    address: u64,
    size: u64,
    /// Chosen when the program is loaded, so that its code is not known.
    is_chosen: bool,
    is_exported: bool,
    /// Another source file of the program may have a function of the same name.
    is_static: bool,
}

type Table<'a> = object::read::elf::SymbolTable<'a, elf::FileHeader64<object::Endianness>>;

struct Program<'a> {
    data: &'a [u8],
    device: u64,
    inode: u64,
    endian: object::Endianness,
    tables: Vec<Table<'a>>,
    segments: &'a [elf::ProgramHeader64<object::Endianness>],
    found: Vec<Found>,
}

impl<'a> Program<'a> {
    fn read(file: &'a Mapped, names: &Names) -> Result<Program<'a>, object::Error> {
        let data = file.bytes();
        let header = Elf::parse(data)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, data)?;
        let segments = header.program_headers(endian, data)?;
        let dynamic = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
        let tables = vec![dynamic, sections.symbols(endian, data, elf::SHT_SYMTAB)?];
        let (device, inode) = file.identity();
        let mut program =
            Program { data, device, inode, endian, tables, segments, found: Vec::new() };
        program.look_for(names, b"", b"");
        if let Some(prefix) = program.jemalloc_prefix() {
            program.look_for(names, &prefix, b"je_");
        }
        Ok(program)
    }

    /// Looks for the known names, with the first beginning instead of the second.
    fn look_for(&mut self, names: &Names, beginning: &[u8], known: &[u8]) {
        for (is_exported, table) in [true, false].into_iter().zip(&self.tables) {
            for symbol in table.iter() {
                let kind = symbol.st_type();
                if !matches!(kind, elf::STT_FUNC | elf::STT_GNU_IFUNC)
                    || symbol.is_undefined(self.endian)
                {
                    continue;
                }
                let Ok(name) = symbol.name(self.endian, table.strings()) else { continue };
                let Some(rest) = name.strip_prefix(beginning) else { continue };
                // Most names of large programs are those of C++ and Rust.
                let is_mangled =
                    rest.starts_with(b"_Z") && !matches!(rest.get(2), Some(b'n' | b'd'));
                if is_mangled || rest.starts_with(b"_R") {
                    continue;
                }
                let index = if known.is_empty() {
                    names.indexes.get(rest)
                } else {
                    names.indexes.get(&[known, rest].concat())
                };
                let Some(index) = index else { continue };
                let is_hidden = symbol.st_visibility() == elf::STV_HIDDEN;
                self.found.push(Found {
                    name: name.to_vec(),
                    index: *index,
                    address: symbol.st_value(self.endian),
                    size: symbol.st_size(self.endian),
                    is_chosen: kind == elf::STT_GNU_IFUNC,
                    is_exported,
                    is_static: symbol.st_bind() == elf::STB_LOCAL && !is_hidden,
                });
            }
        }
    }

    /// The beginning of jemalloc's names, which each program can choose, if it is not a known one.
    fn jemalloc_prefix(&self) -> Option<Vec<u8>> {
        if self.found.iter().any(|one| one.name.ends_with(b"mallocx")) {
            return None;
        }
        let beginnings = |end: &'static [u8]| {
            let symbols = self.tables.iter().flat_map(|table| {
                table.iter().map(|symbol| (symbol, symbol.name(self.endian, table.strings())))
            });
            symbols.filter_map(move |(symbol, name)| {
                let beginning = name.ok()?.strip_suffix(end)?;
                (!symbol.is_undefined(self.endian)).then_some(beginning)
            })
        };
        let found = beginnings(b"mallocx").next()?;
        beginnings(b"sdallocx").any(|other| other == found).then(|| found.to_vec())
    }

    /// Leaves one function for each name and each address. Returns whether the program exports
    /// malloc.
    fn choose(&mut self, names: &Names) -> bool {
        let is_family = |one: &Found| names.family.contains(&one.index);
        self.found.retain(|one| !(is_family(one) && one.is_static));
        // Operators that allocate with another malloc are recorded there.
        let has = |name: &[u8]| self.found.iter().any(|one| one.name == name);
        let is_whole = has(b"malloc") && has(b"free");
        let exports = self.found.iter().any(|one| one.is_exported && one.name == b"malloc");
        self.found.retain(|one| is_whole || !is_family(one));
        // Of several names of a function, malloc's family comes first, and the one with the fewest
        // arguments: the linker may have merged a sized delete that ignores the size with free.
        self.found.sort_by_key(|one| {
            let is_operator = one.name.starts_with(b"_Z");
            (!is_family(one), is_operator, one.name.len(), one.name.clone(), !one.is_exported)
        });
        let (mut addresses, mut indexes) = (BTreeMap::new(), BTreeMap::new());
        self.found.retain(|one| {
            let is_first = addresses.insert(one.address, ()).is_none();
            is_first && indexes.insert(one.index, ()).is_none()
        });
        exports
    }

    /// Where functions and data begin.
    fn starts(&self) -> Result<Vec<u64>, object::Error> {
        let mut starts: Vec<u64> = self
            .tables
            .iter()
            .flat_map(|table| table.iter())
            .filter(|symbol| !symbol.is_undefined(self.endian))
            .map(|symbol| symbol.st_value(self.endian))
            .collect();
        starts.sort_unstable();
        starts.dedup();
        Ok(starts)
    }

    /// The changes of one group of functions, or the name of one that cannot be changed and why.
    fn patches(
        &self,
        names: &Names,
        starts: &[u64],
        is_family: bool,
    ) -> Result<Vec<Patch>, (String, String)> {
        let group = self.found.iter().filter(|one| names.family.contains(&one.index) == is_family);
        let patch = |one: &Found| {
            let fail = |reason: String| (String::from_utf8_lossy(&one.name).into_owned(), reason);
            if one.is_chosen {
                let reason = "the processor's features select its code (IFUNC)";
                return Err(fail(reason.to_owned()));
            }
            let (function, offset) = self
                .function(one, starts)
                .ok_or_else(|| fail("its code is not in the file".to_owned()))?;
            let moved = (!names.is_called(one.index)).then(|| code::relocate(&function));
            Ok(Patch {
                device: self.device,
                inode: self.inode,
                function: one.address,
                offset,
                name: one.index,
                moved: moved.transpose().map_err(fail)?,
            })
        };
        group.map(patch).collect()
    }

    /// The bytes of a function, and its place in the file.
    fn function(&self, one: &Found, starts: &[u64]) -> Option<(Function<'a>, u64)> {
        /// The linker aligns functions to at most so many bytes.
        const PADDING_MAX: u64 = 64;
        let segment = self.segments.iter().find(|segment| {
            let start = segment.p_vaddr(self.endian);
            let is_code = segment.p_flags(self.endian) & elf::PF_X != 0;
            let end = start.saturating_add(segment.p_filesz(self.endian));
            segment.p_type(self.endian) == elf::PT_LOAD
                && is_code
                && (start..end).contains(&one.address)
        })?;
        let start = segment.p_vaddr(self.endian);
        let end = start + segment.p_filesz(self.endian);
        let next = starts.partition_point(|start| *start <= one.address);
        let next = starts.get(next).copied().unwrap_or(end).min(end);
        // A symbol in the middle of a function may be the target of a jump.
        let size = if one.size == 0 { next - one.address } else { one.size };
        let size = size.min(end - one.address);
        let limit = next.max(one.address + size).min(one.address + size + PADDING_MAX);
        let offset = segment.p_offset(self.endian) + (one.address - start);
        let bytes = |from: u64, to: u64| {
            let at = |address: u64| usize::try_from(offset + (address - one.address)).ok();
            self.data.get(at(from)?..at(to)?)
        };
        let bytes_of_function = bytes(one.address, one.address + size)?;
        let padding = bytes(one.address + size, limit)?;
        let function = Function { address: one.address, bytes: bytes_of_function, padding, next };
        Some((function, offset))
    }
}
