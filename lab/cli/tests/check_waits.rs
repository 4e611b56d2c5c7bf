//! `keel check --also`: every planted lock wait, file call and sleep in a zone is found with its
//! stack, and none outside of it. `--worst`: what calls in a zone cost on each allocator.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{check, compile_text, folder_with, prefix_with_recorder};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Functions that wait, each with a statement that makes one call. `held` is locked by another
/// thread, which unlocks `passed` when the first one sleeps.
const CALLS: [(&str, &str); 15] = [
    ("pthread_mutex_timedlock", "kept = pthread_mutex_timedlock(&held, &past);"),
    ("pthread_mutex_lock", "hold_until_wanted(); kept = pthread_mutex_lock(&passed); unlock();"),
    ("pthread_cond_timedwait", "kept = pthread_cond_timedwait(&never, &own, &past);"),
    ("sem_timedwait", "kept = sem_timedwait(&empty, &past);"),
    ("futex", "kept = syscall(SYS_futex, &word, FUTEX_WAIT, 1, NULL, NULL, 0);"),
    ("access", "kept = access(\"/\", R_OK);"),
    ("open", "kept = open(\"/dev/null\", O_RDWR);"),
    ("write", "kept = write(null, \"x\", 1);"),
    ("read", "char byte; kept = read(null, &byte, 1);"),
    ("fwrite", "kept = fwrite(\"x\", 1, 1, file);"),
    ("fprintf", "kept = fprintf(file, \"%d\", 1);"),
    ("usleep", "kept = usleep(1);"),
    ("nanosleep", "kept = nanosleep(&(struct timespec){0, 1}, NULL);"),
    ("poll", "kept = poll(NULL, 0, 1);"),
    ("select", "kept = select(0, NULL, NULL, NULL, &(struct timeval){0, 1});"),
];
const PLANTED: usize = 150;

/// The second thread holds `held` for ever, and `passed` until the first thread sleeps.
const START: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#define OUT __attribute__((noinline, noclone))
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, passed = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static const struct timespec past = {1, 0};
static sem_t empty;
static int null, word;
static FILE* file;
static volatile long kept;
static volatile int wanted, is_held;
static int first;
static int sleeps(void) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", first);
    int stat = open(path, O_RDONLY);
    if (read(stat, text, sizeof text - 1) < 0) text[0] = 0;
    close(stat);
    const char* end = strrchr(text, ')');
    return end != NULL && end[2] == 'S';
}
static void* holder(void* unused) {
    pthread_mutex_lock(&held);
    is_held = 1;
    for (;;) {
        while (!wanted) usleep(100);
        wanted = 0;
        pthread_mutex_lock(&passed);
        is_held = 1;
        while (!sleeps()) usleep(100);
        pthread_mutex_unlock(&passed);
    }
    return unused;
}
static void hold_until_wanted(void) {
    is_held = 0;
    wanted = 1;
    while (!is_held) {}
}
static void unlock(void) { pthread_mutex_unlock(&passed); }
"#;

fn planted() -> String {
    let (mut code, mut calls) = (START.to_owned(), String::new());
    for number in 0..PLANTED {
        let (_, statement) = CALLS[number % CALLS.len()];
        let _ = writeln!(code, "OUT void f{number}(void) {{ {statement} }}");
        let _ = writeln!(calls, "    f{number}();");
    }
    // What need not wait is no violation.
    code + "OUT void callback(void) {\n    pthread_mutex_lock(&own);\n\
            kept = poll(NULL, 0, 0);\n\
            pthread_rwlock_rdlock(&shared);\n    pthread_rwlock_unlock(&shared);\n"
        + &calls
        + "    pthread_mutex_unlock(&own);\n}\nOUT void outside(void) {\n\
           pthread_mutex_lock(&own);\n"
        + &calls
        + "    pthread_mutex_unlock(&own);\n}\nint main(void) {\n    pthread_t thread;\n\
           first = syscall(SYS_gettid);\n    null = open(\"/dev/null\", O_RDWR);\n\
           file = fopen(\"/dev/null\", \"w\");\n    sem_init(&empty, 0, 0);\n\
           pthread_create(&thread, NULL, holder, NULL);\n    while (!is_held) {}\n\
           outside();\n    callback();\n    outside();\n    return 0;\n}\n"
}

