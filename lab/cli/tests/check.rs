//! `keel check`: unchanged programs pass, one more allocation is caught, every call in a zone is
//! found, and what does not occur cannot be checked.

#![allow(clippy::print_stderr, reason = "a skipped test prints why")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{check, compile_text, folder_with};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

/// A game of two threads with a fixed number of allocations. Arguments: allocations more in each
/// frame after the third; the exit code.
const GAME: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
extern void kl_record_frame_now(void) __attribute__((weak));
extern void kl_record_mark_now(const char*) __attribute__((weak));
static void* volatile kept[64];
__attribute__((noinline)) void draw(int more) {
    for (int i = 0; i < 5 + more; i++) kept[i] = malloc(100);
    for (int i = 0; i < 5 + more; i++) free(kept[i]);
}
static void* audio(void* unused) {
    pthread_setname_np(pthread_self(), "audio");
    for (int i = 0; i < 20; i++) { kept[63] = malloc(32); free(kept[63]); }
    return unused;
}
int main(int count, char** arguments) {
    int more = count > 1 ? atoi(arguments[1]) : 0;
    pthread_t thread;
    pthread_create(&thread, NULL, audio, NULL);
    kl_record_mark_now("load");
    void* level = malloc(5000);
    kl_record_mark_now("play");
    for (int frame = 0; frame < 30; frame++) {
        draw(frame > 2 ? more : 0);
        kl_record_frame_now();
    }
    free(level);
    pthread_join(thread, NULL);
    return count > 2 ? atoi(arguments[2]) : 0;
}
"#;

