//! Which allocators could not run, what the recording cannot contain, and where the replay's memory
//! is not the program's. The page says it at its top, because it limits every number below.

use super::price::peak;
use crate::figures::AllocatorFigures;
use crate::words::{bytes, file_name};
use keel_results::text::count;
use keel_results::{Comparison, JournalFacts, OtherAllocator, Settings};

/// A program or library with memory of its own.
struct Own {
    /// The beginnings of the names of its object files.
    files: &'static [&'static str],
    text: &'static str,
}

const OWN: [Own; 11] = [
    Own {
        files: &["python", "libpython"],
        text: "Python allocates objects of up to 512 bytes from its own pools, which the recording \
               does not contain unless Python used malloc for them: record with --python-objects, \
               or with PYTHONMALLOC=malloc.",
    },
    Own {
        files: &["ruby", "libruby"],
        text: "Ruby keeps objects in pages of its own heap; the recording contains these pages and \
               the larger contents of objects, not single objects.",
    },
    Own {
        files: &["node", "libnode", "chrome", "electron", "deno", "libv8"],
        text: "V8 keeps JavaScript's objects in its own heap, which is not in the recording; the \
               recording contains the native code's memory.",
    },
    Own {
        files: &["java", "libjvm"],
        text: "Java keeps objects in its own heap, which is not in the recording; the recording \
               contains the native code's memory.",
    },
    Own {
        files: &["dotnet", "libcoreclr", "libmono"],
        text: ".NET keeps objects in its own heap, which is not in the recording; the recording \
               contains the native code's memory.",
    },
    Own {
        files: &["php", "libphp"],
        text: "PHP allocates from its own pools, which the recording does not contain: record with \
               USE_ZEND_ALLOC=0.",
    },
    Own {
        files: &["luajit", "libluajit"],
        text: "LuaJIT allocates with its own allocator, which is not in the recording. (Lua itself \
               uses realloc, which is.)",
    },
    Own {
        files: &["tclsh", "libtcl"],
        text: "Tcl allocates objects and small strings from pools of its own; the recording \
               contains the pools' blocks, not the parts of these blocks.",
    },
    Own {
        files: &["beam.smp"],
        text: "Erlang allocates from carriers of its own; the recording contains only these.",
    },
    Own {
        files: &["libgo.so"],
        text: "Go keeps objects in its own heap, which is not in the recording; the recording \
               contains the memory of C code.",
    },
    Own {
        files: &["postgres", "nginx", "httpd", "apache2", "libapr-1", "libtalloc"],
        text: "The program allocates from memory pools of its own; the recording contains the \
               pools' blocks, not the parts of these blocks.",
    },
];

/// What is said about Python if its objects are in the recording.
const PYTHON_MALLOC: &str = "Because of PYTHONMALLOC=malloc, Python used malloc for all objects. \
     Without it, objects of up to 512 bytes come from Python's own pools, and no allocator saves \
     time for them.";

/// What the recording cannot contain, one sentence each.
fn own_memory(journal: &JournalFacts) -> impl Iterator<Item = String> + '_ {
    let program = journal.program.split(' ').next().unwrap_or_default();
    let files: Vec<&str> = std::iter::once(program)
        .chain(journal.modules.iter().map(String::as_str))
        .map(file_name)
        .collect();
    let has = move |one: &&Own| {
        one.files.iter().any(|name| files.iter().any(|file| is_file_of(file, name)))
    };
    let through_malloc = journal.settings.get("PYTHONMALLOC").is_some_and(|kind| kind == "malloc");
    let text = move |one: &Own| match through_malloc && one.files.contains(&"python") {
        true => PYTHON_MALLOC,
        false => one.text,
    };
    OWN.iter().filter(has).map(move |one| text(one).to_owned())
}

/// `python3.11` and `libpython3.11.so.1.0` begin with a name; `nodejs-tool` does not.
fn is_file_of(file: &str, name: &str) -> bool {
    let rest = file.strip_prefix(name);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '-'))
}

