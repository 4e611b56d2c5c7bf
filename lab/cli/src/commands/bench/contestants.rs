//! The contestants of a bench: allocators by name and by path, Keel's variants, and allocators with
//! settings.

use crate::layout::Layout;
use crate::selection::places;
use anyhow::{Context as _, Result, bail};
use keel_allocators::{Allocator, FLOOR, Kind, Places};
use keel_workloads::{Contestant, Suite, Workload};
use std::path::PathBuf;

/// Environment variable with a folder of additional libraries, each used by LD_PRELOAD.
const MORE: &str = "KEEL_BENCH_PEERS";
/// The bytes that `keel+warm` warms: enough for the workloads of the latency contract that allocate
/// new memory at once.
const WARM_BYTES: u64 = 32 << 20;

/// The contestants of a bench, from specifications in the syntax of [`keel_allocators::Spec`] and
/// Keel's variants.
pub fn choose(
    specs: &[String],
    layout: &Layout,
    workloads: &[Workload],
) -> Result<Vec<Contestant>> {
    let places = places(layout);
    let mut chosen: Vec<Contestant> = Vec::new();
    for spec in specs {
        for contestant in expand(spec, &places, workloads)? {
            match chosen.iter().find(|one| one.name() == contestant.name()) {
                None => chosen.push(contestant),
                Some(same) if same.allocator == contestant.allocator => {}
                Some(_) => {
                    bail!(
                        "two allocators have the name `{}`: add a label, LABEL={spec}",
                        contestant.name()
                    )
                }
            }
        }
    }
    if let Some(missing) = chosen.iter().find(|one| one.allocator.unavailable.is_some()) {
        let reason = missing.allocator.unavailable.as_deref().unwrap_or_default();
        bail!("{} cannot be used: {reason}", missing.name());
    }
    if chosen.is_empty() {
        bail!("there is no allocator to measure; `keel allocators` lists the available ones");
    }
    Ok(chosen)
}

fn expand(spec: &str, places: &Places, workloads: &[Workload]) -> Result<Vec<Contestant>> {
    if let Some(variant) = variant(spec) {
        return Ok(places.resolve(&["keel".to_owned()])?.into_iter().map(variant).collect());
    }
    let mut found: Vec<Contestant> =
        places.resolve(&[spec.to_owned()])?.into_iter().map(plain).collect();
    // The floor of replay returns overlapping blocks; workloads that check their blocks cannot use
    // it.
    found.retain(|one| one.allocator.name != FLOOR);
    if spec == "all" {
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
    Contestant { allocator, warm_bytes: 0 }
}

fn keeper(allocator: Allocator) -> Contestant {
    let environment = vec![("KEEL_KEEPER".to_owned(), "on".to_owned())];
    plain(Allocator { name: "keel+keeper".to_owned(), environment, ..allocator })
}

fn warm(allocator: Allocator) -> Contestant {
    let mut contestant = keeper(allocator);
    contestant.allocator.name = "keel+warm".to_owned();
    Contestant { warm_bytes: WARM_BYTES, ..contestant }
}

/// The libraries in the folder that [`MORE`] names, under their file names.
fn more() -> Result<Vec<Contestant>> {
    let Some(folder) = std::env::var_os(MORE).filter(|folder| !folder.is_empty()) else {
        return Ok(Vec::new());
    };
    let folder = PathBuf::from(folder);
    if !folder.is_dir() {
        bail!("{MORE} names {}, which is not a folder", folder.display());
    }
    // An absolute path has a slash and is therefore read as a path.
    let path = std::path::absolute(&folder)
        .with_context(|| format!("cannot find {}", folder.display()))?;
    let places = Places { library: PathBuf::new(), peers: PathBuf::new() };
    Ok(places.resolve(&[path.to_string_lossy().into_owned()])?.into_iter().map(plain).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn an_allocator_can_take_part_with_several_settings() {
        let places = Places { library: PathBuf::from("lib"), peers: PathBuf::from("peers") };
        let one = &expand("huge=glibc:GLIBC_TUNABLES=glibc.malloc.hugetlb=1:A=", &places, &[])
            .unwrap()[0];
        assert_eq!((one.name(), one.allocator.kind), ("huge", Kind::System));
        let expected = [("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"), ("A", "")];
        assert_eq!(
            one.allocator.environment,
            expected.map(|(variable, value)| (variable.to_owned(), value.to_owned()))
        );
        for wrong in ["x=", "=glibc", "glibc,A", "x=nobody"] {
            assert!(expand(wrong, &places, &[]).is_err(), "{wrong}");
        }
        assert!(expand("x=null", &places, &[]).unwrap().is_empty(), "the floor is not measured");
    }
}
