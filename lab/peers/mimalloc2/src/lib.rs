//! mimalloc's second generation as a peer. It has the functions of the third and uses its shim;
//! only the feature in Cargo.toml differs. It must be a separate package, because Cargo would unite
//! the two features in one build graph.

#[path = "../../mimalloc/src/lib.rs"]
mod shim;