/// Memory that differs by less than this, or by less than a quarter, is not worth a sentence.
const BYTES: f64 = 8.0 * 1024.0 * 1024.0;
const SHARE: f64 = 0.25;
/// A program that is idle for most of its recorded time: operations in a second.
const IDLE_RATE: f64 = 1000.0;

fn differ(one: f64, other: f64) -> bool {
    let difference = (one - other).abs();
    difference >= BYTES && difference >= SHARE * one.max(other)
}

/// Other allocators in the program.
fn beside(journal: &JournalFacts) -> impl Iterator<Item = String> + '_ {
    journal.other_allocators.iter().map(|other| {
        let OtherAllocator { name, path, recorded } = other;
        let file = file_name(path);
        match (recorded, name.as_str()) {
            (true, _) => format!(
                "Two allocators answered the recorded calls: {file} some of them, and {} the \
                 others. A replay makes all calls on one allocator.",
                file_name(&journal.allocator)
            ),
            (false, name) => format!(
                "The program also contains {name} ({file}), with functions of other names than \
                 malloc: the recording lacks its blocks. keel/recorder.h records them."
            ),
        }
    })
}

/// Memory that the program mapped itself: how often it called mmap, and for how many bytes.
fn mapped(journal: &JournalFacts) -> Option<String> {
    let memory = journal.program_memory?;
    let bytes_mapped = memory.mapped_bytes as f64;
    let matters = bytes_mapped >= BYTES && bytes_mapped >= SHARE * journal.peak_live_bytes as f64;
    matters.then(|| {
        let calls = match memory.mapped_calls {
            1 => "once".to_owned(),
            calls => format!("{} times", count(calls)),
        };
        format!("the program called mmap itself {calls}, for {} in all", bytes(bytes_mapped))
    })
}

/// By how much the replay's memory differs from the recorded program's, and why.
fn memory(comparison: &Comparison, replay: Option<(&str, f64)>) -> Option<String> {
    let journal = &comparison.journal;
    let mapped = mapped(journal);
    let recorded = journal.program_memory.filter(|memory| memory.peak_bytes > 0);
    let (program, live) = match recorded {
        Some(memory) => (memory.peak_bytes as f64, memory.live_bytes as f64),
        None => (journal.peak_live_bytes as f64, journal.peak_live_bytes as f64),
    };
    let differing = replay.filter(|one| program > 0.0 && differ(one.1, program));
    let Some((name, resident)) = differing else {
        return mapped.map(|mapped| {
            format!("Memory: {mapped}. Neither the recording nor a replay contains this memory.")
        });
    };
    let replay = format!("a replay with {name}, {}", bytes(resident));
    let outside = match recorded {
        Some(_) => format!(
            "Memory: the program occupied {} at its peak, {} of it in blocks; {replay}.",
            bytes(program),
            bytes(live)
        ),
        None => {
            format!("Memory: the program's blocks had at most {}; {replay}.", bytes(program))
        }
    };
    let reasons = match resident > program {
        true => more_memory(comparison, live, program),
        false => less_memory((program - live).max(0.0), mapped),
    };
    Some(format!("{outside} {reasons}"))
}

/// Why a replay has more memory than the program.
fn more_memory(comparison: &Comparison, live: f64, program: f64) -> String {
    let Settings { pace, touch, .. } = &comparison.settings;
    let threads = comparison.journal.threads;
    let mut reasons = Vec::new();
    if live > program && touch == "page" {
        reasons.push(
            "it writes to each page of a block, and the program did not write to all".to_owned(),
        );
    }
    if pace == "max" && threads > 1 {
        reasons.push(format!(
            "at pace max all {threads} threads work at the same time, and each keeps memory of its \
             own; --pace compressed is closer to the program"
        ));
    }
    if reasons.is_empty() {
        reasons.push(
            "the allocator keeps free memory, has data of its own, and leaves parts of pages unused"
                .to_owned(),
        );
    }
    format!("The replay needs more because {}.", reasons.join(", and because "))
}

