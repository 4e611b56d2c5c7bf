//! The first screen of the page: the lowest allocators, the worst hitch and its cause.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests may panic and print why they are skipped"
)]

mod common;
mod window;

use keel_results::{
    CAUSE_FAULT, CAUSE_INTERRUPT, CAUSE_INTERRUPTED, CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT,
    CAUSE_SYSCALL,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use window::{Window, screenshots};

/// A slow call: allocator, latency in ms, cause.
type Slow = (&'static str, u32, u8);

/// Builds a page on which the first mallocs have the given latencies, one call for each entry.
fn make_page(folder: &Path, slow: &[Slow]) -> PathBuf {
    let plant = |name: &str, journal: &common::Journal, ticks: &mut [u32], cause: &mut [u8]| {
        let mallocs = (0..journal.op.len()).filter(|row| journal.op[*row] == 0);
        for (row, (allocator, ms, why)) in mallocs.zip(slow) {
            // The random latencies of the synthetic run are shorter than every entry.
            (ticks[row], cause[row]) = match *allocator == name {
                true => (ms * (common::TICKS_PER_NS * 1e6) as u32, *why),
                false => (50, 0),
            };
        }
    };
    common::write_planted(folder, 60_000, 4, 5, &plant);
    common::page(&[folder])
}

fn text(window: &Window, selector: &str) -> String {
    let found = window.eval(&format!(
        "[...document.querySelectorAll({selector:?})].map((e) => \
            e.textContent).join('\\n').replaceAll('\u{a0}', ' ')"
    ));
    found.as_str().unwrap().to_owned()
}

#[test]
fn worst_hitch_of_an_allocator_precedes_a_longer_preempted_call() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let slow = [
        ("system", 40, CAUSE_INTERRUPTED),
        ("mimalloc", 30, CAUSE_SLEPT),
        ("keel", 12, CAUSE_FAULT),
        ("jemalloc", 9, 0),
    ];
    window.show(&make_page(folder.path(), &slow));
    window.wait_until_drawn();
    let first = text(&window, ".hitch-card:first-child");
    assert!(
        first.starts_with("Slowest call attributed to an allocator: 12 ms in a malloc"),
        "{first}"
    );
    assert!(first.contains("with keel, at "), "{first}");
    assert!(
        first.contains(
            "Cause: page fault. Attributed to the allocator: it used memory that was not"
        ),
        "{first}"
    );
    let second = text(&window, ".hitch-card:nth-child(2)");
    let beside = "A longer call, attributed to the operating system: 40 ms in a malloc";
    assert!(second.starts_with(beside), "{second}");
    let verdict = "Cause: preempted. Attributed to the operating system, because it ran another";
    assert!(second.contains(verdict) && second.contains("with system"), "{second}");
    assert_eq!(window.number("document.querySelectorAll('.hitch-card').length"), 2.0);
    window.eval("document.querySelectorAll('.hitch-card button')[1].click()");
    window.wait_until_drawn();
    let detail = text(&window, "#detail");
    assert!(
        detail.contains(
            "Attribution Attributed to the operating system, because it ran another thread"
        ),
        "{detail}"
    );
    window.assert_no_problems();
}

#[test]
fn slowest_calls_table_shows_the_attribution_of_each_cause() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let attributions = [
        (CAUSE_INTERRUPTED, "operating system"),
        (CAUSE_INTERRUPTED | CAUSE_SYSCALL, "unknown"),
        (CAUSE_INTERRUPTED | CAUSE_FAULT, "unknown"),
        (CAUSE_INTERRUPTED | CAUSE_SLEPT, "unknown"),
        (CAUSE_SLEPT, "unknown"),
        (CAUSE_INTERRUPTED_UNKNOWN, "unknown"),
        (CAUSE_INTERRUPT, "unknown"),
        (CAUSE_INTERRUPT | CAUSE_FAULT, "allocator"),
        (CAUSE_SYSCALL, "allocator"),
        (CAUSE_FAULT | CAUSE_SYSCALL, "allocator"),
        // No cause: the machine delayed a call of null by 20 ms, so it may also have delayed a call
        // by 30 ms, but not by 50 ms.
        (0, "unknown"),
    ];
    let mut slow: Vec<Slow> =
        attributions.iter().zip(0..).map(|((cause, _), at)| ("keel", 40 - at, *cause)).collect();
    slow.extend([("keel", 50, 0), ("null", 20, 0)]);
    window.show(&make_page(folder.path(), &slow));
    window.wait_until_drawn();
    let cells = "[...document.querySelectorAll('#slowest tbody tr')].map((r) => \
        [parseFloat(r.cells[1].textContent), [...r.querySelectorAll('.words')][0].textContent])";
    let cells: Vec<(f64, String)> = serde_json::from_value(window.eval(cells)).unwrap();
    let mut expected: Vec<(f64, String)> = attributions
        .iter()
        .zip(0..)
        .map(|((_, short), at)| (f64::from(40 - at), (*short).to_owned()))
        .collect();
    expected.insert(0, (50.0, "allocator".to_owned()));
    assert_eq!(cells[..expected.len()], expected);
    let first = text(&window, ".hitch-card:first-child");
    assert!(
        first.starts_with("Slowest call attributed to an allocator: 50 ms")
            && first.contains("Cause: the allocator's own work.")
            && first.contains(
                "Attributed to the allocator, because no interruption explains its time."
            ),
        "{first}"
    );
    assert_eq!(
        window.number("document.querySelectorAll('.hitch-card').length"),
        1.0,
        "no call is longer"
    );
    window.assert_no_problems();
}

