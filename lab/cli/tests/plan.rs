//! `keel compare plan`, `run` and `merge`: the rounds of a comparison, run separately.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::print_stderr, reason = "a skipped test is reported")]

mod common;

use common::{prefix, root};
use keel_results::Comparison;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keel"));
    command.current_dir(folder).env("KEEL_PREFIX", prefix()).args(arguments);
    command
}

fn keel(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = keel(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", messages(&output));
    messages(&output)
}

/// A folder with a journal of some frames of a game, and a plan of three rounds.
fn planned() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let sample = root().join("samples/minetest-slice.journal.parquet");
    let sample = sample.to_str().unwrap();
    let part = ["slice", sample, "--frames", "100..104", "--threads", "0", "-o", "five.parquet"];
    succeed(folder.path(), &part);
    let plan = ["compare", "plan", "five.parquet", "-a", "glibc,keel", "-r", "3", "-o", "plan"];
    let said = succeed(folder.path(), &plan);
    assert!(said.contains("3 rounds"), "{said}");
    folder
}

fn rounds(comparison: &Comparison) -> Vec<Vec<u32>> {
    let of = |one: &keel_results::AllocatorResult| one.runs.iter().map(|run| run.round).collect();
    comparison.allocators.iter().map(of).collect()
}

#[test]
fn rounds_run_in_any_order_and_become_one_comparison() {
    let planned = planned();
    let folder = planned.path();
    let early = keel(folder, &["compare", "merge", "plan"]);
    assert!(messages(&early).contains("there is no complete round"), "{}", messages(&early));
    succeed(folder, &["compare", "run", "plan", "--round", "2"]);
    let said = messages(&keel(folder, &["compare", "merge", "plan", "-o", "one"]));
    assert!(said.contains("1 of the 3 planned rounds are complete"), "{said}");
    let said = succeed(folder, &["compare", "run", "plan"]);
    assert!(said.contains("round 2 is complete") && said.contains("round 1 is done"), "{said}");
    succeed(folder, &["compare", "merge", "plan", "-o", "all"]);
    let merged = Comparison::load(&folder.join("all")).unwrap();
    assert_eq!(rounds(&merged), vec![vec![0, 1, 2]; 3], "two allocators and the floor");
    assert!(merged.paired.iter().any(|pair| pair.rounds == 3));
    // The page shows calls of the first round.
    succeed(folder, &["report", "all", "-o", "page.html"]);
    let again = keel(folder, &["compare", "merge", "plan", "-o", "all"]);
    assert!(messages(&again).contains("--force"), "{}", messages(&again));
}

#[test]
fn an_interrupted_comparison_is_continued() {
    let planned = planned();
    let folder = planned.path();
    let complete = || {
        let rounds = std::fs::read_dir(folder.join("plan/rounds")).unwrap().flatten();
        rounds.filter(|round| round.path().join("results.json").exists()).count()
    };
    let run = ["compare", "run", "plan"];
    let mut keel = command(folder, &run).stderr(Stdio::null()).spawn().unwrap();
    while complete() == 0 && keel.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Command::new("kill").args(["-INT", &keel.id().to_string()]).output().unwrap();
    let code = keel.wait().unwrap().code();
    // On a machine that is busy elsewhere, all rounds may have been done before the signal.
    assert!(matches!(code, Some(130 | 0)), "{code:?}");
    assert!(code == Some(0) || complete() < 3);
    let left = std::fs::read_dir(folder.join("plan/rounds")).unwrap().flatten();
    assert_eq!(left.count(), complete(), "nothing of the interrupted round remains");
    succeed(folder, &run);
    assert_eq!(complete(), 3);
}

#[test]
fn another_journal_and_unknown_rounds_are_refused() {
    let planned = planned();
    let folder = planned.path();
    let refused = |arguments: &[&str]| {
        let output = keel(folder, arguments);
        assert_eq!(output.status.code(), Some(1), "{}", messages(&output));
        messages(&output)
    };
    let said = refused(&["compare", "run", "plan", "--round", "3"]);
    assert!(said.contains("rounds 0 to 2"), "{said}");
    let said = refused(&["compare", "run", "nowhere"]);
    assert!(said.contains("keel compare plan JOURNAL"), "{said}");
    let said = refused(&["compare", "plan", "five.parquet", "-a", "glibc", "-o", "plan"]);
    assert!(said.contains("not empty"), "{said}");
    std::fs::write(folder.join("other.txt"), "a 16 1000 1 5\n").unwrap();
    let said = refused(&["compare", "run", "plan", "--journal", "other.txt"]);
    assert!(said.contains("not the journal that was planned with"), "{said}");
    std::fs::write(folder.join("plan/plan.json"), "{}").unwrap();
    assert!(refused(&["compare", "run", "plan"]).contains("not a plan"));
}

/// A Python with DuckDB; None if there is none.
fn python() -> Option<PathBuf> {
    let candidates = [root().join("build/venv/bin/python"), PathBuf::from("python3")];
    candidates.into_iter().find(|python| {
        let import = Command::new(python).args(["-c", "import duckdb"]).output();
        import.is_ok_and(|output| output.status.success())
    })
}

const RUN_QUERIES: &str = "import duckdb, json, sys\n\
    for query in json.load(sys.stdin):\n\
    \x20   rows = duckdb.sql(query).fetchall()\n\
    \x20   assert rows, query\n\
    \x20   assert all(value is not None for row in rows for value in row), (query, rows)\n\
    \x20   print(len(rows))\n";

#[test]
fn the_queries_of_the_guide_work() {
    let guide = std::fs::read_to_string(root().join("docs/guide/rounds.md")).unwrap();
    let queries: Vec<&str> =
        guide.split("```sql\n").skip(1).filter_map(|block| block.split("```").next()).collect();
    assert!(queries.len() >= 4);
    let Some(python) = python() else {
        eprintln!("SKIPPED: no Python with DuckDB (pip install duckdb)");
        return;
    };
    let planned = planned();
    succeed(planned.path(), &["compare", "run", "plan"]);
    let mut child = Command::new(python)
        .current_dir(planned.path())
        .args(["-c", RUN_QUERIES])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    serde_json::to_writer(child.stdin.take().unwrap(), &queries).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), queries.len());
}

#[test]
fn a_plan_has_a_fixed_number_of_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let sample = root().join("samples/minetest-slice.journal.parquet");
    for runs in ["auto", "2..4"] {
        let plan = ["compare", "plan", sample.to_str().unwrap(), "-a", "glibc", "-r", runs];
        let output = keel(folder.path(), &plan);
        assert_eq!(output.status.code(), Some(1), "{runs}");
        assert!(messages(&output).contains("give one number with -r"), "{}", messages(&output));
    }
    assert!(folder.path().read_dir().unwrap().next().is_none(), "a plan was written");
}