/// Why a program has more memory than a replay. `outside`: what was not in its blocks, bytes.
fn less_memory(outside: f64, mapped: Option<String>) -> String {
    let outside = bytes(outside);
    match mapped {
        Some(mapped) => format!(
            "The other {outside} of the program are in no replay, and no allocator changes them: \
             {mapped}, and it has stacks and data."
        ),
        None => format!(
            "The other {outside} of the program are in no replay: stacks, data, and free memory \
             that its allocator kept, perhaps from before the recorded time."
        ),
    }
}

/// The settings of the program's allocator.
fn configured(journal: &JournalFacts) -> Option<String> {
    let settings = journal.settings.iter().map(|(name, value)| format!("{name}={value}"));
    let settings: Vec<String> = settings.collect();
    (!settings.is_empty()).then(|| {
        format!(
            "The program ran with {}. In the replay, the allocators that read such a variable have \
             the same value.",
            settings.join(", ")
        )
    })
}

/// A program that waits most of the time.
fn idle(comparison: &Comparison) -> Option<String> {
    let journal = &comparison.journal;
    let seconds = journal.duration_ns as f64 / 1e9;
    let calls: u64 = journal.operations.values().sum();
    let is_idle = seconds >= 10.0 && (calls as f64) < IDLE_RATE * seconds;
    let pace = comparison.settings.pace.as_str();
    (is_idle && pace != "compressed").then(|| {
        format!(
            "The program was idle most of the time: {:.0} operations in a second. --pace \
             compressed keeps the order and the short pauses, and shortens the long ones.",
            calls as f64 / seconds
        )
    })
}

/// The allocators that could not run, and why.
fn failures(comparison: &Comparison) -> impl Iterator<Item = String> {
    let failed = comparison.allocators.iter().filter_map(|one| Some((one, one.failure.as_ref()?)));
    failed.map(|(one, why)| format!("{} could not run: {why}", one.name))
}