#[test]
fn a_hitch_of_a_run_that_is_not_drawn_is_shown() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    make_page(folder.path(), &[("keel", 12, CAUSE_FAULT)]);
    let path = folder.path().join(keel_results::RESULTS_FILE);
    let mut results: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let allocators = results["allocators"].as_array_mut().unwrap();
    let keel = allocators.iter_mut().find(|one| one["name"] == "keel").unwrap();
    let runs = keel["runs"].as_array_mut().unwrap();
    let not_drawn = runs.iter().position(|run| run["raw"].is_null()).unwrap();
    let ticks = 90 * (common::TICKS_PER_NS * 1e6) as u32;
    runs[not_drawn]["outliers"] =
        json!([{"row": 7, "start": 1, "ticks": ticks, "cause": CAUSE_FAULT, "faults": 7}]);
    std::fs::write(&path, results.to_string()).unwrap();
    let page = common::page(&[folder.path()]);
    window.show(&page);
    window.wait_until_drawn();
    let card = text(&window, ".hitch-card:first-child");
    let run = format!(
        "The call is from run {} of 5 of keel; the other calls in the charts are of another run.",
        not_drawn + 1
    );
    assert!(card.starts_with("Slowest call attributed to an allocator: 90 ms in a "), "{card}");
    assert!(card.contains("Cause: 7 page faults.") && card.contains(&run), "{card}");
    window.eval("document.querySelector('.hitch-card button').click()");
    window.until("!document.getElementById('detail').hidden");
    let detail = text(&window, "#detail");
    assert!(detail.starts_with("90 ms in ") && detail.contains("7 page faults"), "{detail}");
    // The call of the drawn run was short; this one was not.
    assert!(!detail.contains("keel, at least half of the time"), "{detail}");
    assert!(!detail.contains("keel and "), "{detail}");
    window.assert_no_problems();
}

#[test]
fn the_call_of_the_worst_frame_is_one_that_counts_for_its_time() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let ms = (common::TICKS_PER_NS * 1e6) as u32;
    let plant = |_: &str, journal: &common::Journal, ticks: &mut [u32], cause: &mut [u8]| {
        let rows = (0..journal.op.len()).filter(|row| journal.frame[*row] == 20);
        let slow = [(40 * ms, CAUSE_INTERRUPTED), (12 * ms, CAUSE_FAULT)];
        for (row, call) in rows.zip(slow) {
            (ticks[row], cause[row]) = call;
        }
    };
    common::write_planted(folder.path(), 60_000, 3, 3, &plant);
    let page = common::page(&[folder.path()]);
    window.show(&page);
    window.wait_until_drawn();
    let shown = text(&window, "#worst-frame");
    assert!(shown.contains("it is frame 20 with 12."), "{shown}");
    assert!(shown.contains("Its slowest call: 12 ms in "), "{shown}");
    window.eval("document.querySelectorAll('#worst-frame button')[1].click()");
    window.until("!document.getElementById('detail').hidden");
    assert!(text(&window, "#detail h3").starts_with("12 ms in "));
    window.assert_no_problems();
}