#[test]
fn every_planted_wait_in_a_zone_is_found_and_none_outside_of_it() {
    let folder = folder_with("planted", &planted(), &["-O2"]);
    let folder = folder.path();
    let zone = ["--zone", "symbol=callback", "--format", "json"];
    let all = [&zone[..], &["--also", "locks,files,sleeps", "--", "./planted"]].concat();
    let (code, shown, errors) = check(folder, &all);
    assert_eq!(code, 1, "{shown}{errors}");
    let found = json(&shown);
    let (mut guilty, mut calls) = (BTreeSet::new(), 0);
    for site in found["zones"][0]["call_sites"].as_array().unwrap() {
        for call in site["calls"].as_array().unwrap() {
            let stack = &site["stacks"][call["stack"].as_u64().unwrap() as usize];
            let frames = stack.as_array().unwrap().iter();
            let names: Vec<&str> =
                frames.map(|frame| frame["function"].as_str().unwrap()).collect();
            assert!(names.contains(&"callback") && names.contains(&"main"), "{names:?}");
            assert!(call["took_ns"].is_u64(), "{call}");
            guilty.insert((names[0].to_owned(), call["operation"].as_str().unwrap().to_owned()));
            calls += 1;
        }
    }
    let wanted =
        (0..PLANTED).map(|number| (format!("f{number}"), CALLS[number % CALLS.len()].0.to_owned()));
    let wanted: BTreeSet<(String, String)> = wanted.collect();
    let missed: Vec<_> = wanted.difference(&guilty).collect();
    assert!(missed.is_empty(), "missed: {missed:?}");
    assert_eq!(calls, PLANTED, "false alarms: {:?}", guilty.difference(&wanted));
    // Only what is asked for, and nothing without it.
    let (code, shown, _) =
        check(folder, &[&zone[..2], &["--also", "sleeps", "--", "./planted"]].concat());
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("0 allocations, 0 frees, 40 sleeps"), "{shown}");
    let (code, shown, errors) = check(folder, &[&zone[..2], &["--", "./planted"]].concat());
    assert_eq!(code, 0, "{shown}{errors}");
}

#[test]
fn a_journal_without_these_calls_cannot_be_checked_for_them() {
    let code = "#include <stdlib.h>\nint main(void) { free(malloc(9)); return 0; }\n";
    let folder = folder_with("quiet", code, &[]);
    let folder = folder.path();
    std::fs::write(folder.join("b.toml"), "[[zone]]\nthread = \"q*\"\nalso = [\"locks\"]\n")
        .unwrap();
    let kept = ["--zone", "symbol=main", "-o", "quiet.journal.parquet", "--", "./quiet"];
    assert_eq!(check(folder, &kept).0, 1);
    let (code, shown, _) = check(folder, &["--budget", "b.toml", "quiet.journal.parquet"]);
    assert!(code == 2 && shown.contains("has no calls of locks, files and sleeps"), "{shown}");
    let (_, _, errors) =
        check(folder, &["--zone", "symbol=main", "--also", "naps", "--", "./quiet"]);
    assert!(errors.contains("`naps` is no kind of calls: give locks, files or sleeps"), "{errors}");
}

