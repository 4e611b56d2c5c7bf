//! mimalloc's second generation, as a peer. Its functions are those of the third, so its shim is too; only the feature
//! in Cargo.toml differs, and that is why it must be a package of its own: in one build graph the two features unite.

#[path = "../../mimalloc/src/lib.rs"]
mod shim;