/// Checks that an element ends within a window of this height.
fn assert_ends_within(window: &Window, selector: &str, height: f64) {
    let [_, top, _, tall] = window.bounds_of(selector);
    assert!(tall > 0.0 && top + tall <= height, "{selector} ends at {} of {height}", top + tall);
}

#[test]
fn first_screen_lists_the_lowest_allocators_of_each_figure() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(folder.path(), &[]);
    window.show(&page);
    window.wait_until_drawn();
    let of = |selector: &str| text(&window, selector);
    // One answer for each criterion, with the same title. Percentiles name their operation.
    assert_eq!(of("#answers dt"), of(".criterion h3"));
    let titles = of(".criterion h3");
    assert!(titles.contains("malloc p50") && titles.contains("malloc p99.9\n"), "{titles}");
    // The card of an answer shows the same allocators in bold.
    let bold = "[...document.querySelectorAll('.criterion')].map((c) => \
        [...c.querySelectorAll('.strip.best .allocator')].map((w) => w.textContent))";
    let bold: Vec<Vec<String>> = serde_json::from_value(window.eval(bold)).unwrap();
    let answers = of("#answers b");
    let mut alone = 0;
    for (answer, bold) in answers.lines().zip(&bold) {
        let names: Vec<&str> = bold.iter().map(String::as_str).collect();
        match names.as_slice() {
            [] => assert!(answer == "all" || answer == "undecided", "{answer}"),
            [only] => {
                assert_eq!(answer, *only);
                alone += 1;
            }
            several => {
                assert!(several.iter().all(|name| answer.contains(name)), "{answer}: {several:?}")
            }
        }
    }
    assert!(alone > 0, "no metric has a single lowest allocator: {bold:?}");
    assert_ends_within(&window, "#hitch", 900.0);
    assert_ends_within(&window, "#picture", 900.0);
    // What to do, why and at what price, and the worst hitch, come before all else.
    let order = "['grade', 'headline', 'picture', 'changes', 'advice', 'answers'].map((id) => \
        document.getElementById(id).getBoundingClientRect().top)";
    let order: Vec<f64> = serde_json::from_value(window.eval(order)).unwrap();
    assert!(order.is_sorted(), "{order:?}");
    assert!(of("#grade").starts_with("The choice of allocator "), "{}", of("#grade"));
    let apart = "document.querySelector('main').innerText.match(/\\d (?:[nµm]s|[KMG]iB|%)/g) \
        ?? []";
    assert_eq!(window.eval(apart), json!([]), "a number may be broken from its unit");
    window.screenshot("first-screen-1280.png", false);
    window.assert_no_problems();

    let phone = Window::open(390, 844, &screenshots()).unwrap();
    phone.show(&page);
    phone.wait_until_drawn();
    assert_ends_within(&phone, "#picture", 844.0);
    phone.screenshot("first-screen-390.png", false);
}

/// The visible headings of the table at a glance.
fn headings(window: &Window) -> Vec<String> {
    let seen = "[...document.querySelectorAll('#glance thead th')].filter((h) => \
        h.getClientRects().length) .map((h) => h.textContent)";
    serde_json::from_value(window.eval(seen)).unwrap()
}

fn overflowing(window: &Window) -> Value {
    window.eval(
        "['glance', 'answers', 'hitch'].map((id) => document.getElementById(id)) .filter((e) => \
         e.scrollWidth > e.clientWidth).map((e) => [e.id, e.scrollWidth, e.clientWidth])",
    )
}