#[test]
fn the_libraries_may_be_in_a_folder_with_a_blank_in_its_name() {
    let code = "#include <unistd.h>\nint main(void) { usleep(1); return 0; }\n";
    let folder = folder_with("naps", code, &[]);
    let prefix = folder.path().join("a prefix");
    std::fs::create_dir_all(prefix.join("lib/keel")).unwrap();
    for library in ["lib/libkeel_recorder.so", "lib/keel/libkeel_calls.so"] {
        std::fs::copy(prefix_with_recorder().join(library), prefix.join(library)).unwrap();
    }
    let mut command = common::keel();
    command.env("KEEL_PREFIX", prefix).current_dir(folder.path());
    command.args(["check", "--zone", "symbol=main", "--also", "sleeps", "--", "./naps"]);
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("1 sleep; the first: usleep"), "{shown}");
}

/// A zone with a cheap call, and one with a call that maps memory in every allocator of the test.
const COSTS: &str = r#"
#include <stdlib.h>
static void* volatile kept;
__attribute__((noinline)) void cheap(void) {
    free(kept);
    kept = malloc(32);
}
__attribute__((noinline)) void dear(void) {
    free(kept);
    kept = malloc(64 << 20);
}
int main(void) {
    for (int i = 0; i < 2000; i++) cheap();
    dear();
    return 0;
}
"#;

#[test]
fn the_worst_cost_of_a_call_is_shown_for_each_allocator() {
    let folder = folder_with("costs", COSTS, &[]);
    let folder = folder.path();
    let zones = ["--zone", "symbol=cheap", "--zone", "symbol=dear", "--worst=keel,glibc"];
    let reports = ["--report", "json=j", "--report", "sarif=s", "--report", "markdown=m"];
    let all = [&zones[..], &reports, &["--", "./costs"]].concat();
    let (code, shown, errors) = check(folder, &all);
    assert_eq!(code, 1, "{shown}{errors}");
    assert!(shown.contains("at worst: null "), "{shown}");
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    assert!(read("s").contains("at worst: null ") && read("m").contains("at worst: null "));
    let sarif = json(&read("s"));
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 4, "two call sites in each zone");
    for result in results {
        let costs = result["properties"]["at_worst"].as_array().unwrap();
        let names: BTreeSet<_> =
            costs.iter().filter_map(|cost| cost["allocator"].as_str()).collect();
        assert_eq!(names, BTreeSet::from(["glibc", "keel", "null"]), "{result}");
    }
    let found = json(&read("j"));
    assert!(found["notes"].to_string().contains("3 replays"), "{}", found["notes"]);
    let costs = |zone: usize, allocator: &str| {
        let sites = found["zones"][zone]["call_sites"].as_array().unwrap();
        let all = sites.iter().flat_map(|site| {
            let calls = site["calls"].as_array().unwrap();
            let of = |one: &&Value| one["allocator"] == allocator;
            let cost = site["at_worst"].as_array().unwrap().iter().find(of).unwrap();
            let call = &calls[cost["call"].as_u64().unwrap() as usize];
            Some((call["operation"].clone(), cost["ns"].as_f64().unwrap(), cost["cause"].clone()))
        });
        all.collect::<Vec<_>>()
    };
    for allocator in ["keel", "glibc"] {
        assert_eq!(costs(0, allocator).len(), 2, "two call sites");
        // The replay writes to the new block, in memory that was never touched.
        let dear = costs(1, allocator);
        let (_, ns, cause) = dear.iter().find(|(operation, ..)| operation == "malloc").unwrap();
        assert!(cause.as_str().unwrap().contains("page fault") || cause == "preempted", "{cause}");
        assert!(*ns > 0.0);
    }
}

/// Blocks that are mapped one by one, and small ones.
const MAPS: &str = r#"
#include <stdlib.h>
static void* volatile kept;
__attribute__((noinline)) void maps(void) {
    for (int i = 0; i < 20; i++) {
        kept = malloc(40 << 20);
        free(kept);
    }
}
__attribute__((noinline)) void reuses(void) {
    for (int i = 0; i < 2000; i++) {
        kept = malloc(32);
        free(kept);
    }
}
int main(void) {
    reuses();
    maps();
    return 0;
}
"#;

