//! The page of a benchmark suite in a headless browser: charts, options, a failed run, and a narrow
//! screen. Without Chromium the test prints a message and passes.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic and print")]

mod window;

use keel_report::suite_page;
use keel_results::{
    Suite, SuiteAllocator, SuiteHead, SuiteMeasured, SuiteOutcome, SuiteRun, SuiteWorkload,
};
use serde_json::{Value, json};
use window::{Window, screenshots};

const ALLOCATORS: [&str; 3] = ["keel", "glibc", "jemalloc"];
const WORKLOADS: [&str; 2] = ["synthetic/larson", "patterns/tree"];

/// keel takes 1 s, the others 2 s and 4 s. The run of jemalloc on the tree fails in the last round.
fn suite() -> Suite {
    let workload = |key: &str| {
        let (suite, name) = key.split_once('/').unwrap();
        SuiteWorkload { suite: suite.into(), name: name.into(), ..SuiteWorkload::default() }
    };
    let allocator = |name: &str| SuiteAllocator { name: name.into(), ..SuiteAllocator::default() };
    let mut runs = Vec::new();
    for round in 0..3 {
        for key in WORKLOADS {
            for (name, elapsed_s) in ALLOCATORS.into_iter().zip([1.0, 2.0, 4.0]) {
                let measured = SuiteMeasured {
                    elapsed_s,
                    cpu_s: elapsed_s,
                    peak_bytes: (8e6 / elapsed_s) as u64,
                    minor_faults: 100,
                    average_bytes: Some((6e6 / elapsed_s) as u64),
                    system_calls: Some(50),
                    p999_ns: Some(200.0 * elapsed_s),
                    worst_ns: Some(9000),
                    ..SuiteMeasured::default()
                };
                let failed = (round, key, name) == (2, "patterns/tree", "jemalloc");
                runs.push(SuiteRun {
                    workload: key.into(),
                    allocator: name.into(),
                    round,
                    outcome: match failed {
                        true => SuiteOutcome::Failed("it was ended by signal 11".into()),
                        false => SuiteOutcome::Measured(measured),
                    },
                    ..SuiteRun::default()
                });
            }
        }
    }
    let head = SuiteHead {
        workloads: WORKLOADS.map(workload).to_vec(),
        allocators: ALLOCATORS.map(allocator).to_vec(),
        started: "2026-11-22T10:00:00Z".into(),
        ..SuiteHead::default()
    };
    Suite { head, runs }
}

fn count(window: &Window, selector: &str) -> usize {
    window.number(&format!("document.querySelectorAll({selector:?}).length")) as usize
}

/// The texts of the elements.
fn texts(window: &Window, selector: &str) -> Value {
    window.eval(&format!(
        "[...document.querySelectorAll({selector:?})].map((one) => one.textContent.trim())"
    ))
}

fn click(window: &Window, container: &str, label: &str) {
    let script = format!(
        "[...document.querySelectorAll({container:?} + ' button')].find((one) => \
         one.textContent.trim() === {label:?}).click()"
    );
    window.eval(&script);
}

