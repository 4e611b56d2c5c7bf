//! Completes the modules of a trace from their object files: a trace has addresses in modules as
//! the linker assigned them, and no build ids, while a journal has offsets in the files.

use keel_journal::{Metadata, Module};
use object::{Object as _, ObjectSegment as _, ReadCache};
use std::fs::File;

/// A segment: its first address, the address after its last, and its offset in the file.
type Segment = (u64, u64, u64);

/// Converts the addresses of sites in modules to offsets in their files, and sets the build ids.
/// Where a file cannot be read, its addresses stay: in most files they equal the offsets.
pub(crate) fn locate(metadata: &mut Metadata) {
    let files: Vec<Vec<Segment>> = metadata.modules.iter_mut().map(describe).collect();
    for (module, offset) in &mut metadata.stacks.sites {
        let Some(segments) = usize::try_from(*module).ok().and_then(|module| files.get(module))
        else {
            continue;
        };
        // The call instruction ends at the return address.
        let call = offset.saturating_sub(1);
        let found = segments.iter().find(|(start, end, _)| (*start..*end).contains(&call));
        if let Some((start, _, in_file)) = found {
            *offset = (*offset - start).wrapping_add(*in_file);
        }
    }
}

/// Sets the module's build id and returns the segments of its file; none if it cannot be read.
fn describe(module: &mut Module) -> Vec<Segment> {
    // A pipe at this path would block.
    let is_file = std::fs::metadata(&module.path).is_ok_and(|status| status.is_file());
    let Some(file) = is_file.then(|| File::open(&module.path).ok()).flatten() else {
        return Vec::new();
    };
    let cache = ReadCache::new(file);
    let Ok(object) = object::File::parse(&cache) else { return Vec::new() };
    if let Ok(Some(id)) = object.build_id() {
        module.build_id = id.iter().map(|byte| format!("{byte:02x}")).collect();
    }
    let segments = object.segments().map(|segment| {
        let start = segment.address();
        (start, start.saturating_add(segment.size()), segment.file_range().0)
    });
    segments.collect()
}
