//! Dependencies between the crates of the repository: downward only.

use crate::Findings;
use crate::layers::Layers;
use anyhow::{Context as _, Result};
use std::path::Path;

/// Checks the manifest of every crate under `lab/`. Dev-dependencies are not restricted.
pub fn check(root: &Path, layers: &Layers) -> Result<Findings> {
    let mut findings = Findings::new();
    for entry in std::fs::read_dir(root.join("lab")).context("lab/")? {
        let folder = entry?.path();
        let Ok(text) = std::fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let manifest: toml::Table =
            text.parse().with_context(|| format!("lab/{name}/Cargo.toml"))?;
        findings.extend(check_manifest(&name, &manifest, layers));
    }
    findings.sort();
    Ok(findings)
}

fn check_manifest(name: &str, manifest: &toml::Table, layers: &Layers) -> Findings {
    let from = format!("lab/{name}/Cargo.toml");
    let by_system = manifest.get("target").and_then(toml::Value::as_table).into_iter().flatten();
    let all = by_system.filter_map(|(_, tables)| tables.as_table()).chain([manifest]);
    let tables = all.flat_map(|all| [all.get("dependencies"), all.get("build-dependencies")]);
    let keys = tables.flatten().filter_map(toml::Value::as_table).flat_map(toml::Table::keys);
    let ours = keys.filter_map(|key| key.strip_prefix("keel-"));
    ours.filter_map(|other| {
        layers.objection(Path::new(&from), Path::new(&format!("lab/{other}/Cargo.toml")))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    #[test]
    fn a_crate_that_uses_one_above_it_is_found() {
        let layers = Layers::parse("lab/journal\nlab/cli\n").unwrap();
        let upward: toml::Table =
            "[dependencies]\nkeel-cli.workspace = true\nserde = \"1\"".parse().unwrap();
        let found = check_manifest("journal", &upward, &layers);
        assert_eq!(
            found,
            vec!["lab/journal/Cargo.toml may not use lab/cli: it is above lab/journal"]
        );
        let on_linux: toml::Table =
            "[target.'cfg(unix)'.dependencies]\nkeel-cli.workspace = true".parse().unwrap();
        assert_eq!(check_manifest("journal", &on_linux, &layers), found);
        let downward: toml::Table =
            "[dependencies]\nkeel-journal.workspace = true".parse().unwrap();
        assert!(check_manifest("cli", &downward, &layers).is_empty());
    }
}