#[test]
fn the_page_shows_every_allocator_and_its_options_change_it() {
    let Some(window) = Window::open(1280, 1000, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("suite.html");
    std::fs::write(&page, suite_page(&suite())).unwrap();
    window.show(&page);
    window.assert_no_problems();
    // Two workloads on three allocators, of which one failed once.
    assert_eq!(count(&window, "#time circle"), 5);
    assert_eq!(texts(&window, "#time .failed title"), json!(["jemalloc"]));
    assert_eq!(
        texts(&window, "#heat td"),
        json!(["1.00", "2.00", "4.00", "1.00", "2.00", "failed"])
    );
    assert_eq!(count(&window, "#runs tbody tr"), 9);
    assert_eq!(count(&window, "#tail circle"), 5);
    click(&window, "#memory-toolbar", "average over the run");
    assert_eq!(count(&window, "#memory circle"), 5);
    assert!(texts(&window, "#cautions li").to_string().contains("signal 11"));
    // Only the workload that all completed is in the scatter; keel and glibc and jemalloc trade
    // time for memory, so that all are on the front.
    assert_eq!(texts(&window, "#scatter .on-front"), json!(ALLOCATORS));
    window.screenshot("suite-1280.png", true);

    click(&window, "#controls", "patterns");
    assert_eq!(count(&window, "#heat td"), 3);
    click(&window, "#controls", "all suites");
    click(&window, "#controls", "jemalloc");
    assert_eq!((count(&window, "#time circle"), count(&window, "#heat td")), (4, 4));
    window.eval(
        "(() => { const base = document.querySelector('#controls select'); base.value = 'glibc'; \
         base.dispatchEvent(new Event('change')); })()",
    );
    assert_eq!(texts(&window, "#heat td"), json!(["0.50", "1.00", "0.50", "1.00"]));
    click(&window, "#heat-toolbar", "peak memory");
    assert_eq!(texts(&window, "#heat td"), json!(["2.00", "1.00", "2.00", "1.00"]));
    click(&window, ".top", "Dark");
    window.assert_no_problems();
    window.screenshot("suite-1280-dark.png", true);
}

#[test]
fn the_notes_explain_one_repeat_and_the_memory_after_the_end() {
    let Some(window) = Window::open(1280, 1000, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("suite.html");
    let shown = |suite: &Suite| {
        std::fs::write(&page, suite_page(suite)).unwrap();
        window.show(&page);
        window.assert_no_problems();
        texts(&window, "#cautions li, #means-note").to_string()
    };
    let mut suite = suite();
    let (repeat, after) = ("repeated, because the machine disturbed", "Memory 1 s after the end");
    let text = shown(&suite);
    assert!(!text.contains(repeat) && !text.contains(after), "{text}");
    suite.runs[0].discarded.resize_with(1, Default::default);
    for run in suite.runs.iter_mut().filter(|run| run.workload == WORKLOADS[1]) {
        if let SuiteOutcome::Measured(measured) = &mut run.outcome {
            measured.after_bytes = Some(3 << 20);
        }
    }
    let text = shown(&suite);
    assert!(text.contains(&format!("1 run was {repeat} it. ")), "{text}");
    assert!(text.contains(after), "{text}");
    suite.runs[0].discarded.resize_with(2, Default::default);
    let text = shown(&suite);
    assert!(text.contains(&format!("2 runs were {repeat} them. ")), "{text}");
}

#[test]
fn versions_of_an_allocator_have_one_colour_and_different_shapes() {
    let Some(window) = Window::open(1280, 1000, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("suite.html");
    let mut suite = suite();
    let rename = |name: &mut String| {
        if name == "glibc" {
            "jemalloc.so:MALLOC_CONF=thp:always".clone_into(name);
        }
    };
    suite.head.allocators.iter_mut().for_each(|one| rename(&mut one.name));
    suite.runs.iter_mut().for_each(|run| rename(&mut run.allocator));
    std::fs::write(&page, suite_page(&suite)).unwrap();
    window.show(&page);
    window.assert_no_problems();
    assert_eq!((count(&window, "#time circle"), count(&window, "#time polygon")), (4, 1));
    let colours = window.eval(
        "new Set([...document.querySelectorAll('#time circle, #time polygon')].map((one) => \
         one.getAttribute('fill'))).size",
    );
    assert_eq!(colours, json!(2));
}

#[test]
fn the_page_fits_a_narrow_screen() {
    let Some(window) = Window::open(390, 844, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("suite.html");
    std::fs::write(&page, suite_page(&suite())).unwrap();
    window.show(&page);
    window.assert_no_problems();
    assert!(window.number("document.documentElement.scrollWidth") <= 390.0);
    window.screenshot("suite-390.png", true);
}