#[test]
fn page_faults_and_system_calls_are_limited_by_a_replay() {
    let folder = folder_with("maps", MAPS, &[]);
    let folder = folder.path();
    let within = |function: &str, system_calls: u32| {
        format!("[[within]]\nfunction = \"{function}\"\nwith_system_calls = {system_calls}\n")
    };
    let budget = |text: String| std::fs::write(folder.join("b.toml"), text).unwrap();
    let run = ["--budget", "b.toml", "--", "./maps"];
    budget(within("maps", 0));
    let (code, _, errors) = check(folder, &run);
    assert!(code == 2 && errors.contains("name its allocator"), "{errors}");
    // glibc maps blocks of more than 32 MiB with a system call of their own, and unmaps them.
    let replay = "[replay]\nallocator = \"glibc\"\n".to_owned();
    budget(replay.clone() + &within("maps", 39) + &within("reuses", 10));
    let (code, shown, errors) = check(folder, &run);
    assert_eq!(code, 1, "{shown}{errors}");
    assert!(shown.contains("40, the limit is 39: 1 too many"), "{shown}");
    assert!(shown.contains("maps (maps.c:") && shown.contains("1 broken, 1 kept"), "{shown}");
    budget(replay + &within("maps", 40) + "with_page_faults = 40\n");
    let (code, shown, errors) = check(folder, &run);
    assert_eq!(code, 0, "{shown}{errors}");
    assert!(shown.contains("those of glibc in a replay on one thread"), "{shown}");
}

#[test]
fn a_much_slower_allocator_breaks_a_gate_and_an_equal_one_does_not() {
    let folder = folder_with("maps", MAPS, &[]);
    let folder = folder.path();
    // A malloc of its own, which loops.
    let slow = "#include <stddef.h>\nextern void* __libc_malloc(size_t);\nvoid* malloc(size_t n) \
                {\n    for (volatile int i = 0; i < 20000; i++) {}\n    return \
                __libc_malloc(n);\n}\n";
    compile_text(slow, &folder.join("slow.so"), &["-shared", "-fPIC"]);
    let gate = |allocator: &str| {
        let text = format!(
            "[[latency]]\nallocator = \"{allocator}\"\nbaseline = \"glibc\"\nfigure = \
             \"p50\"\nat_most = 3.0\nrounds = 6\n"
        );
        std::fs::write(folder.join("b.toml"), text).unwrap();
        check(folder, &["--budget", "b.toml", "--", "./maps"])
    };
    let (code, shown, errors) = gate("glibc");
    assert_eq!(code, 0, "{shown}{errors}");
    let (code, shown, errors) = gate("./slow.so");
    assert_eq!(code, 1, "{shown}{errors}");
    assert!(shown.contains("BROKEN  latency: p50 of malloc on ./slow.so, beside glibc"), "{shown}");
}

#[test]
fn a_gate_replays_with_the_settings_of_the_recorded_program() {
    let folder = folder_with("maps", MAPS, &[]);
    let folder = folder.path();
    let budget = "[[latency]]\nallocator = \"jemalloc\"\nbaseline = \"glibc\"\nfigure = \
                  \"p50\"\nat_most = 1000.0\nrounds = 2\n";
    std::fs::write(folder.join("b.toml"), budget).unwrap();
    // With these settings jemalloc ends its process.
    for (journal, settings, code) in [("plain", "", 0), ("strict", "abort_conf:true,none:1", 2)] {
        let record = ["record", "-q", "-o", journal, "--", "./maps"];
        let mut keel = common::keel();
        keel.current_dir(folder).env("MALLOC_CONF", settings).args(record);
        assert!(keel.status().unwrap().success());
        let (found, shown, errors) = check(folder, &["--budget", "b.toml", journal]);
        assert_eq!(found, code, "{shown}{errors}");
        assert_eq!(errors.contains("jemalloc: it crashed"), code == 2, "{errors}");
    }
}