fn keel(folder: &Path, arguments: &[&str]) -> Output {
    common::keel().current_dir(folder).args(arguments).output().unwrap()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn game() -> tempfile::TempDir {
    folder_with("game", GAME, &[])
}

fn write(folder: &Path, budget: &str) {
    std::fs::write(folder.join("budget.toml"), budget).unwrap();
}

/// `KEEL_CHECK_ROUNDS=100` checks as often as the claim of the guide.
fn rounds() -> u32 {
    std::env::var("KEEL_CHECK_ROUNDS").map_or(10, |rounds| rounds.parse().unwrap())
}

#[test]
fn an_unchanged_program_passes_and_one_more_allocation_a_frame_is_caught() {
    let folder = game();
    let folder = folder.path();
    let (code, _, errors) =
        check(folder, &["--learn", "budget.toml", "--warm-up", "2", "--", "./game"]);
    assert_eq!(code, 0, "{errors}");
    assert!(!errors.contains("check.journal") && !errors.contains("1.journal"), "{errors}");
    let (code, _, errors) = check(folder, &["--learn", "budget.toml", "--", "./game", "1"]);
    assert!(code == 2 && errors.contains("replace it with --force"), "{errors}");
    let budget = std::fs::read_to_string(folder.join("budget.toml")).unwrap();
    assert!(
        budget.contains("[frame]\nwarm_up = 2\noperations = 10\nallocations = 5\n"),
        "{budget}"
    );
    for round in 0..rounds() {
        let (code, shown, errors) = check(folder, &["--budget", "budget.toml", "--", "./game"]);
        assert_eq!(code, 0, "round {round}: {shown}{errors}");
        let (code, shown, errors) =
            check(folder, &["--budget", "budget.toml", "--", "./game", "1"]);
        assert_eq!(code, 1, "round {round}: {shown}{errors}");
        assert!(
            shown.contains("BROKEN  frame: allocations: 6 in frame 3, the limit is 5"),
            "{shown}"
        );
        assert!(shown.contains("draw (game.c:"), "{shown}");
    }
}

#[test]
fn the_program_and_the_budget_fail_with_different_codes() {
    let folder = game();
    let folder = folder.path();
    write(
        folder,
        "[run]\nlargest = 5000\n[[between]]\nfrom = \"load\"\nto = \"play\"\nbytes = 5000\n",
    );
    let run = |program: &[&str]| {
        check(folder, &[&["--budget", "budget.toml", "--", "./game"], program].concat())
    };
    assert_eq!(run(&[]).0, 0);
    let (code, shown, _) = run(&["0", "7"]);
    assert_eq!(code, 3, "{shown}");
    assert!(shown.contains("the program failed: it exited with 7"), "{shown}");
    write(folder, "[run]\nlargest = 4999\n");
    assert_eq!(run(&[]).0, 1);
    assert_eq!(run(&["0", "7"]).0, 3);
    for (arguments, part) in [
        (&["--", "./game"][..], "nothing to check"),
        (&["--zone", "thread=a"], "give a journal, or a program"),
        (&["--zone", "tread=a", "--", "./game"], "is no kind of zone"),
        (&["--budget", "none.toml", "--", "./game"], "cannot read the budget none.toml"),
        (&["--budget", "budget.toml", "--", "./none"], "./none"),
        (&["--budget", "budget.toml", "game"], "game"),
    ] {
        let (code, _, errors) = check(folder, arguments);
        assert_eq!(code, 2, "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {errors}");
    }
    write(folder, "[run]\nlargets = 1\n");
    let (code, _, errors) = run(&[]);
    assert!(code == 2 && errors.contains("budget.toml: TOML parse error at line 2"), "{errors}");
}

#[test]
fn a_program_that_never_allocates_keeps_a_budget_of_nothing() {
    let folder = folder_with("never", "int main(void) { return 0; }", &[]);
    write(folder.path(), "[run]\nallocations = 0\n");
    let (code, shown, errors) = check(folder.path(), &["--budget", "budget.toml", "--", "./never"]);
    assert_eq!(code, 0, "{shown}{errors}");
}

#[test]
fn what_does_not_occur_cannot_be_checked() {
    let folder = game();
    let folder = folder.path();
    let journal = "game.journal.parquet";
    assert!(keel(folder, &["record", "-q", "--stacks", "100", "--", "./game"]).status.success());
    for (zone, code, part) in [
        ("thread=audo", 2, "no recorded thread has the name `audo`; the names are `audio`, `game`"),
        ("class=fifo", 2, "no recorded thread had the scheduling class"),
        ("marks=load..paly", 2, "no mark `paly`; its marks are `load`, `play`"),
        ("symbol=drow", 2, "no recorded object file has a function `drow`"),
        ("scope=mix", 2, "began no zone `mix`"),
        ("thread=aud*", 1, "40 calls from 1 call site: 20 allocations, 20 frees"),
        ("marks=load..play", 1, "malloc of 4.88 KiB"),
        ("symbol=draw", 1, "300 calls from 2 call sites: 150 allocations, 150 frees"),
        ("symbol=main", 1, "< main (game.c:"),
    ] {
        let (found, shown, errors) = check(folder, &["--zone", zone, journal]);
        assert_eq!(found, code, "{zone}: {shown}{errors}");
        assert!(shown.contains(part), "{zone}: {shown}");
    }
    // The limits of a scope that does not occur are not kept either.
    write(
        folder,
        "[[thread]]\nname = \"nobody\"\nbytes = 0\n[[within]]\nfunction = \"nothing\"\nfrees = 0\n",
    );
    let (code, shown, _) = check(folder, &["--budget", "budget.toml", journal]);
    assert!(code == 2 && shown.matches("CANNOT CHECK").count() == 2, "{shown}");
    // A function that ran without an operation is kept, with a note.
    let (code, shown, _) =
        check(folder, &["--zone", "symbol=kl_*", "--zone", "symbol=_start_", journal]);
    assert_eq!(code, 2, "{shown}");
    // Stacks that are cut off may hide the function.
    assert!(keel(folder, &["record", "-q", "--stacks", "1", "--", "./game"]).status.success());
    let (code, shown, _) = check(folder, &["--zone", "symbol=main", journal]);
    assert!(code == 1 || shown.contains("cut off"), "{shown}");
    assert!(keel(folder, &["record", "-q", "--", "./game"]).status.success());
    let (code, shown, _) = check(folder, &["--zone", "symbol=draw", journal]);
    assert!(code == 2 && shown.contains("no call stacks"), "{shown}");
}

#[test]
fn suppressions_accept_calls_and_the_first_frames_can_be_left_out() {
    let folder = game();
    let folder = folder.path();
    write(
        folder,
        "[[zone]]\nthread = \"game\"\nwarm_up = 29\n[[suppress]]\nsymbol = \"draw\"\n\
         reason = \"issue 7\"\n[[suppress]]\nsymbol = \"unused\"\nreason = \"none\"\n",
    );
    let (code, shown, _) =
        check(folder, &["--budget", "budget.toml", "--format", "json", "--", "./game"]);
    let found = json(&shown);
    // Frame 29 and what follows the last mark: the free in main remains.
    assert_eq!(code, 1, "{shown}");
    assert_eq!(found["zones"][0]["call_sites"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(found["zones"][0]["call_sites"][0]["stacks"][0][0]["function"], "main");
    assert!(shown.contains("the suppression of `unused` accepted no call"), "{shown}");
}

#[test]
fn a_baseline_names_what_is_new_or_has_grown() {
    let folder = game();
    let folder = folder.path();
    let before =
        ["record", "-q", "--stacks", "100", "-o", "before.journal.parquet", "--", "./game"];
    assert!(keel(folder, &before).status.success());
    write(folder, "[frame]\nallocations = 5\n");
    let with = ["--budget", "budget.toml", "--baseline", "before.journal.parquet"];
    let (code, shown, _) = check(folder, &[&with[..], &["--", "./game", "2"]].concat());
    assert_eq!(code, 1);
    assert!(
        shown.contains("7 in frame 3, the limit is 5: 2 too many; in the baseline 5"),
        "{shown}"
    );
    assert!(shown.contains("7 (before: 5)"), "{shown}");
}

#[test]
fn every_format_has_the_broken_limit_and_its_place() {
    let folder = game();
    let folder = folder.path();
    write(
        folder,
        "[frame]\nallocations = 4\n[run]\nlargest = 9000\n[[zone]]\nthread = \"no*body\"\n",
    );
    let mut arguments = vec!["--budget".to_owned(), "budget.toml".to_owned()];
    let formats = ["text", "json", "junit", "sarif", "markdown", "github", "benchmark"];
    for format in formats {
        arguments.extend(["--report".to_owned(), format!("{format}={format}.out")]);
    }
    arguments.extend(["--".to_owned(), "./game".to_owned()]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert_eq!(check(folder, &arguments).0, 1);
    let read =
        |format: &str| std::fs::read_to_string(folder.join(format!("{format}.out"))).unwrap();
    assert!(read("text").contains("CANNOT CHECK  zone thread=no*body"), "{}", read("text"));
    let found = json(&read("json"));
    assert_eq!(found["limits"][1]["outcome"], "broken");
    assert_eq!(found["limits"][1]["call_sites"][0]["stack"][0]["function"], "draw");
    let sarif = json(&read("sarif"));
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], 9, "{sarif}");
    assert_eq!(sarif["runs"][0]["results"][1]["ruleId"], "cannot-check");
    let github = read("github");
    assert!(
        github.contains("game.c,line=9,title=keel check%3A frame%3A allocations::"),
        "{github}"
    );
    let junit = read("junit");
    assert!(junit.contains("tests=\"3\" failures=\"1\" errors=\"1\""), "{junit}");
    let benchmark = json(&read("benchmark"));
    assert_eq!(benchmark[1]["value"], 5, "{benchmark}");
    assert!(read("markdown").contains("| BROKEN | frame: allocations |"), "{}", read("markdown"));
}

/// Functions that allocate or free in four ways, under a callback.
const PLANTED: usize = 200;

fn planted() -> String {
    let mut code = String::from(
        "#include <stdlib.h>\n#define OUT __attribute__((noinline, noclone))\n\
         #define IN static inline __attribute__((always_inline))\nvoid* volatile kept;\n",
    );
    let mut calls = String::new();
    for number in 0..PLANTED {
        let _ = match number % 5 {
            0 => writeln!(code, "OUT void f{number}(void) {{ kept = malloc({number} + 1); }}"),
            1 => writeln!(code, "OUT void* f{number}(void) {{ return malloc({number} + 1); }}"),
            2 => writeln!(code, "IN void f{number}(void) {{ kept = malloc({number} + 1); }}"),
            3 => writeln!(code, "OUT void f{number}(void) {{ free(kept); }}"),
            // A tail call of a tail call.
            _ => writeln!(
                code,
                "OUT void* g{number}(long n) {{ return malloc(n); }}\n\
                 OUT void* f{number}(void) {{ return g{number}({number} + 1); }}"
            ),
        };
        let _ = match number % 5 {
            1 | 4 => writeln!(calls, "    kept = f{number}();"),
            _ => writeln!(calls, "    f{number}();"),
        };
    }
    code + "OUT void callback(void) {\n" + &calls + "}\nint main(void) { callback(); kept = 0; }\n"
}

#[test]
fn every_planted_call_in_a_zone_is_found_with_the_function_that_makes_it() {
    let folder = folder_with("planted", &planted(), &["-O2"]);
    let folder = folder.path();
    let (code, shown, errors) =
        check(folder, &["--zone", "symbol=callback", "--format", "json", "--", "./planted"]);
    assert_eq!(code, 1, "{shown}{errors}");
    let found = json(&shown);
    let mut guilty = BTreeSet::new();
    let mut calls = 0;
    for site in found["zones"][0]["call_sites"].as_array().unwrap() {
        for call in site["calls"].as_array().unwrap() {
            let stack =
                site["stacks"][call["stack"].as_u64().unwrap() as usize].as_array().unwrap();
            let function = |index: usize| stack[index]["function"].as_str().unwrap().to_owned();
            let functions: Vec<String> = (0..stack.len()).map(function).collect();
            assert!(functions.contains(&"callback".to_owned()), "{functions:?}");
            assert!(functions.contains(&"main".to_owned()), "{functions:?}");
            assert!(stack[0]["line"].as_u64().unwrap() > 0, "{functions:?}");
            guilty.insert(functions[0].clone());
            calls += 1;
        }
    }
    assert_eq!(calls, PLANTED);
    let wanted = (0..PLANTED).map(|number| match number % 5 {
        4 => format!("g{number}"),
        _ => format!("f{number}"),
    });
    let wanted: BTreeSet<String> = wanted.collect();
    let missed: Vec<&String> = wanted.difference(&guilty).collect();
    assert!(missed.is_empty(), "missed: {missed:?}");
    // Every function of the chain is in the zone of its own name.
    let (code, shown, _) = check(folder, &["--zone", "symbol=f4", "--", "./planted"]);
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("g4 (planted.c:") && shown.contains("< f4 (planted.c:"), "{shown}");
}

/// A thread with its own scheduling class, which the system grants to root, and a zone of
/// keel/recorder.h.
const AUDIO: &str = r#"
#include <keel/recorder.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>
static void* volatile kept;
static void* audio(void* unused) {
    struct sched_param priority = {.sched_priority = 1};
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) != 0) exit(7);
    kept = malloc(1);
    sleep(2);
    return unused;
}
int main(int count, char** arguments) {
    pthread_t thread;
    kept = malloc(10);
    KEEL_ZONE_BEGIN("mix");
    kept = malloc(20);
    KEEL_ZONE_BEGIN("mix");
    KEEL_ZONE_END("mix");
    free(kept);
    KEEL_ZONE_END("mix");
    kept = malloc(30);
    if (count == 1) return 0;
    pthread_create(&thread, NULL, audio, arguments);
    pthread_join(thread, NULL);
    return 0;
}
"#;

