//! The table of call sites, in a headless browser.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests may panic and print why they are skipped"
)]

mod common;
mod window;

use serde_json::Value;
use std::path::Path;
use window::{Window, screenshots};

/// The texts of the elements that the selector finds.
fn texts(window: &Window, selector: &str) -> Vec<String> {
    let script = format!(
        "JSON.stringify([...document.querySelectorAll({selector:?})].map((e) => \
         e.textContent))"
    );
    serde_json::from_str(window.eval(&script).as_str().unwrap()).unwrap()
}

/// Below each call site, the page shows the sentence on its calls with every allocator.
fn the_same_calls_are_compared(window: &Window, folder: &Path) {
    let limits = keel_blame::Limits::default();
    let profile =
        keel_blame::measured(folder, limits, &keel_blame::DebugFolders::default()).unwrap();
    let found = keel_blame::sites(&profile, 0, 1, keel_blame::Place::Line, &[]);
    let sentences: Vec<String> =
        found.sites.iter().map(|site| keel_report::same_calls(&profile, site)).collect();
    assert!(sentences.iter().all(|text| text.starts_with("These ")), "{sentences:?}");
    assert!(sentences[0].contains("15,000") || sentences[0].contains("interrupted"));
    // The page has no-break spaces before units.
    let shown = texts(window, "#sites .fine").into_iter().map(|text| text.replace('\u{a0}', " "));
    assert_eq!(shown.collect::<Vec<_>>(), sentences);
}

/// A click on a line puts its address into that of the page, which then leads to it.
fn a_line_has_an_address(window: &Window, folder: &Path) {
    window.eval("document.querySelector('#sites summary').click()");
    let address = window.eval("location.hash");
    let id = address.as_str().unwrap().trim_start_matches('#');
    assert!(id.starts_with("site-"), "{id}");
    window.show_folded(&folder.join("report.html"), &format!("?again#{id}"));
    window.wait_until_drawn();
    let open = format!("document.querySelector('#{id} details').open");
    assert_eq!(window.eval(&open), Value::Bool(true));
    let [_, top, ..] = window.bounds_of(&format!("#{id}"));
    assert!((0.0..900.0).contains(&top), "{id} is at {top}");
    window.assert_no_problems();
}

const CHOOSE_CALLS: &str = "(() => { const s = document.querySelector('#sites-toolbar select'); \
     s.value = 4; s.dispatchEvent(new Event('change')); return true; })()";

#[test]
fn call_sites_have_the_values_of_every_allocator_and_their_callers() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = common::write(folder.path(), 20_000, 2, 2);
    // Without stacks there is no table.
    window.show(&common::page(&[folder.path()]));
    assert_eq!(window.eval("document.querySelector('#sites-section').hidden"), Value::Bool(true));
    // A quarter of the rows from 0x1000, which 0x3000 called; the others from 0x2000.
    let stacks: Vec<u32> = (0..20_000).map(|row| if row % 4 == 0 { 1 } else { 2 }).collect();
    let document = r#"{"modules": [], "stacks": {
        "sites": [[-1, 12288], [-1, 4096], [-1, 8192]], "nodes": [[-1, 0], [0, 1], [-1, 2]]}}"#;
    journal.save_with_stacks(folder.path(), &stacks, document);
    window.show(&common::page(&[folder.path()]));
    window.wait_until_drawn();
    assert_eq!(window.eval("document.querySelector('#sites-section').hidden"), Value::Bool(false));
    assert_eq!(texts(&window, "#sites summary"), ["0x1000"]);
    assert_eq!(texts(&window, "#sites details li"), ["0x3000"]);
    assert_eq!(texts(&window, "#sites thead th").len(), 3);
    window.eval(CHOOSE_CALLS);
    window.wait_until_drawn();
    let cells = texts(&window, "#sites tbody td");
    let number = |text: &String| text.replace(',', "").parse::<u64>().unwrap_or(0);
    // 0x2000 has most calls, so it comes first.
    assert!(cells[0].starts_with("0x2000 These ") && cells.len() == 6, "{cells:?}");
    assert_eq!(number(&cells[1]), 15_000, "{cells:?}");
    assert_eq!(number(&cells[4]), 5_000, "{cells:?}");
    the_same_calls_are_compared(&window, folder.path());
    window.assert_no_problems();
    a_line_has_an_address(&window, folder.path());
    window.screenshot_of("call-sites", "document.querySelector('#sites-section')");
}
