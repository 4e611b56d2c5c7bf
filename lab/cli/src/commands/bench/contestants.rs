//! Who takes part: allocators by name and by path, Keel's variants, and allocators with settings.

use crate::commands::compare::places;
use crate::layout::Layout;
use anyhow::{Context as _, Result, bail};
use keel_allocators::{Allocator, FLOOR, Kind, Places};
use keel_workloads::{Contestant, Suite, Workload};
use std::path::PathBuf;

/// A folder of libraries that take part in addition, each by LD_PRELOAD.
const MORE: &str = "KEEL_BENCH_PEERS";
/// What `keel+warm` asks for: enough for the events of the latency contract that allocate new memory at once.
const WARM_BYTES: u64 = 32 << 20;

/// The contestants of a bench.
pub fn choose(
    names: &[String],
    named: &[String],
    layout: &Layout,
    workloads: &[Workload],
) -> Result<Vec<Contestant>> {
    let places = places(layout);
    let mut chosen: Vec<Contestant> = Vec::new();
    for name in names {
        for contestant in expand(name, &places, workloads)? {
            if chosen.iter().all(|one| one.name != contestant.name) {
                chosen.push(contestant);
            }
        }
    }
    for text in named {
        let contestant = with_settings(text, &places)?;
        if chosen.iter().any(|one| one.name == contestant.name) {
            bail!("two allocators are called `{}`: give --allocator another name", contestant.name);
        }
        chosen.push(contestant);
    }
    if let Some(missing) = chosen.iter().find(|one| one.allocator.unavailable.is_some()) {
        let reason = missing.allocator.unavailable.as_deref().unwrap_or_default();
        bail!("{} cannot be used: {reason}", missing.name);
    }
    if chosen.is_empty() {
        bail!("there is no allocator to measure; `keel allocators` lists what there is");
    }
    Ok(chosen)
}

fn expand(name: &str, places: &Places, workloads: &[Workload]) -> Result<Vec<Contestant>> {
    if let Some(variant) = variant(name) {
        return Ok(vec![variant(one_of(places, "keel")?)]);
    }
    let mut found: Vec<Contestant> = places.resolve(&[name.to_owned()])?.into_iter().map(plain).collect();
    // The floor of replay hands out memory without keeping it apart; workloads that look after their blocks need more.
    found.retain(|one| one.allocator.name != FLOOR);
    if name == "all" {
        let latency = workloads.iter().any(|one| one.suite == Suite::Latency);
        if let Some(place) = found.iter().position(|one| one.allocator.kind == Kind::Keel) {
            let keel = found[place].allocator.clone();
            if latency {
                found.insert(place + 1, warm(keel.clone()));
            }
            found.insert(place + 1, keeper(keel));
        }
        found.extend(more()?);
    }
    Ok(found)
}

type Variant = fn(Allocator) -> Contestant;

fn variant(name: &str) -> Option<Variant> {
    match name {
        "keel+keeper" => Some(keeper),
        "keel+warm" => Some(warm),
        _ => None,
    }
}

fn plain(allocator: Allocator) -> Contestant {
    Contestant { name: allocator.name.clone(), allocator, environment: Vec::new(), warm_bytes: 0 }
}

fn keeper(allocator: Allocator) -> Contestant {
    let environment = vec![("KEEL_KEEPER".to_owned(), "on".to_owned())];
    Contestant { name: "keel+keeper".to_owned(), environment, ..plain(allocator) }
}

fn warm(allocator: Allocator) -> Contestant {
    Contestant { name: "keel+warm".to_owned(), warm_bytes: WARM_BYTES, ..keeper(allocator) }
}

fn one_of(places: &Places, name: &str) -> Result<Allocator> {
    let mut found = places.resolve(&[name.to_owned()])?;
    if found.len() != 1 || name == FLOOR {
        bail!("`{name}` is not one allocator");
    }
    Ok(found.remove(0))
}

/// The libraries in the folder that the environment names, under their file names.
fn more() -> Result<Vec<Contestant>> {
    let Some(folder) = std::env::var_os(MORE).filter(|folder| !folder.is_empty()) else {
        return Ok(Vec::new());
    };
    let folder = PathBuf::from(folder);
    let entries = std::fs::read_dir(&folder)
        .with_context(|| format!("{MORE} names {}, which cannot be read", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "so"));
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let allocator = preloaded(&file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.push(Contestant { name, ..plain(allocator) });
    }
    Ok(found)
}

fn preloaded(file: &std::path::Path) -> Result<Allocator> {
    // A slash makes it a path, whatever it is called.
    let path = std::path::absolute(file).with_context(|| format!("cannot find {}", file.display()))?;
    let mut found = Places { library: PathBuf::new(), peers: PathBuf::new() }
        .resolve(&[path.to_string_lossy().into_owned()])?;
    Ok(found.remove(0))
}

/// `NAME=WHAT[,VARIABLE=VALUE...]`.
fn with_settings(text: &str, places: &Places) -> Result<Contestant> {
    let wrong = || format!("`{text}`: give NAME=PATH or NAME=ALLOCATOR, then perhaps ,VARIABLE=VALUE");
    let (name, rest) = text.split_once('=').with_context(wrong)?;
    let mut parts = rest.split(',');
    let what = parts.next().filter(|what| !what.is_empty()).with_context(wrong)?;
    let allocator = one_of(places, what)?;
    let mut environment = Vec::new();
    for setting in parts {
        let (variable, value) = setting.split_once('=').with_context(wrong)?;
        environment.push((variable.to_owned(), value.to_owned()));
    }
    if name.is_empty() {
        bail!(wrong());
    }
    Ok(Contestant { name: name.to_owned(), environment, ..plain(allocator) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn an_allocator_may_take_part_under_several_settings() {
        let places = Places { library: PathBuf::from("lib"), peers: PathBuf::from("peers") };
        let one = with_settings("huge=system,GLIBC_TUNABLES=glibc.malloc.hugetlb=1,A=", &places).unwrap();
        assert_eq!((one.name.as_str(), one.allocator.name.as_str()), ("huge", "system"));
        let expected = [("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"), ("A", "")];
        assert_eq!(
            one.environment,
            expected.map(|(variable, value)| (variable.to_owned(), value.to_owned()))
        );
        for wrong in ["system", "x=", "=system", "x=system,A", "x=nobody", "x=all"] {
            assert!(with_settings(wrong, &places).is_err(), "{wrong}");
        }
    }
}
