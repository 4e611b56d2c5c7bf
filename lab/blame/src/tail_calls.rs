//! Functions that are in no stack, because their last action was a jump to the next function (a
//! tail call). The call instruction before a return address names the function that was entered. If
//! the next call of the stack is not in this function, the function has left by a jump.
//!
//! ```text
//!   main    call grab        the stack:  malloc, main     grab was entered, and is added
//!   grab    jmp  malloc
//! ```
//!
//! Calls by a pointer and calls of other object files name no function, so their tail calls stay
//! unknown. Only code of x86-64 is read.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _};
use rustc_hash::FxHashMap;

/// Functions between two calls of a stack, at most.
const LONGEST: usize = 4;

/// Functions of the C and C++ libraries that the recorder intercepts.
const ALLOCATOR: [&str; 13] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "cfree",
    "free_sized",
    "free_aligned_sized",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
];

/// The machine code of an object file.
#[derive(Default)]
pub(crate) struct Code {
    sections: Vec<(u64, Vec<u8>)>,
    /// Addresses that the loader fills in with the address of a symbol of any object file.
    slots: FxHashMap<u64, String>,
}

/// Start, size and name of a function.
pub(crate) type Function = (u64, u64, String);

/// What was called from the functions that are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Next {
    /// A function of the allocator.
    Allocator,
    /// Code of another object file.
    Elsewhere,
    /// Code at this address of the same object file.
    Here(u64),
}

#[derive(Clone, PartialEq)]
enum Target<'a> {
    /// The index of a function.
    Own(usize),
    Other(&'a str),
}

impl Code {
    pub fn read(object: &object::File<'_>) -> Code {
        if object.architecture() != object::Architecture::X86_64 {
            return Code::default();
        }
        let text = object.sections().filter(|one| one.kind() == object::SectionKind::Text);
        let sections = text.filter_map(|one| Some((one.address(), one.data().ok()?.to_vec())));
        let mut slots = FxHashMap::default();
        let symbols = object.dynamic_symbol_table();
        for (address, relocation) in object.dynamic_relocations().into_iter().flatten() {
            if let (object::RelocationTarget::Symbol(index), Some(symbols)) =
                (relocation.target(), &symbols)
                && let Ok(name) = symbols.symbol_by_index(index).and_then(|symbol| symbol.name())
            {
                slots.insert(address, name.to_owned());
            }
        }
        Code { sections: sections.collect(), slots }
    }