#[test]
fn table_at_a_glance_fits_a_phone_and_a_tap_shows_the_other_figures() {
    let Some(window) = Window::open(390, 844, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    window.enable_touch();
    window.show(&make_page(folder.path(), &[]));
    window.wait_until_drawn();
    let all = text(&window, "#glance thead th");
    let first = headings(&window);
    assert_eq!(first, ["allocator", "malloc p99.9", "Worst frame: time in calls", "Peak memory"]);
    // The length of an allocator's name with settings.
    let lengthen = "document.querySelector('#glance tbody .name').lastChild.textContent = \
        'keel:KEEL_KEEPER=on,KEEL_X=1'";
    window.eval(lengthen);
    assert_eq!(overflowing(&window), json!([]));
    window.eval(
        "document.getElementById('glance').scrollIntoView({ behavior: 'instant', block: 'center' \
         })",
    );
    let [left, top, width, height] = window.bounds_of("#glance [aria-pressed=false]");
    window.touch("touchStart", &[(left + width / 2.0, top + height / 2.0)]);
    window.touch("touchEnd", &[]);
    window.wait_until_drawn();
    let second = headings(&window);
    window.eval(lengthen);
    assert_eq!(overflowing(&window), json!([]));
    let mut seen = [&first[..], &second[1..]].concat();
    seen.sort();
    let mut wanted: Vec<&str> = all.lines().collect();
    wanted.sort_unstable();
    assert_eq!(seen, wanted, "every column is in one of the two parts");
    assert_eq!(
        window.eval("document.querySelector('#glance [aria-pressed=true]').textContent"),
        "Other metrics"
    );
    window.assert_no_problems();

    let wide = Window::open(1280, 900, &screenshots()).unwrap();
    wide.show(&folder.path().join("report.html"));
    wide.wait_until_drawn();
    assert_eq!(headings(&wide).len(), all.lines().count(), "a wide window shows all columns");
    assert_eq!(
        wide.number("document.querySelectorAll('#glance .choice')[0].getClientRects().length"),
        0.0
    );
    wide.assert_no_problems();
}

#[test]
fn page_markdown_and_terminal_show_the_embedded_sentences() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let slow = [
        ("system", 40, CAUSE_INTERRUPTED | CAUSE_FAULT),
        ("keel", 12, CAUSE_SYSCALL),
        ("jemalloc", 11, 0),
    ];
    window.show(&make_page(folder.path(), &slow));
    window.wait_until_drawn();
    let markdown = keel_report::markdown(folder.path(), keel_report::Matters::default())
        .unwrap()
        .replace("**", "");
    let comparison = keel_results::Comparison::load(folder.path()).unwrap();
    let terminal = keel_report::verdict(&comparison, folder.path()).unwrap();
    let facts = "JSON.parse(document.querySelector('script.comparison-facts').textContent)";
    let hitches = window.eval(&format!("{facts}.hitches"));
    assert_eq!(hitches.as_array().unwrap().len(), 2);
    for (index, hitch) in hitches.as_array().unwrap().iter().enumerate() {
        let field = |name: &str| hitch[name].as_str().unwrap();
        let card = format!(".hitch-card:nth-child({})", index + 1);
        let lines = text(&window, &format!("{card} :is(summary, p)"));
        let lines: Vec<&str> = lines.lines().collect();
        let whole = [field("title"), field("sentence"), field("cause")].join(" ");
        let fine = [field("verdict"), field("others"), "Show call"].join(" ");
        // Only the first card is open. Of the others, the title is in sight.
        let (shown, rest) = lines.split_at(lines.len() - 1);
        assert_eq!((shown.len(), shown.join(" "), rest), (index + 1, whole.clone(), &[&*fine][..]));
        let folded = format!("document.querySelector('{card} > details:not([open])') !== null");
        assert_eq!(window.eval(&folded), Value::Bool(index > 0));
        // Markdown and the terminal omit the thread and the other allocators.
        let (when, _) = whole.split_once(", on thread").unwrap();
        for output in [&markdown, &terminal] {
            assert!(
                output.contains(when) && output.contains(field("cause")),
                "{lines:?}: {output}"
            );
            assert!(output.contains(field("verdict")), "{lines:?}: {output}");
        }
    }
    assert!(terminal.contains("A longer call, which cannot be attributed: 40 ms"), "{terminal}");
    let cause = "Cause: preempted, page fault. Attribution unknown: the kernel worked";
    assert!(terminal.contains(cause), "{terminal}");
    let sentences = text(&window, ".criterion .sentence");
    let embedded = window.eval(&format!("{facts}.verdict.criteria.map((one) => one.sentence)"));
    let embedded: Vec<String> = serde_json::from_value(embedded).unwrap();
    assert_eq!(sentences.lines().collect::<Vec<_>>(), embedded);
    window.assert_no_problems();
}
