//! Known allocators with settings that their makers document: rows of their own in a comparison.
//!
//! `all` adds the row that is tuned for latency of the program's own allocator, because a setting
//! needs no new library; `--tuned` adds that of each allocator of the comparison. Sources:
//! `docs/guide/tuned.md`.

use super::{Allocator, used_name};
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
/// jemalloc's `MALLOC_CONF`. That of the crate reads it with the prefix of its functions.
const CRATE_CONF: &str = "_RJEM_MALLOC_CONF";

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
    Variant {
        name: "jemalloc-tuned",
        base: "jemalloc",
        remark: TUNED_REMARK,
        settings: &[(
            CRATE_CONF,
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

/// Adds behind the allocator that a program used its row that is tuned for latency, if it has one
/// and the program ran without settings that the row would change. `object_file`: that of the
/// program's allocator. `recorded`: the program's settings.
pub fn with_tuned_base(
    mut chosen: Vec<Allocator>,
    object_file: &str,
    recorded: &BTreeMap<String, String>,
) -> Vec<Allocator> {
    let base = used_name(object_file);
    let Some(at) = chosen.iter().position(|one| one.name == base) else { return chosen };
    let Some(tuned) = tuned(&chosen[at]) else { return chosen };
    let own = read_by(base, recorded);
    let is_new = chosen.iter().all(|one| one.name != tuned.name);
    if is_new && !own.iter().any(|(variable, value)| is_changed(variable, value, &tuned)) {
        chosen.insert(at + 1, tuned);
    }
    chosen
}

/// Gives the settings of the recorded program to the allocators that read them, if they have none
/// of their own. Those of [`VARIANTS`] are added to them.
pub fn with_recorded(
    mut chosen: Vec<Allocator>,
    settings: &BTreeMap<String, String>,
) -> Vec<Allocator> {
    for allocator in &mut chosen {
        let variant = VARIANTS.iter().find(|variant| variant.name == allocator.name);
        if allocator.environment.is_empty() {
            allocator.environment = read_by(&allocator.name, settings);
        } else if let Some(variant) = variant {
            let own = read_by(variant.base, settings);
            allocator.environment = joined(own, std::mem::take(&mut allocator.environment));
        }
    }
    chosen
}

/// The settings of a program that a known allocator of the lab reads, under the lab's names.
fn read_by(allocator: &str, settings: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let read = settings.iter().filter_map(|(variable, value)| {
        Some((read_as(allocator, variable)?.to_owned(), value.clone()))
    });
    read.collect()
}

/// The signs between the parts of a variable's value, and between a part's name and its value.
fn signs(variable: &str) -> Option<(char, char)> {
    match variable {
        "GLIBC_TUNABLES" => Some((':', '=')),
        CRATE_CONF => Some((',', ':')),
        _ => None,
    }
}

/// What a setting sets: `glibc.malloc.mmap_max`, `dirty_decay_ms`, or the variable itself.
fn parts<'a>(variable: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    let Some((between, within)) = signs(variable) else { return vec![(variable, value)] };
    let named = |part: &'a str| (part.split(within).next().unwrap_or(part), part);
    value.split(between).filter(|part| !part.is_empty()).map(named).collect()
}

/// Whether a program's own setting is one that the tuned row changes. The thresholds of glibc
/// depend on each other, and have variables of their own.
fn is_changed(variable: &str, value: &str, tuned: &Allocator) -> bool {
    const OF_GLIBC: [&str; 4] = ["mmap_max", "mmap_threshold", "trim_threshold", "top_pad"];
    let of_glibc = |name: &str| {
        let bare = name.strip_prefix("glibc.malloc.").map(str::to_owned);
        let old = || Some(name.strip_prefix("MALLOC_")?.trim_end_matches('_').to_lowercase());
        bare.or_else(old).is_some_and(|bare| OF_GLIBC.contains(&bare.as_str()))
    };
    let set: Vec<&str> = tuned
        .environment
        .iter()
        .flat_map(|(variable, value)| parts(variable, value))
        .map(|(name, _)| name)
        .collect();
    let mut own = parts(variable, value).into_iter().map(|(name, _)| name);
    own.any(|name| set.contains(&name) || of_glibc(name))
}

/// The program's settings with those of a row, which win.
fn joined(recorded: Vec<(String, String)>, row: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut all = recorded;
    for (variable, value) in row {
        let Some(own) = all.iter_mut().find(|one| one.0 == variable) else {
            all.push((variable, value));
            continue;
        };
        let Some((between, _)) = signs(&variable) else {
            own.1 = value;
            continue;
        };
        let new = parts(&variable, &value);
        let kept = parts(&variable, &own.1).into_iter();
        let kept = kept.filter(|(name, _)| new.iter().all(|(other, _)| other != name));
        let texts: Vec<&str> = kept.chain(new.iter().copied()).map(|(_, text)| text).collect();
        own.1 = texts.join(&between.to_string());
    }
    all
}

/// The variable by which a program's own allocator reads what the lab's reads by `variable`.
pub fn program_variable(variable: &str) -> &str {
    if variable == CRATE_CONF { "MALLOC_CONF" } else { variable }
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
        "jemalloc" if is_conf || variable == CRATE_CONF => Some(CRATE_CONF),
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

    /// The names, and the environment of the row behind the first one.
    fn beside_the_base(file: &str, recorded: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let settings = recorded.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let settings: BTreeMap<String, String> = settings.collect();
        let all = ["glibc", "jemalloc", "mimalloc2", "tcmalloc"].map(allocator).to_vec();
        let found = with_recorded(with_tuned_base(all, file, &settings), &settings);
        let tuned = found.iter().filter(|one| is_variant(&one.name));
        let tuned = tuned.flat_map(|one| &one.environment);
        let texts = tuned.map(|(name, value)| format!("{name}={value}")).collect();
        (found.into_iter().map(|one| one.name).collect(), texts)
    }

    #[test]
    fn the_programs_own_allocator_gets_its_tuned_row() {
        const FOUR: [&str; 4] = ["glibc", "jemalloc", "mimalloc2", "tcmalloc"];
        for (file, at, name) in [
            ("/lib/x86_64-linux-gnu/libc.so.6", 1, "glibc-tuned"),
            ("", 1, "glibc-tuned"),
            ("/usr/lib/libjemalloc.so.2", 2, "jemalloc-tuned"),
            ("/usr/lib/libmimalloc.so.2.1", 3, "mimalloc2-tuned"),
        ] {
            let mut expected = FOUR.to_vec();
            expected.insert(at, name);
            assert_eq!(beside_the_base(file, &[]).0, expected, "{file}");
        }
        for file in ["/usr/lib/libtcmalloc.so.4", "/opt/game/game", "/lib/ld-musl-x86_64.so.1"] {
            assert_eq!(beside_the_base(file, &[]).0, FOUR, "{file}");
        }
        let labelled = Allocator {
            environment: vec![("MALLOC_ARENA_MAX".to_owned(), "1".to_owned())],
            ..allocator("glibc")
        };
        assert_eq!(with_tuned_base(vec![labelled], "", &BTreeMap::new()).len(), 1);
        let tuned = with_tuned(vec![allocator("glibc")]);
        assert_eq!(with_tuned_base(tuned, "", &BTreeMap::new()).len(), 2);
    }

    #[test]
    fn a_program_that_set_the_same_keeps_its_settings() {
        const LIBC: &str = "/lib/libc.so.6";
        const JEMALLOC: &str = "/usr/lib/libjemalloc.so.2";
        for (file, name, value) in [
            (LIBC, "GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.mmap_max=9"),
            (LIBC, "GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=1048576"),
            (LIBC, "MALLOC_TRIM_THRESHOLD_", "1048576"),
            (JEMALLOC, "MALLOC_CONF", "narenas:1,dirty_decay_ms:0"),
            ("/usr/lib/libmimalloc.so.2.1", "MIMALLOC_PURGE_DELAY", "0"),
        ] {
            assert_eq!(beside_the_base(file, &[(name, value)]).0.len(), 4, "{name}={value}");
        }
        // Other settings stay: the row differs from the program in what it sets, and in no more.
        let own = [
            ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"),
            ("MALLOC_ARENA_MAX", "2"),
            ("MALLOC_CONF", "narenas:1"),
        ];
        let tuned = VARIANTS.iter().find(|one| one.name == "glibc-tuned").unwrap();
        let expected = [
            format!("GLIBC_TUNABLES=glibc.malloc.tcache_count=0:{}", tuned.settings[0].1),
            "MALLOC_ARENA_MAX=2".to_owned(),
        ];
        assert_eq!(beside_the_base(LIBC, &own).1, expected);
        let found = beside_the_base(JEMALLOC, &own).1;
        assert!(found[0].starts_with("_RJEM_MALLOC_CONF=narenas:1,background_thread:true,"));
        assert_eq!(program_variable("_RJEM_MALLOC_CONF"), "MALLOC_CONF");
    }

    #[test]
    fn a_row_that_was_asked_for_wins_over_the_programs_setting() {
        let recorded = [("GLIBC_TUNABLES".to_owned(), "glibc.malloc.mmap_max=9".to_owned())].into();
        let found = with_recorded(with_tuned(vec![allocator("glibc")]), &recorded);
        assert_eq!(found[0].environment[0].1, "glibc.malloc.mmap_max=9");
        let value = &found[1].environment[0].1;
        assert!(value.ends_with("mmap_max=0") && !value.contains("mmap_max=9"), "{value}");
    }

    #[test]
    fn every_variant_has_a_known_base_and_a_name_of_its_own() {
        for variant in VARIANTS {
            assert!(crate::NAMES.contains(&variant.base), "{variant:?}");
            assert!(!crate::NAMES.contains(&variant.name), "{variant:?}");
        }
    }
}
