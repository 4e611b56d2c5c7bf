//! The flame graph and the stacks of slow calls, in a headless browser.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests may panic and print why they are skipped"
)]

mod common;
mod window;

use serde_json::Value;
use std::path::{Path, PathBuf};
use window::{Window, screenshots};

const ROWS: usize = 20_000;

/// A page whose calls come from 0x1000, which 0x3000 called (a quarter), and from 0x2000.
fn make_page(folder: &Path) -> (PathBuf, common::Journal) {
    let (journal, _) = common::write(folder, ROWS, 2, 2);
    let stacks: Vec<u32> = (0..ROWS).map(|row| if row % 4 == 0 { 1 } else { 2 }).collect();
    let document = r#"{"modules": [], "stacks": {
        "sites": [[-1, 12288], [-1, 4096], [-1, 8192]], "nodes": [[-1, 0], [0, 1], [-1, 2]]}}"#;
    journal.save_with_stacks(folder, &stacks, document);
    (common::page(&[folder]), journal)
}

fn text(window: &Window, selector: &str) -> String {
    let script = format!("document.querySelector({selector:?}).textContent");
    window.eval(&script).as_str().unwrap().replace('\u{a0}', " ")
}

fn texts(window: &Window, selector: &str) -> Vec<String> {
    let script = format!("[...document.querySelectorAll({selector:?})].map((e) => e.textContent)");
    serde_json::from_value(window.eval(&script)).unwrap()
}

fn is_hidden(window: &Window, id: &str) -> bool {
    window.eval(&format!("document.getElementById({id:?}).hidden")) == Value::Bool(true)
}

fn choose(window: &Window, label: &str, value: &str) {
    window.eval(&format!(
        "(() => {{ const s = document.querySelector('select[aria-label={label:?}]'); s.value = \
         {value:?}; s.dispatchEvent(new Event('change')); }})()"
    ));
    window.wait_until_drawn();
}

/// Waits for the details of the selected call, which need the slow calls.
fn wait_for_detail(window: &Window, name: &str) {
    window.until(&format!(
        "!document.getElementById('stack-detail').hidden && \
         document.querySelector('#stack-detail h3').textContent === {name:?}"
    ));
    window.wait_until_drawn();
}

/// Clicks into a row of the flame graph, at a share of its width.
fn click(window: &Window, row: u32, share: f64) {
    window.eval("document.getElementById('flame').scrollIntoView({ behavior: 'instant' })");
    window.wait_until_drawn();
    let [left, top, width, _] = window.bounds_of("#flame");
    let at = (left + share * width, top + f64::from(row) * 21.0 + 10.0);
    window.drag(at, at);
}

/// The last column of the table of the slowest calls, without duplicates.
fn callers_of_slowest(window: &Window) -> Vec<String> {
    let mut callers = texts(window, "#slowest tbody tr td:last-child");
    callers.sort();
    callers.dedup();
    callers
}

#[test]
fn flame_graph_selects_calls_and_filters_slow_calls() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (page, journal) = make_page(folder.path());
    window.show(&page);
    window.wait_until_drawn();
    assert!(!is_hidden(&window, "stacks-section") && is_hidden(&window, "stack-detail"));
    choose(&window, "Value of the flame graph", "calls");
    let allocating = journal.count(0) + journal.count(2) + journal.count(3);
    let number = text(&window, "#stacks-range").replace(',', "");
    assert_eq!(number, format!("Calls that allocate the whole recording: {allocating}."));
    assert_eq!(callers_of_slowest(&window), ["0x1000", "0x2000"]);

    // The largest call is at the left.
    click(&window, 1, 0.1);
    wait_for_detail(&window, "0x2000");
    assert_eq!(callers_of_slowest(&window), ["0x2000"]);
    assert_eq!(text(&window, "#stack-filter"), "Only slow calls through 0x2000 ×");
    window.eval("document.getElementById('stack-filter').click()");
    window.wait_until_drawn();
    window.until("document.getElementById('stack-detail').hidden");
    assert!(is_hidden(&window, "stack-filter"));
    assert_eq!(callers_of_slowest(&window), ["0x1000", "0x2000"]);
    click(&window, 2, 0.9);
    wait_for_detail(&window, "0x1000");
    assert_eq!(texts(&window, "#stack-detail .calls-of-stack button"), ["0x1000", "0x3000"]);
    window.screenshot_of("flame.png", "document.querySelector('#stacks-section')");
    window.assert_no_problems();
}