#[test]
fn zones_of_the_header_and_of_a_scheduling_class_are_found() {
    let headers = format!("-I{}", common::root().join("in_process/include").display());
    let folder = folder_with("audio", AUDIO, &[&headers]);
    let folder = folder.path();
    // The header needs no library outside of a recording.
    assert!(Command::new(folder.join("audio")).status().unwrap().success());
    let (code, shown, errors) = check(folder, &["--zone", "scope=mix", "--", "./audio"]);
    assert_eq!(code, 1, "{shown}{errors}");
    assert!(shown.contains("2 calls from 2 call sites: 1 allocation, 1 free"), "{shown}");
    assert!(shown.contains("malloc of 20 B") && shown.contains("free of 20 B"), "{shown}");
    let (code, shown, errors) = check(folder, &["--zone", "class=realtime", "--", "./audio", "1"]);
    if code == 3 {
        eprintln!("SKIPPED: the system grants no SCHED_FIFO: {errors}");
        return;
    }
    assert_eq!(code, 1, "{shown}{errors}");
    assert!(shown.contains("malloc of 1 B"), "{shown}");
}

/// Without symbols the first function of a program has no name, and the deepest stack is still
/// known to be whole.
#[test]
fn a_zone_of_a_library_can_be_checked_in_a_program_without_symbols() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let library = "void* volatile kept;\nvoid callback(int fails) { if (fails) kept = \
                   __builtin_malloc(8); }\nvoid* load(int depth) { return depth > 0 ? \
                   (kept = load(depth - 1)) : __builtin_malloc(16); }\n";
    compile_text(library, &folder.join("libmixer.so"), &["-shared", "-fPIC"]);
    let program = "extern void callback(int);\nextern void* load(int);\n\
                   int main(int count, char** a) { (void)a; for (int i = 0; i < 9; i++) load(i);\n\
                   callback(count > 1); return 0; }\n";
    let place = format!("-Wl,-rpath,{}", folder.display());
    let at = format!("-L{}", folder.display());
    compile_text(program, &folder.join("synth"), &[&at, "-lmixer", &place, "-s"]);
    let zone = ["--zone", "symbol=callback", "--", "./synth"];
    let (code, shown, errors) = check(folder, &zone);
    assert_eq!(code, 0, "{shown}{errors}");
    let (code, shown, _) = check(folder, &[&zone[..], &["fails"]].concat());
    assert!(code == 1 && shown.contains("1 allocation"), "{shown}");
}
