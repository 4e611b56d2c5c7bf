//! The allocators that a command line names.

use crate::layout::Layout;
use keel_allocators::{Allocator, Places};

/// The folders that hold the allocators.
pub fn places(layout: &Layout) -> Places {
    Places { library: layout.folder("lib"), peers: layout.folder("lib/keel/peers") }
}

/// The allocators that the specifications name. Each is checked before the first run, so that a
/// typing error is not discovered minutes into it. `None`: one is unknown or unusable, and stderr
/// has the reason.
pub fn chosen(layout: &Layout, specs: &[String]) -> Option<Vec<Allocator>> {
    let allocators = match places(layout).resolve(specs) {
        Ok(allocators) => allocators,
        Err(unknown) => {
            say!("keel: {unknown}");
            return None;
        }
    };
    for allocator in &allocators {
        if let Some(reason) = &allocator.unavailable {
            say!(
                "keel: {} cannot be used: {reason}; `keel allocators` lists those that can",
                allocator.name
            );
            return None;
        }
    }
    Some(allocators)
}
