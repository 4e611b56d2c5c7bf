//! The parts of a check that run something need Linux. A finished journal can be checked without.

use super::{Arguments, Recording};
use crate::commands::NeedsLinux;
use anyhow::{Result, bail};
use keel_check::{Budget, Checked, Gate, GateResult, Kernel};
use keel_journal::Reader;
use std::path::{Path, PathBuf};

/// Fails.
pub fn recorded(_: &Arguments, _: PathBuf, _: bool) -> Result<Recording> {
    bail!(NeedsLinux("keel check of a program"))
}

pub mod kernel {
    use super::*;

    /// None; fails if a limit needs a replay.
    pub fn measure(
        budget: &Budget,
        _: (&Path, &Reader),
        _: &Path,
    ) -> Result<Option<(Vec<Kernel>, String)>> {
        if super::super::counts_kernel(budget) {
            bail!(NeedsLinux("a limit of page faults or system calls"));
        }
        Ok(None)
    }
}

pub mod gates {
    use super::*;

    /// Nothing; fails if there is a limit on latency.
    pub fn measure(
        gates: &[Gate],
        _: &Path,
        _: Option<&Path>,
        _: &Path,
    ) -> Result<Vec<GateResult>> {
        if !gates.is_empty() {
            bail!(NeedsLinux("a limit on latency"));
        }
        Ok(Vec::new())
    }
}

pub mod worst {
    use super::*;

    /// Fails.
    pub fn measure(_: &mut Checked, _: (&Path, &Reader), _: &str, _: &Path) -> Result<()> {
        bail!(NeedsLinux("keel check --worst"))
    }
}