#[test]
fn flame_graph_follows_the_time_range_the_search_and_the_keyboard() {
    let Some(window) = Window::open(390, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (page, _) = make_page(folder.path());
    window.show(&page);
    choose(&window, "Value of the flame graph", "calls");
    let whole = text(&window, "#stacks-range");
    let press = "document.querySelector('.zooms [aria-label=\"Zoom in\"]').click()";
    window.eval(press);
    window.wait_until_drawn();
    let part = text(&window, "#stacks-range");
    assert!(part.contains(" s to ") && part != whole, "{part}");
    window.eval("document.querySelector('#stacks-toolbar .toggle').click()");
    window.wait_until_drawn();
    assert_eq!(text(&window, "#stacks-range"), whole);

    let search = "(() => { const i = document.querySelector('#stacks-toolbar input'); \
        i.value = '0x30'; i.dispatchEvent(new Event('input')); })()";
    window.eval(search);
    window.wait_until_drawn();
    assert_eq!(texts(&window, "#stack-matches button"), ["0x3000"]);
    let found = text(&window, "#stack-matches .note");
    assert!(found.starts_with("1 function, 2"), "a quarter of the calls: {found}");

    let key = |name: &str| {
        window.eval(&format!(
            "document.getElementById('flame').dispatchEvent(new KeyboardEvent('keydown', \
             {{ key: {name:?}, bubbles: true }}))"
        ));
        window.wait_until_drawn();
    };
    ["ArrowDown", "ArrowRight", "ArrowDown"].into_iter().for_each(key);
    assert!(text(&window, "#stacks-status").starts_with("0x1000: "));
    key("Enter");
    wait_for_detail(&window, "0x1000");
    key("Escape");
    window.until("document.getElementById('stack-detail').hidden");
    let wide = window.number("document.documentElement.scrollWidth");
    assert!(wide <= 390.0, "the page is {wide} px wide");
    window.assert_no_problems();
}

/// Adds pinned memory of the first allocator: 0x1000 keeps 3 MiB, 0x2000 1 MiB.
fn add_pinned(folder: &Path) {
    let allocator = keel_results::Comparison::load(folder).unwrap().allocators[0].name.clone();
    let memory = keel_results::PinnedMemory {
        name: allocator,
        live: 5 << 20,
        pinned: 4 << 20,
        free: 1 << 20,
        kernel: 10 << 20,
        stacks: vec![(1, 3 << 20, 2 << 20), (2, 1 << 20, 3 << 20)],
    };
    let allocators = vec![memory];
    keel_results::Pinned { moment: "peak".to_owned(), allocators }.save(folder).unwrap();
}

#[test]
fn who_holds_memory_is_a_table_where_it_is_known() {
    for width in [1280, 390] {
        let Some(window) = Window::open(width, 900, &screenshots()) else { return };
        let folder = tempfile::tempdir().unwrap();
        let (page, _) = make_page(folder.path());
        window.show(&page);
        window.wait_until_drawn();
        assert!(is_hidden(&window, "pinned-part"));
        add_pinned(folder.path());
        window.show(&common::page(&[folder.path()]));
        window.wait_until_drawn();
        assert!(!is_hidden(&window, "pinned-part"));
        assert!(text(&window, "#pinned-note").contains("when the most bytes are live"));
        let rows = texts(&window, "#pinned tbody tr");
        let value = |row: &String| row.replace('\u{a0}', " ");
        assert_eq!(rows.len(), 5, "live, pinned, two call sites, free: {rows:?}");
        assert!(value(&rows[0]).ends_with("5 MiB"), "{rows:?}");
        assert!(rows[2].starts_with("0x1000") && value(&rows[2]).ends_with("3 MiB"), "{rows:?}");
        assert!(rows[3].starts_with("0x2000"), "{rows:?}");
        assert_eq!(texts(&window, "#pinned thead th").len(), 2, "only allocators with values");
        let wide = window.number("document.documentElement.scrollWidth");
        assert!(wide <= f64::from(width), "the page is {wide} px wide");
        let part = "document.querySelector('#pinned-part')";
        window.screenshot_of(&format!("pinned-{width}.png"), part);
        window.assert_no_problems();
    }
}

#[test]
fn the_page_ends_below_its_last_line() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    window.show_folded(&make_page(folder.path()).0, "");
    window.wait_until_drawn();
    // A program with deep stacks.
    window.eval("document.querySelector('.chart.flame').style.height = '900px'");
    let below = "document.documentElement.scrollHeight - scrollY - \
        document.querySelector('footer').getBoundingClientRect().bottom";
    let below = window.number(below);
    assert!(below < 2.0, "{below} px are empty");
}

#[test]
fn a_slow_call_shows_its_stack() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (page, _) = make_page(folder.path());
    window.show(&page);
    window.wait_until_drawn();
    let summary = text(&window, "#hitch summary");
    assert!(summary.starts_with("Called in: 0x"), "{summary}");
    window.eval("document.querySelector('#hitch article > p:last-child button').click()");
    window.wait_until_drawn();
    let calls = texts(&window, "#detail ol.calls-of-stack button");
    assert_eq!(calls[0], summary.replace("Called in: ", ""), "{calls:?}");
    // It is shown also if the flame graph has selected other calls.
    let (row, share) = if summary.ends_with("0x1000") { (1, 0.1) } else { (2, 0.9) };
    click(&window, row, share);
    window.until("!document.getElementById('stack-filter').hidden");
    window.eval("document.querySelector('#hitch article > p:last-child button').click()");
    window.wait_until_drawn();
    assert!(is_hidden(&window, "stack-filter"));
    // A call of the list leads to the flame graph.
    window.eval("document.querySelector('#detail ol.calls-of-stack button').click()");
    window.wait_until_drawn();
    wait_for_detail(&window, &calls[0]);
    window.assert_no_problems();
}