    /// The addresses of the jumps of the functions that were entered by the call before the return
    /// address `back`, and left towards `next`. The innermost is first. `functions` is sorted.
    pub fn jumps(&self, functions: &[Function], back: u64, next: Next) -> Vec<u64> {
        let Some(target) = self.relative(back.wrapping_sub(5), &[0xe8]) else { return Vec::new() };
        let Some(Target::Own(entered)) = self.target(functions, target) else { return Vec::new() };
        let is_reached = |target: &Target<'_>| match (target, next) {
            (Target::Own(index), Next::Here(address)) => is_in(functions, *index, address),
            (Target::Other(name), Next::Allocator) => is_allocator(name),
            (Target::Other(_), Next::Elsewhere) => true,
            _ => false,
        };
        if is_reached(&Target::Own(entered)) {
            return Vec::new();
        }
        // Breadth first: the shortest chain of jumps.
        let mut chains: Vec<Vec<(usize, u64)>> = vec![vec![(entered, functions[entered].0)]];
        let mut known = vec![entered];
        for _ in 0..LONGEST {
            let mut longer = Vec::new();
            for chain in &chains {
                let Some((last, _)) = chain.last().copied() else { continue };
                let leaving = self.leaving(functions, last);
                let reaching: Vec<u64> = leaving
                    .iter()
                    .filter(|(_, target)| is_reached(target))
                    .map(|(at, _)| *at)
                    .collect();
                if let [first, others @ ..] = reaching.as_slice() {
                    // Which of several jumps was taken is unknown.
                    let at = if others.is_empty() { *first } else { functions[last].0 };
                    let outer = chain.iter().skip(1).map(|(_, at)| *at);
                    let mut jumps: Vec<u64> = outer.chain([at]).collect();
                    jumps.reverse();
                    return jumps;
                }
                for (at, target) in leaving {
                    if let Target::Own(index) = target
                        && !known.contains(&index)
                    {
                        known.push(index);
                        let mut chain = chain.clone();
                        chain.push((index, at));
                        longer.push(chain);
                    }
                }
            }
            chains = longer;
        }
        // It was entered in any case.
        vec![functions[entered].0]
    }

    /// The jumps of a function to the beginnings of others.
    fn leaving<'a>(&'a self, functions: &[Function], index: usize) -> Vec<(u64, Target<'a>)> {
        let (start, size, _) = &functions[index];
        let mut found = Vec::new();
        for at in *start..start.saturating_add(*size) {
            let target = self
                .relative(at, &[0xe9])
                .or_else(|| self.conditional(at))
                .or_else(|| self.short(at))
                .and_then(|target| self.target(functions, target))
                .or_else(|| self.through_slot(at).map(Target::Other));
            if let Some(target) = target.filter(|target| *target != Target::Own(index)) {
                found.push((at, target));
            }
        }
        found
    }

    /// A function that begins at the address, or the one to which the linker's stub there jumps.
    fn target<'a>(&'a self, functions: &[Function], address: u64) -> Option<Target<'a>> {
        if let Ok(index) = functions.binary_search_by_key(&address, |function| function.0) {
            return Some(Target::Own(index));
        }
        // endbr64, which processors that verify the targets of jumps need.
        let has_mark = self.bytes(address, 4) == Some(&[0xf3, 0x0f, 0x1e, 0xfa]);
        let at = if has_mark { address + 4 } else { address };
        self.through_slot(at).map(Target::Other)
    }

    /// `jmp *slot(%rip)`.
    fn through_slot(&self, at: u64) -> Option<&str> {
        let at = if self.bytes(at, 1) == Some(&[0xf2]) { at + 1 } else { at };
        self.slots.get(&self.relative(at, &[0xff, 0x25])?).map(String::as_str)
    }

    /// The end of the instruction plus its last four bytes, if it begins with `code`.
    fn relative(&self, at: u64, code: &[u8]) -> Option<u64> {
        let length = code.len() + 4;
        let bytes = self.bytes(at, length)?.strip_prefix(code)?;
        let distance = i32::from_le_bytes(bytes.try_into().ok()?);
        Some(at.wrapping_add(length as u64).wrapping_add_signed(distance.into()))
    }

    /// A jump on a condition.
    fn conditional(&self, at: u64) -> Option<u64> {
        let code = self.bytes(at, 2)?;
        (code[0] == 0x0f && code[1] & 0xf0 == 0x80).then(|| self.relative(at, code))?
    }

    /// A jump of less than 128 bytes.
    fn short(&self, at: u64) -> Option<u64> {
        let code = self.bytes(at, 2)?;
        let distance = i64::from(code[1].cast_signed());
        (code[0] == 0xeb).then(|| at.wrapping_add(2).wrapping_add_signed(distance))
    }

    fn bytes(&self, at: u64, length: usize) -> Option<&[u8]> {
        self.sections.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(at.checked_sub(*start)?).ok()?;
            bytes.get(from..from.checked_add(length)?)
        })
    }
}

/// Whether the address is in the function. The compiler moves rare parts of a function away, and
/// appends to their names, as in `grab.cold`.
fn is_in(functions: &[Function], index: usize, address: u64) -> bool {
    let after = functions.partition_point(|function| function.0 <= address);
    let Some((start, size, name)) = after.checked_sub(1).map(|index| &functions[index]) else {
        return false;
    };
    let whole = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    address - start < *size
        && (*start == functions[index].0 || whole(name) == whole(&functions[index].2))
}

fn is_allocator(name: &str) -> bool {
    // operator new and operator delete, with one block or an array.
    let is_operator =
        ["_Znw", "_Zna", "_Zdl", "_Zda"].iter().any(|prefix| name.starts_with(prefix));
    is_operator || ALLOCATOR.contains(&name)
}
