//! What the recording cannot contain, and where the replay's memory is not the program's. The page
//! says it at its top, because it limits every number below.

use super::price::peak;
use crate::figures::AllocatorFigures;
use crate::words::{bytes, file_name};
use keel_results::{Comparison, JournalFacts};

/// A program or library with memory of its own.
struct Own {
    /// The beginnings of the names of its object files.
    files: &'static [&'static str],
    text: &'static str,
}

const OWN: [Own; 10] = [
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
    OWN.iter().filter(has).map(|one| one.text.to_owned())
}

/// `python3.11` and `libpython3.11.so.1.0` begin with a name; `nodejs-tool` does not.
fn is_file_of(file: &str, name: &str) -> bool {
    let rest = file.strip_prefix(name);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '-'))
}

/// The replay's memory is not the program's if it is this multiple of the live bytes, and this many
/// bytes more.
const TIMES: f64 = 2.0;
const BYTES: f64 = 8.0 * 1024.0 * 1024.0;
/// A program that is idle for most of its recorded time: operations in a second.
const IDLE_RATE: f64 = 1000.0;

/// By how much the replay's memory differs from the blocks of the program, and why.
fn replayed_memory(
    comparison: &Comparison,
    allocators: &[AllocatorFigures],
    base: usize,
) -> Option<String> {
    let journal = &comparison.journal;
    let (live, resident) = (journal.peak_live_bytes as f64, peak(&allocators[base])?);
    if live == 0.0 || resident < TIMES * live || resident < live + BYTES {
        return None;
    }
    let mut reasons = vec![
        "the rest is free memory that the allocator keeps, its own data, and parts of pages"
            .to_owned(),
    ];
    if comparison.settings.pace == "max" && journal.threads > 1 {
        reasons.push(format!(
            "at pace max all {} threads work at the same time, and each keeps memory of its own, \
             where the program's threads may have taken turns; --pace compressed is closer to it",
            journal.threads
        ));
    }
    Some(format!(
        "Memory: with {}, the replay's peak resident memory is {}, but the program's blocks had at \
         most {}: {}. The program itself also needs memory for code and stacks, which no replay \
         has.",
        allocators[base].name,
        bytes(resident),
        bytes(live),
        reasons.join("; "),
    ))
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

/// All that limits the numbers of the page, one sentence each.
pub fn unseen(
    comparison: &Comparison,
    allocators: &[AllocatorFigures],
    base: Option<usize>,
) -> Vec<String> {
    let mut sentences: Vec<String> = own_memory(&comparison.journal).collect();
    sentences.extend(base.and_then(|base| replayed_memory(comparison, allocators, base)));
    sentences.extend(idle(comparison));
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(program: &str, modules: &[&str]) -> Vec<String> {
        let modules = modules.iter().map(|path| (*path).to_owned()).collect();
        let journal = JournalFacts { program: program.into(), modules, ..JournalFacts::default() };
        own_memory(&journal).collect()
    }

    #[test]
    fn interpreters_and_pools_are_named() {
        let cases: [(&str, &[&str], &str); 8] = [
            ("/usr/bin/python3.11 app.py", &[], "--python-objects"),
            ("/opt/tool", &["/usr/lib/libpython3.12.so.1.0"], "PYTHONMALLOC=malloc"),
            ("ruby", &[], "Ruby keeps"),
            ("/usr/bin/node server.js", &[], "V8"),
            ("java -jar a.jar", &[], "Java keeps"),
            ("/usr/bin/php8.2", &[], "USE_ZEND_ALLOC=0"),
            ("luajit a.lua", &[], "LuaJIT"),
            ("/usr/lib/postgresql/15/bin/postgres", &[], "pools"),
        ];
        for (program, modules, expected) in cases {
            let found = found(program, modules);
            assert!(found.len() == 1 && found[0].contains(expected), "{program}: {found:?}");
        }
        assert_eq!(found("/usr/bin/game", &["/lib/libc.so.6"]), Vec::<String>::new());
        assert_eq!(found("/usr/bin/node-exporter", &[]), Vec::<String>::new());
        assert_eq!(found("pythonic", &[]), Vec::<String>::new());
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
