//! Files of heap profilers. They are no traces: they have sums or a moment, not single calls, so
//! nothing in them can be replayed. The error says what the file holds and what to record instead.

/// The beginning of a file of a profiler.
struct Profile {
    /// What each such file begins with; after it, the file contains `also` near its beginning.
    starts: &'static [u8],
    also: &'static [u8],
    found: &'static str,
}

const PROFILES: [Profile; 9] = [
    Profile {
        starts: b"desc:",
        also: b"time_unit:",
        found: "it is a profile of massif: the sizes of the heap at some moments, and the call \
                stacks of the largest parts; it has no single calls",
    },
    Profile {
        starts: b"{\"dhatFileVersion\"",
        also: b"",
        found: "it is a profile of DHAT: for each call stack the sums of its blocks, bytes, \
                lifetimes and accesses; it has no single calls",
    },
    Profile {
        starts: b"heap profile:",
        also: b"@",
        found: "it is a heap profile of gperftools: for each call stack the sums of its blocks \
                and bytes, often of a sample; it has no single calls",
    },
    Profile {
        starts: b"heap_v2/",
        also: b"",
        found: "it is a heap profile of jemalloc: for each call stack the sums of a sample of its \
                blocks; it has no single calls",
    },
    Profile {
        starts: b"\n",
        also: b"\x08\x01\x10",
        found: "it is a profile of pprof: for each call stack the sums of a sample; it has no \
                single calls",
    },
    Profile {
        starts: b"PERFILE2",
        also: b"",
        found: "it is a recording of perf: samples of the processor; it has no calls of the \
                allocator",
    },
    Profile {
        starts: b"JAVA PROFILE",
        also: b"",
        found: "it is a heap dump of Java: the objects that lived at one moment; it has no single \
                calls",
    },
    Profile {
        starts: b"{\"snapshot\"",
        also: b"\"meta\"",
        found: "it is a heap snapshot of V8: the objects that lived at one moment; it has no \
                single calls",
    },
    Profile {
        starts: b"<?xml",
        also: b"<valgrindoutput",
        found: "it is an XML report of valgrind: errors and leaks; it has no single calls",
    },
];

/// What to do instead.
pub(crate) const ADVICE: &str = "a journal needs every call: record the program with `keel record \
    --stacks 16 -- PROGRAM`, or trace it with heaptrack, memray or `valgrind --trace-malloc=yes` \
    and import that trace. `keel blame` then prints the sums of each call stack";

/// Bytes of a file that are searched.
const BEGINNING: usize = 4096;

/// What this file holds, if it is one of a profiler.
pub(crate) fn recognise(bytes: &[u8]) -> Option<&'static str> {
    let beginning = &bytes[..bytes.len().min(BEGINNING)];
    let text = beginning.trim_ascii_start();
    let is_of = |profile: &&Profile| {
        // White space before a text does not matter, but is the first field of a pprof file.
        let start = if profile.starts == b"\n" { beginning } else { text };
        let also =
            profile.also.is_empty() || memchr::memmem::find(beginning, profile.also).is_some();
        start.starts_with(profile.starts) && also
    };
    PROFILES.iter().find(is_of).map(|profile| profile.found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profiler_is_recognised() {
        let files: [(&[u8], &str); 9] = [
            (b"desc: --threshold=1\ncmd: ./p\ntime_unit: i\n#-----\nsnapshot=0\n", "massif"),
            (b"{\"dhatFileVersion\":2\n,\"mode\":\"heap\"\n", "DHAT"),
            (b"heap profile:      3:    96 [     5:   160] @ heapprofile\n", "gperftools"),
            (b"heap_v2/524288\n  t*: 28106: 56637512 [0: 0]\n", "jemalloc"),
            (b"\n\x04\x08\x01\x10\x02\n\x04\x08\x03\x10\x04", "pprof"),
            (b"PERFILE2h\0\0\0", "perf"),
            (b"JAVA PROFILE 1.0.2\0", "Java"),
            (b"{\"snapshot\":{\"meta\":{\"node_fields\":[", "V8"),
            (b"<?xml version=\"1.0\"?>\n\n<valgrindoutput>\n", "valgrind"),
        ];
        for (bytes, tool) in files {
            assert!(recognise(bytes).is_some_and(|found| found.contains(tool)), "{tool}");
        }
        for trace in [&b"\na 8 10 0 5\n"[..], b"desc 1\n", b"v 10400 3\n", b""] {
            assert_eq!(recognise(trace), None);
        }
    }
}
