//! Holds the features of shared dependencies together; see its `Cargo.toml`.
