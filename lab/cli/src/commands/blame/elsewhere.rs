//! `keel blame --pinned` replays, so it needs Linux.

use super::{Arguments, When};
use crate::commands::NeedsLinux;
use anyhow::{Result, bail};
use keel_blame::Profile;

/// An allocator's resident memory: there is none without a replay.
pub enum Total {}

/// Fails.
pub fn run(_: &Arguments, _: When) -> Result<Option<(Profile, Vec<Total>)>> {
    bail!(NeedsLinux("keel blame --pinned"))
}

/// No totals, as text.
pub fn text(_: &[Total]) -> String {
    String::new()
}

/// No totals, as JSON.
pub fn json(_: &[Total]) -> serde_json::Value {
    serde_json::json!([])
}
