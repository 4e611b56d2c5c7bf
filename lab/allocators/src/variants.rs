//! Known allocators with settings that their makers document: rows of their own in a comparison.
//!
//! `all` leaves them out. `--tuned` adds the row that is tuned for latency of each allocator of the
//! comparison. Sources: `docs/guide/tuned.md`.

use super::Allocator;
use std::collections::BTreeMap;

/// A known allocator with settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name in tables and on the command line.
    pub name: &'static str,
    /// The allocator that it sets.
    pub base: &'static str,
    /// See [`crate::remark`].
    pub remark: &'static str,
    /// Environment variables and their values.
    pub settings: &'static [(&'static str, &'static str)],
}

/// The ending of the names of rows that are tuned for latency.
const TUNED: &str = "-tuned";
const TUNED_REMARK: &str = "settings for latency";

/// All variants, in the order of tables.
pub const VARIANTS: [Variant; 5] = [
    Variant {
        name: "keel-no-keeper",
        base: "keel",
        remark: "without its background thread",
        settings: &[("KEEL_KEEPER", "off")],
    },
    Variant {
        name: "glibc-tuned",
        base: "glibc",
        remark: TUNED_REMARK,
        settings: &[(
            "GLIBC_TUNABLES",
            "glibc.malloc.top_pad=67108864:glibc.malloc.trim_threshold=17179869184:\
             glibc.malloc.mmap_max=0",
        )],
    },
    Variant {
        name: "mimalloc-tuned",
        base: "mimalloc",
        remark: TUNED_REMARK,
        settings: &[("MIMALLOC_PURGE_DELAY", "-1")],
    },
    Variant {
        name: "mimalloc2-tuned",
        base: "mimalloc2",
        remark: TUNED_REMARK,
        settings: &[("MIMALLOC_PURGE_DELAY", "-1")],
    },
    // The crate's jemalloc reads the variable with the prefix of its functions.
    Variant {
        name: "jemalloc-tuned",
        base: "jemalloc",
        remark: TUNED_REMARK,
        settings: &[(
            "_RJEM_MALLOC_CONF",
            "background_thread:true,metadata_thp:auto,dirty_decay_ms:30000,muzzy_decay_ms:30000",
        )],
    },
];

/// Whether a name is that of a variant.
pub fn is_variant(name: &str) -> bool {
    VARIANTS.iter().any(|variant| variant.name == name)
}

/// Adds behind each allocator, if it has no settings yet, its row that is tuned for latency.
pub fn with_tuned(chosen: Vec<Allocator>) -> Vec<Allocator> {
    let mut all: Vec<Allocator> = Vec::new();
    for allocator in chosen {
        let tuned = tuned(&allocator);
        all.push(allocator);
        all.extend(tuned);
    }
    let mut distinct: Vec<Allocator> = Vec::new();
    for allocator in all {
        if distinct.iter().all(|other| other.name != allocator.name) {
            distinct.push(allocator);
        }
    }
    distinct
}

fn tuned(allocator: &Allocator) -> Option<Allocator> {
    let variant = VARIANTS
        .iter()
        .find(|variant| variant.base == allocator.name && variant.name.ends_with(TUNED))?;
    allocator.environment.is_empty().then(|| apply(variant, allocator.clone()))
}

/// Gives the settings of the recorded program to the allocators that read them, if they have none
/// of their own.
pub fn with_recorded(
    mut chosen: Vec<Allocator>,
    settings: &BTreeMap<String, String>,
) -> Vec<Allocator> {
    for allocator in chosen.iter_mut().filter(|one| one.environment.is_empty()) {
        let name = allocator.name.as_str();
        let own = settings.iter().filter_map(|(variable, value)| {
            Some((read_as(name, variable)?.to_owned(), value.clone()))
        });
        allocator.environment = own.collect();
    }
    chosen
}

/// The variable by which a known allocator of the lab reads a program's variable; None if it does
/// not.
fn read_as<'a>(allocator: &str, variable: &'a str) -> Option<&'a str> {
    let begins = |prefix: &str| variable.starts_with(prefix);
    let is_conf = variable == "MALLOC_CONF";
    match allocator {
        "glibc" if variable == "GLIBC_TUNABLES" || (begins("MALLOC_") && !is_conf) => {
            Some(variable)
        }
        "jemalloc" if is_conf => Some("_RJEM_MALLOC_CONF"),
        "jemalloc" if variable == "_RJEM_MALLOC_CONF" => Some(variable),
        "mimalloc" | "mimalloc2" if begins("MIMALLOC_") => Some(variable),
        "tcmalloc" if begins("TCMALLOC_") => Some(variable),
        "keel" if begins("KEEL_") => Some(variable),
        _ => None,
    }
}

/// The allocator with the settings of a variant.
pub fn apply(variant: &Variant, base: Allocator) -> Allocator {
    let settings = variant.settings.iter();
    Allocator {
        name: variant.name.to_owned(),
        remark: variant.remark.to_owned(),
        environment: settings.map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
        ..base
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn allocator(name: &str) -> Allocator {
        Allocator { name: name.to_owned(), ..Allocator::default() }
    }

    #[test]
    fn each_allocator_that_has_one_gets_its_tuned_row_once() {
        let labelled = Allocator {
            environment: vec![("MALLOC_ARENA_MAX".to_owned(), "1".to_owned())],
            ..allocator("glibc")
        };
        let chosen =
            vec![allocator("keel"), allocator("jemalloc"), allocator("rpmalloc"), labelled];
        let found = with_tuned(chosen);
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["keel", "jemalloc", "jemalloc-tuned", "rpmalloc", "glibc"]);
        let tuned = &found[2];
        assert_eq!(tuned.label(), "jemalloc-tuned (settings for latency)");
        assert!(tuned.environment[0].1.starts_with("background_thread:true"), "{tuned:?}");
        let twice = with_tuned(vec![allocator("jemalloc"), tuned.clone()]);
        assert_eq!(twice.len(), 2);
    }

    #[test]
    fn each_allocator_gets_the_recorded_settings_that_it_reads() {
        let settings =
            [("MALLOC_ARENA_MAX", "2"), ("MALLOC_CONF", "narenas:1"), ("KEEL_KEEPER", "off")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let own = vec![("MALLOC_ARENA_MAX".to_owned(), "1".to_owned())];
        let labelled = Allocator { environment: own.clone(), ..allocator("glibc") };
        let chosen = ["glibc", "jemalloc", "keel", "mimalloc"].map(allocator);
        let found = with_recorded([chosen.to_vec(), vec![labelled]].concat(), &settings);
        let environment: Vec<_> = found.iter().map(|one| one.environment.clone()).collect();
        let one = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let expected = [
            one("MALLOC_ARENA_MAX", "2"),
            one("_RJEM_MALLOC_CONF", "narenas:1"),
            one("KEEL_KEEPER", "off"),
            Vec::new(),
            own,
        ];
        assert_eq!(environment, expected);
    }

    #[test]
    fn every_variant_has_a_known_base_and_a_name_of_its_own() {
        for variant in VARIANTS {
            assert!(crate::NAMES.contains(&variant.base), "{variant:?}");
            assert!(!crate::NAMES.contains(&variant.name), "{variant:?}");
        }
    }
}
