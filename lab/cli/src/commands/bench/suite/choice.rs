//! The workloads and the allocators of a suite.

use super::super::contestants;
use super::Request;
use crate::layout::Layout;
use anyhow::{Result, bail};
use keel_workloads::Contestant;
use keel_workloads::suite::{Catalogue, Entrant, SUITES};
use std::path::PathBuf;

/// The requested workloads that can run here.
pub fn workloads(request: &Request, layout: &Layout) -> Result<Catalogue> {
    let requested: Vec<String> = match request.suites.iter().any(|name| name == "all") {
        true => Vec::new(),
        false => request.suites.clone(),
    };
    let suites = suites(&requested, &request.journals)?;
    let folder = layout.private("keel-overseer")?;
    let folder = folder.parent().map_or_else(PathBuf::new, PathBuf::from);
    for journal in &request.journals {
        if !journal.is_file() {
            bail!("{} is not a file: give the path of a journal", journal.display());
        }
    }
    let mut catalogue =
        Catalogue::read(&folder, &suites, &request.journals).map_err(anyhow::Error::msg)?;
    let single: Vec<&String> = requested.iter().filter(|name| name.contains('/')).collect();
    for name in &single {
        if !catalogue.cases.iter().any(|case| case.workload.key() == **name) {
            let suite = name.split('/').next().unwrap_or_default();
            let known = catalogue.cases.iter().filter(|case| case.workload.suite == suite);
            let known: Vec<&str> = known.map(|case| case.workload.name.as_str()).collect();
            bail!("there is no workload `{name}` here; {suite} has {}", known.join(", "));
        }
    }
    catalogue.cases.retain(|case| {
        let (suite, key) = (&case.workload.suite, case.workload.key());
        requested.is_empty()
            || requested.contains(suite)
            || suite == "journals"
            || single.iter().any(|name| **name == key)
    });
    if request.quick && single.is_empty() {
        catalogue.shorten();
    }
    if request.suites.is_empty() && !request.quick {
        catalogue.leave_usual();
    }
    if catalogue.cases.is_empty() {
        bail!("no workload of {} can run here", suites.join(", "));
    }
    Ok(catalogue)
}

/// The suites to list, in the order of tables.
fn suites(requested: &[String], journals: &[PathBuf]) -> Result<Vec<String>> {
    for name in requested {
        let suite = name.split('/').next().unwrap_or_default();
        if !SUITES.contains(&suite) {
            bail!("there is no suite `{suite}`; the suites are all, {}", SUITES.join(", "));
        }
    }
    let wanted = |suite: &&str| {
        let named = |name: &String| name == *suite || name.starts_with(&format!("{suite}/"));
        requested.iter().any(named)
            || *suite == "journals" && !journals.is_empty()
            || requested.is_empty() && *suite != "journals"
    };
    let chosen: Vec<String> = SUITES.into_iter().filter(wanted).map(str::to_owned).collect();
    if journals.is_empty() && chosen.iter().any(|suite| suite == "journals") {
        bail!("the suite `journals` needs at least one journal: add --journal FILE");
    }
    Ok(chosen)
}

/// The requested allocators, each with the variables that give it to a program.
pub fn entrants(request: &Request, layout: &Layout) -> Result<Vec<Entrant>> {
    let bridge = layout.private("libkeel_bridge.so")?;
    let all = vec!["all".to_owned()];
    let specs = if request.specs.is_empty() { &all } else { &request.specs };
    let mut chosen = contestants::choose(specs, layout, &[])?;
    if specs.contains(&"all".to_owned()) {
        // Programs of any size get a keeper by default, so that this is nearly the same as keel.
        let usual = |one: &Contestant| {
            one.name() != "keel+keeper"
                && !(request.quick && one.allocator.remark.contains("one lock"))
        };
        chosen.retain(|one| usual(one) || specs.contains(&one.name().to_owned()));
    }
    if let Some(warm) = chosen.iter().find(|one| one.warm_bytes > 0) {
        bail!("{} cannot be used here: a program does not call kl_warm", warm.name());
    }
    let mut entrants = Vec::new();
    for contestant in chosen {
        let allocator = contestant.allocator;
        let Some(environment) = allocator.program_environment(&bridge) else { continue };
        entrants.push(Entrant { allocator, environment });
    }
    Ok(entrants)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn suites_are_named_alone_or_with_a_workload() {
        let names = |words: &[&str], journals: &[PathBuf]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            suites(&words, journals).map_err(|error| error.to_string())
        };
        assert_eq!(names(&[], &[]).unwrap(), ["synthetic", "patterns", "real"]);
        assert_eq!(names(&[], &["a".into()]).unwrap().len(), 4);
        assert_eq!(names(&["patterns/tree"], &[]).unwrap(), ["patterns"]);
        assert!(names(&["pattern"], &[]).unwrap_err().contains("the suites are all, synthetic"));
        assert!(names(&["journals"], &[]).unwrap_err().contains("--journal FILE"));
    }
}
