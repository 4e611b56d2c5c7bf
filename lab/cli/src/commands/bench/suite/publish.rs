//! `--publish`: a static site of several suites.

use crate::output;
use anyhow::{Context as _, Result, bail};
use keel_report::{Published, suite_page, suite_site};
use keel_results::{SUITE_FILE, Suite};
use std::path::Path;

/// Copies the suite into a folder of the site, and lists it.
pub fn publish(folder: &Path, site: &Path) -> Result<()> {
    let suite = Suite::load(folder)?;
    let own = site.join(name_of(&suite));
    std::fs::create_dir_all(&own).with_context(|| format!("cannot create {}", own.display()))?;
    for file in [SUITE_FILE, "runs.jsonl", "suite.md", "runs.parquet"] {
        let contents = std::fs::read(folder.join(file))
            .with_context(|| format!("cannot read {}", folder.join(file).display()))?;
        output::write_whole(&own.join(file), &contents)?;
    }
    list(site)
}

/// Writes the site's list and pages anew, from all folders in it that hold a suite. Folders that
/// cannot be read are named and left out.
pub fn list(site: &Path) -> Result<()> {
    let mut published = Vec::new();
    let entries =
        std::fs::read_dir(site).with_context(|| format!("cannot read {}", site.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if !path.join(SUITE_FILE).is_file() {
            continue;
        }
        let suite = match Suite::load(&path) {
            Ok(suite) => suite,
            Err(error) => {
                say!("keel: {} is left out of the site: {error}", path.display());
                continue;
            }
        };
        output::write_whole(&path.join("index.html"), suite_page(&suite).as_bytes())?;
        let folder = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        published.push(Published { folder, suite });
    }
    if published.is_empty() {
        bail!("{} has no folder with the results of a suite", site.display());
    }
    let page = site.join("index.html");
    output::write_whole(&page, suite_site(&published).as_bytes())?;
    let results = if published.len() == 1 { "result" } else { "results" };
    say!("suite: {} {results} on the site {}", published.len(), page.display());
    Ok(())
}

/// The time of the start and the processor: the same for every copy of a suite.
fn name_of(suite: &Suite) -> String {
    let text = format!("{} {}", suite.head.started, suite.head.machine.cpu).to_lowercase();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_folder_is_named_by_start_and_processor() {
        let mut suite = Suite::default();
        suite.head.started = "2026-11-22T10:00:05Z".to_owned();
        suite.head.machine.cpu = "Intel(R) Xeon(R) @ 2.10GHz".to_owned();
        assert_eq!(name_of(&suite), "2026-11-22t10-00-05z-intel-r-xeon-r-2-10ghz");
    }
}
