//! Whether an object file has a function: one with a symbol, or one that the debug information
//! describes, because it is only inlined.

use crate::debug_files::Files;
use addr2line::{demangle_auto, gimli};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use std::borrow::Cow;
use std::path::Path;

/// See [`crate::Symbols::defines`]. None if a file cannot be read.
pub(crate) fn defines(files: &Files, wanted: &dyn Fn(&str, bool) -> bool) -> Option<bool> {
    if has_symbol(&files.object, wanted)? {
        return Some(true);
    }
    let debug = files.debug.as_ref().unwrap_or(&files.object);
    Some((debug != &files.object && has_symbol(debug, wanted)?) || describes(debug, wanted)?)
}

fn has_symbol(path: &Path, wanted: &dyn Fn(&str, bool) -> bool) -> Option<bool> {
    let bytes = std::fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let mut functions = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.is_definition());
    Some(functions.any(|symbol| {
        let name = symbol.name().unwrap_or_default();
        wanted(name, true) || wanted(&demangle_auto(name.into(), None), true)
    }))
}

/// Whether the debug information has a definition with this name.
fn describes(path: &Path, wanted: &dyn Fn(&str, bool) -> bool) -> Option<bool> {
    let bytes = std::fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let endian = if file.is_little_endian() {
        gimli::RunTimeEndian::Little
    } else {
        gimli::RunTimeEndian::Big
    };
    let section = |id: gimli::SectionId| -> Result<Cow<'_, [u8]>, gimli::Error> {
        let found = file.section_by_name(id.name());
        Ok(found.and_then(|section| section.uncompressed_data().ok()).unwrap_or_default())
    };
    let sections = gimli::DwarfSections::load(section).ok()?;
    let dwarf = sections.borrow(|bytes| gimli::EndianSlice::new(bytes, endian));
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let mut entries = unit.entries();
        while let Ok(Some((_, entry))) = entries.next_dfs() {
            let is_function = entry.tag() == gimli::DW_TAG_subprogram
                && matches!(entry.attr_value(gimli::DW_AT_declaration), Ok(None));
            let name = entry.attr_value(gimli::DW_AT_name).ok().flatten().filter(|_| is_function);
            let name = name.and_then(|name| dwarf.attr_string(&unit, name).ok());
            if name.is_some_and(|name| wanted(&name.to_string_lossy(), false)) {
                return Some(true);
            }
        }
    }
    Some(false)
}
