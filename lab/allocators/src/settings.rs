//! The settings of libkeel, as `in_process/base/options.c` reads them from the environment.

/// Their names after `KEEL_` and `MIMALLOC_`.
const NAMES: [&str; 16] = [
    "show_errors",
    "show_stats",
    "verbose",
    "large_os_pages",
    "reserve_huge_os_pages",
    "reset_delay",
    "use_numa_nodes",
    "max_errors",
    "keeper",
    "foreign_free",
    "limit",
    "zero_on_free",
    "guard_rate",
    "guard_seed",
    "guard_handler",
    "sized_free",
];

/// Second names, after `KEEL_` only.
const SECOND_NAMES: [&str; 2] = ["stats", "purge_delay_ms"];

/// Values that are not numbers, each with the setting that it is for (empty: any).
const WORDS: [(&str, &str); 10] = [
    ("on", ""),
    ("true", ""),
    ("yes", ""),
    ("off", ""),
    ("no", ""),
    ("false", ""),
    ("auto", "keeper"),
    ("abort", "foreign_free"),
    ("abort", "sized_free"),
    ("report", "sized_free"),
];

/// Why libkeel would ignore one of these variables; a clause.
pub fn refusal(settings: &[(String, String)]) -> Option<String> {
    settings.iter().find_map(|(variable, value)| {
        let of = |(prefix, seconds)| Some((prefix, variable.strip_prefix(prefix)?, seconds));
        let (prefix, name, seconds) =
            [("KEEL_", &SECOND_NAMES[..]), ("MIMALLOC_", &[])].into_iter().find_map(of)?;
        let name = name.to_lowercase();
        let names = NAMES.iter().chain(seconds);
        if !names.clone().any(|one| *one == name) {
            let names = names.map(|name| format!("{prefix}{}", name.to_uppercase()));
            let names = names.collect::<Vec<_>>().join(", ");
            return Some(format!("it has no setting {variable}; it has {names}"));
        }
        let of_setting = WORDS.iter().filter(|(_, of)| of.is_empty() || *of == name);
        let words: Vec<&str> = of_setting.map(|(word, _)| *word).collect();
        (!words.contains(&value.to_lowercase().as_str()) && !is_number(value)).then(|| {
            format!(
                "{variable} takes no `{value}`; it takes a number, such as -1, 500 or 64M, or one \
                 of {}",
                words.join(", ")
            )
        })
    })
}

fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text).to_lowercase();
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let shift = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(unit) {
        "" if unit.is_empty() => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return false,
    };
    let digits = &text[..text.len() - unit.len()];
    digits.parse().is_ok_and(|number: i64| number <= i64::MAX >> shift)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn refused(variable: &str, value: &str) -> Option<String> {
        refusal(&[(variable.to_owned(), value.to_owned())])
    }

    #[test]
    fn settings_that_the_library_would_ignore_are_refused() {
        for (variable, value) in [
            ("KEEL_KEEPER", "off"),
            ("KEEL_KEEPER", "AUTO"),
            ("KEEL_purge_delay_ms", "-1"),
            ("KEEL_LIMIT", "64MiB"),
            ("KEEL_LIMIT", "2g"),
            ("KEEL_VERBOSE", "Yes"),
            ("KEEL_SIZED_FREE", "report"),
            ("MIMALLOC_SHOW_STATS", "1"),
            ("MALLOC_ARENA_MAX", "x"),
        ] {
            assert_eq!(refused(variable, value), None, "{variable}={value}");
        }
        let unknown = refused("KEEL_KEPEER", "off").unwrap();
        assert!(unknown.contains("no setting KEEL_KEPEER; it has KEEL_SHOW_ERRORS"), "{unknown}");
        for variable in ["MIMALLOC_PURGE_DELAY", "MIMALLOC_STATS"] {
            let message = refused(variable, "-1").unwrap();
            let stated = format!("no setting {variable}; it has MIMALLOC_SHOW_ERRORS, ");
            assert!(message.contains(&stated), "{message}");
        }
        assert!(refused("MIMALLOC_VERBOSE", "x").unwrap().contains("takes no `x`"));
        for value in ["bogus", "1.5", "-", "5x", "b", "ib", "9999999999G", "", "abort"] {
            let message = refused("KEEL_KEEPER", value).unwrap();
            assert!(message.contains(&format!("takes no `{value}`")), "{message}");
        }
    }

    #[test]
    fn libkeel_with_a_setting_that_it_would_ignore_cannot_be_used() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libkeel.so"), "").unwrap();
        let places = crate::Places { library: folder.path().into(), peers: folder.path().into() };
        let reason = |spec: &str| places.resolve(&[spec.to_owned()]).unwrap().remove(0).unavailable;
        assert_eq!(reason("keel:KEEL_KEEPER=off"), None);
        assert!(reason("quiet=keel:KEEL_KEEPER=bogus").is_some());
    }

    #[test]
    fn the_names_and_words_are_those_of_the_library() {
        let code = include_str!("../../../in_process/base/options.c");
        let rows = |begin: &str| -> Vec<&'static str> {
            let table = &code[code.find(begin).unwrap() + begin.len()..];
            table.split("};").next().unwrap().split(['\n', '{', '}']).collect()
        };
        let quoted = |row: &&'static str| Some((*row, row.split('"').nth(1)?));
        let table =
            |begin: &str| -> Vec<(&str, &str)> { rows(begin).iter().filter_map(quoted).collect() };
        let of_options = table("names[OPTION_COUNT] = {");
        assert_eq!(of_options.iter().map(|(_, name)| *name).collect::<Vec<_>>(), NAMES);
        let seconds = table("} second_names[] = {");
        assert_eq!(seconds.iter().map(|(_, name)| *name).collect::<Vec<_>>(), SECOND_NAMES);
        // "ANY", or the option that has its name in the first table.
        let setting = |row: &str| {
            let option = row.rsplit(", ").next().unwrap();
            let named = of_options.iter().find(|(row, _)| row.contains(&format!("[{option}]")));
            assert_eq!(named.is_none(), option == "ANY", "{row}");
            named.map_or("", |(_, name)| *name)
        };
        let words = table("} words[] = {");
        assert_eq!(
            words.iter().map(|(row, word)| (*word, setting(row))).collect::<Vec<_>>(),
            WORDS
        );
    }
}
