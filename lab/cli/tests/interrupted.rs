//! Ctrl-C, or the end of the terminal, at any moment of `keel compare` ends it soon, and leaves
//! either whole results or nothing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{prefix, root};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MOMENTS: u64 = 50;
/// In the environment of keel and of its players, so that processes left behind are found.
const MARK: &str = "KEEL_TEST_OF_INTERRUPTS";

/// The processes of this test that are still running.
fn left_running(mark: &str) -> Vec<String> {
    let wanted = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_ours = |folder: &Path| {
        std::fs::read(folder.join("environ")).is_ok_and(|environment| {
            environment.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes())
        })
    };
    let folders = processes.map(|entry| entry.path()).filter(|folder| is_ours(folder));
    folders
        .map(|folder| std::fs::read_to_string(folder.join("cmdline")).unwrap_or_default())
        .collect()
}

/// A pseudorandom moment of the first `span`, spread over all of it.
fn moment(number: u64, span: Duration) -> Duration {
    let jitter = number.wrapping_mul(6_364_136_223_846_793_005) >> 33;
    let share = (number as f64 + jitter as f64 / (1u64 << 31) as f64) / MOMENTS as f64;
    span.mul_f64(share)
}

/// The journal that is compared: five frames of a game, so that a comparison is short.
const JOURNAL: &str = "five.journal.parquet";

fn prepare(folder: &Path) {
    let sample = root().join("samples/minetest-slice.journal.parquet");
    let mut slice = Command::new(env!("CARGO_BIN_EXE_keel"));
    slice.current_dir(folder).arg("slice").arg(sample);
    slice.args(["--frames", "100..104", "--threads", "0", "-o", JOURNAL]);
    assert!(slice.output().unwrap().status.success());
}

struct Interrupted {
    code: Option<i32>,
    took: Duration,
}

/// Compares, with a signal after `delay`; None for none.
fn compare(folder: &Path, mark: &str, delay: Option<(&str, Duration)>) -> Interrupted {
    let mut keel = Command::new(env!("CARGO_BIN_EXE_keel"))
        .current_dir(folder)
        .env("KEEL_PREFIX", prefix())
        .env("TMPDIR", folder)
        .env(MARK, mark)
        .args(["compare", JOURNAL, "-a", "glibc", "-r", "2", "-o", "results"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    if let Some((signal, delay)) = delay {
        std::thread::sleep(delay);
        // It may have ended before.
        Command::new("kill").args([signal, &keel.id().to_string()]).output().unwrap();
    }
    let code = keel.wait().unwrap().code();
    Interrupted { code, took: begin.elapsed() }
}

#[test]
fn an_interrupt_at_any_moment_leaves_whole_results_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let whole = compare(folder.path(), "whole", None);
    assert_eq!(whole.code, Some(0));
    let results = folder.path().join("results");
    std::fs::remove_dir_all(&results).unwrap();
    let (mut stopped, mut kept) = (0, 0);
    for number in 0..MOMENTS {
        let mark = format!("{}-{number}", std::process::id());
        let delay = moment(number, whole.took);
        let signal = ["-INT", "-HUP"][number as usize % 2];
        let found = compare(folder.path(), &mark, Some((signal, delay)));
        // Before the handler is installed, the signal ends keel.
        assert!(matches!(found.code, Some(0 | 130) | None), "after {delay:?}: {:?}", found.code);
        assert_eq!(left_running(&mark), [""; 0], "after {delay:?}");
        stopped += u64::from(found.code == Some(130));
        if results.exists() {
            kept += 1;
            keel_results::Comparison::load(&results).unwrap();
            std::fs::remove_dir_all(&results).unwrap();
        }
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "after {delay:?}: {left:?}");
    }
    assert!(stopped > MOMENTS / 4 && kept > 0, "{stopped} stopped, {kept} with results");
}