/// All that limits the numbers of the page, one sentence each.
pub fn unseen(
    comparison: &Comparison,
    allocators: &[AllocatorFigures],
    base: Option<usize>,
) -> Vec<String> {
    let journal = &comparison.journal;
    let mut sentences: Vec<String> = failures(comparison).collect();
    sentences.extend(own_memory(journal));
    sentences.extend(beside(journal));
    sentences.extend(configured(journal));
    let replay =
        base.and_then(|base| Some((allocators[base].name.as_str(), peak(&allocators[base])?)));
    sentences.extend(memory(comparison, replay));
    sentences.extend(idle(comparison));
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_results::ProgramMemory;

    fn found(program: &str, modules: &[&str]) -> Vec<String> {
        let modules = modules.iter().map(|path| (*path).to_owned()).collect();
        let journal = JournalFacts { program: program.into(), modules, ..JournalFacts::default() };
        own_memory(&journal).collect()
    }

    #[test]
    fn interpreters_and_pools_are_named() {
        let cases: [(&str, &[&str], &str); 9] = [
            ("/usr/bin/python3.11 app.py", &[], "--python-objects"),
            ("/opt/tool", &["/usr/lib/libpython3.12.so.1.0"], "PYTHONMALLOC=malloc"),
            ("ruby", &[], "Ruby keeps"),
            ("/usr/bin/node server.js", &[], "V8"),
            ("java -jar a.jar", &[], "Java keeps"),
            ("/usr/bin/php8.2", &[], "USE_ZEND_ALLOC=0"),
            ("luajit a.lua", &[], "LuaJIT"),
            ("/opt/gui", &["/usr/lib/libtcl8.6.so"], "Tcl"),
            ("/usr/lib/postgresql/15/bin/postgres", &[], "pools"),
        ];
        for (program, modules, expected) in cases {
            let found = found(program, modules);
            assert!(found.len() == 1 && found[0].contains(expected), "{program}: {found:?}");
        }
        let mut python =
            JournalFacts { program: "/usr/bin/python3.11".into(), ..JournalFacts::default() };
        python.settings.insert("PYTHONMALLOC".into(), "malloc".into());
        assert_eq!(own_memory(&python).collect::<Vec<_>>(), [PYTHON_MALLOC]);
        assert_eq!(found("/usr/bin/game", &["/lib/libc.so.6"]), Vec::<String>::new());
        assert_eq!(found("/usr/bin/node-exporter", &[]), Vec::<String>::new());
        assert_eq!(found("pythonic", &[]), Vec::<String>::new());
    }

    #[test]
    fn other_allocators_settings_and_mappings_are_named() {
        let mut journal =
            JournalFacts { allocator: "/lib/libc.so.6".into(), ..JournalFacts::default() };
        assert_eq!(beside(&journal).count(), 0);
        assert_eq!((mapped(&journal), configured(&journal)), (None, None));
        journal.other_allocators = vec![
            OtherAllocator { name: "jemalloc".into(), path: "/opt/game".into(), recorded: false },
            OtherAllocator { name: String::new(), path: "/lib/liba.so".into(), recorded: true },
        ];
        let found: Vec<String> = beside(&journal).collect();
        assert!(found[0].contains("jemalloc (game)") && found[0].contains("lacks its blocks"));
        assert!(found[1].contains("liba.so") && found[1].contains("libc.so.6"), "{found:?}");
        journal.settings.insert("MALLOC_ARENA_MAX".into(), "2".into());
        assert!(configured(&journal).is_some_and(|text| text.contains("MALLOC_ARENA_MAX=2")));
        let memory =
            ProgramMemory { mapped_calls: 12, mapped_bytes: 1 << 30, ..ProgramMemory::default() };
        journal.program_memory = Some(memory);
        let text = mapped(&journal).unwrap_or_default();
        assert!(text.contains("12 times, for 1 GiB"), "{text}");
        journal.peak_live_bytes = 1 << 40;
        assert_eq!(mapped(&journal), None, "a small part");
    }

    /// A replay's peak beside the program's memory and its blocks at that time, in MiB.
    fn compared(replayed: u64, program: u64, live: u64) -> Option<String> {
        let settings = Settings { pace: "max".into(), touch: "page".into(), ..Settings::default() };
        let mut comparison = Comparison { settings, ..Comparison::default() };
        comparison.journal.threads = 1;
        comparison.journal.program_memory = Some(ProgramMemory {
            peak_bytes: program << 20,
            live_bytes: live << 20,
            ..ProgramMemory::default()
        });
        memory(&comparison, Some(("glibc", (replayed << 20) as f64)))
    }

    #[test]
    fn the_replayed_memory_is_compared_with_the_recorded() {
        assert_eq!(compared(100, 100, 90), None);
        assert_eq!(compared(100, 106, 90), None, "less than 8 MiB");
        let more = compared(248, 77, 60).unwrap_or_default();
        assert!(more.contains("occupied 77 MiB at its peak, 60 MiB of it in blocks"), "{more}");
        assert!(more.contains("a replay with glibc, 248 MiB."), "{more}");
        assert!(more.contains("free memory"), "{more}");
        let untouched = compared(100, 20, 90).unwrap_or_default();
        assert!(untouched.contains("did not write to all"), "{untouched}");
        let less = compared(40, 100, 30).unwrap_or_default();
        assert!(
            less.contains("The other 70 MiB of the program are in no replay: stacks"),
            "{less}"
        );
    }

    #[test]
    fn the_compressed_pace_is_proposed_for_idle_programs() {
        let mut comparison = Comparison::default();
        comparison.journal.duration_ns = 60_000_000_000;
        comparison.journal.operations.insert("malloc".into(), 9_000);
        comparison.settings.pace = "1x".into();
        assert!(idle(&comparison).is_some_and(|text| text.contains("150 operations")));
        comparison.settings.pace = "compressed".into();
        assert_eq!(idle(&comparison), None);
        comparison.settings.pace = "max".into();
        comparison.journal.operations.insert("malloc".into(), 900_000);
        assert_eq!(idle(&comparison), None);
    }
}
