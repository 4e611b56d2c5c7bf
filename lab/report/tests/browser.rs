//! The page in a headless browser, from `file://`: charts, tables, options, zoom and narrow
//! screens.
//!
//! Without Chromium the tests print a message and pass; with `CI` set they fail. Screenshots go to
//! `build/screenshots/`.
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

/// Counts the coloured pixels of a canvas: drawn data, not background or grey axes.
fn coloured(selector: &str) -> String {
    format!(
        "(() => {{ const c = document.querySelector({selector:?}); const p = \
         c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 0; \
         i < p.length; i += 4) {{ const spread = Math.max(p[i], p[i+1], p[i+2]) - Math.min(p[i], \
         p[i+1], p[i+2]); if (p[i+3] > 200 && spread > 28) n += 1; }} return n; }})()"
    )
}

fn panel(index: usize) -> String {
    format!("#panels .panel:nth-child({}) canvas.density", index + 1)
}

fn picture(selector: &str) -> String {
    format!("document.querySelector({selector:?}).toDataURL()")
}

fn press(window: &Window, label: &str) {
    let script = format!(
        "(() => {{ const b = [...document.querySelectorAll('button')].find((b) => \
         b.textContent.trim().replaceAll(String.fromCharCode(160), ' ') === {label:?}); if (!b) \
         return false; b.click(); return true; }})()"
    );
    assert_eq!(window.eval(&script), Value::Bool(true), "no button {label}");
    window.wait_until_drawn();
}

/// Builds the page of a synthetic comparison with four runs.
fn make_page(folder: &Path, rows: usize, allocators: usize) -> (PathBuf, keel_results::Comparison) {
    let (_, comparison) = common::write(folder, rows, allocators, 4);
    (common::page(&[folder]), comparison)
}

#[test]
fn page_draws_every_allocator_and_applies_every_option() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (page, comparison) = make_page(folder.path(), 220_000, 5);
    window.show(&page);
    window.assert_no_problems();
    draws_every_allocator(&window, &comparison);
    table_shows_medians_and_sorts(&window, &comparison);
    window.screenshot("report-1280.png", true);
    window.screenshot("report-1280-top.png", false);
    options_change_the_charts(&window, &comparison);
    zoom_reduces_the_calls_in_view(&window);
    window.eval("document.getElementById('calls').scrollIntoView({ behavior: 'instant' })");
    window.wait_until_drawn();
    window.screenshot("report-1280-zoomed.png", false);
    window.assert_no_problems();
}

fn draws_every_allocator(window: &Window, comparison: &keel_results::Comparison) {
    let drawn = window.number("document.querySelectorAll('#panels .panel').length") as usize;
    assert_eq!(drawn, comparison.allocators.len() - 1, "every allocator except null");
    for index in 0..drawn {
        let pixels = window.number(&coloured(&panel(index)));
        assert!(pixels > 3000.0, "panel {index} has {pixels} coloured pixels");
        let calls =
            window.eval(&format!("document.querySelector({:?}).dataset.calls", panel(index)));
        let expected = comparison.journal.operations["malloc"].to_string();
        assert_eq!(calls, Value::String(expected), "the panel contains every call");
        let label = window.eval(&format!(
            "document.querySelector({:?}).getAttribute('aria-label')",
            panel(index)
        ));
        assert!(label.as_str().unwrap().contains(&comparison.allocators[index].name), "{label}");
    }
    for chart in ["#percentiles", "#memory", "#frames"] {
        let pixels = window.number(&coloured(chart));
        assert!(pixels > 400.0, "{chart} has {pixels} coloured pixels");
        assert!(
            window.number(&format!(
                "document.querySelector({chart:?}).getAttribute('aria-label').length"
            )) > 40.0
        );
    }
    let strips = window.eval(
        "[...document.querySelectorAll('.criterion')].map((c) => \
         c.querySelectorAll('.strip').length)",
    );
    assert_eq!(
        strips,
        serde_json::json!([drawn, drawn, drawn, drawn, drawn, drawn]),
        "every allocator in every criterion"
    );
    glance_matches_the_cards(window, drawn);
    let text = |id: &str| {
        let found = window.eval(&format!("document.getElementById({id:?}).textContent"));
        found.as_str().unwrap().to_owned()
    };
    assert!(
        text("advice").contains("calls above 1\u{a0}ms in a run")
            || text("advice").contains("No call")
    );
    assert!(text("grade").contains(" the choice ") || text("grade").starts_with("The choice "));
    let sentence = text("headline");
    let known = ["Use ", "Stay with ", "It is not known whether "];
    assert!(known.iter().any(|start| sentence.starts_with(start)), "{sentence}");
}

/// The table at a glance marks the allocators that the cards show in bold, and divides each figure
/// by the lowest of its card.
fn glance_matches_the_cards(window: &Window, drawn: usize) {
    let cards = "[...document.querySelectorAll('.criterion')].map((c) => \
        [c.querySelector('h3').textContent, \
        Object.fromEntries([...c.querySelectorAll('.strip')].map((s) => \
        [s.querySelector('.allocator').textContent, s.classList.contains('best')]))])";
    let marks = "(() => { const heads = [...document.querySelectorAll('#glance thead th')].map((h) \
        => h.textContent); const rows = [...document.querySelectorAll('#glance tbody tr')]; return \
        heads.flatMap((head, at) => at < 1 ? [] : [[head, Object.fromEntries(rows.map((r) => \
        [r.cells[0].textContent, !!r.cells[at].querySelector('.mark')]))]]); })()";
    let marks = window.eval(marks);
    assert_eq!(marks, window.eval(cards));
    assert!(marks.to_string().contains("true"), "no allocator is marked: {marks}");
    let figures = "[...document.querySelectorAll('#glance tbody tr')].flatMap((r) => \
        [...r.cells].slice(1).map((c) => parseFloat(c.textContent.replace('● ', ''))))";
    let figures: Vec<f64> = serde_json::from_value(window.eval(figures)).unwrap();
    assert_eq!(figures.len(), drawn * 6);
    assert!(figures.iter().all(|times| *times >= 1.0), "{figures:?}");
    assert!(
        figures.iter().filter(|times| **times == 1.0).count() >= 6,
        "each column has a lowest figure: {figures:?}"
    );
}

fn table_shows_medians_and_sorts(window: &Window, comparison: &keel_results::Comparison) {
    let cell = |row: usize, column: &str| {
        window.number(&format!(
            "(() => {{ const table = [...document.querySelectorAll('#tables table')] .find((t) => \
             t.caption.textContent === 'malloc'); const at = \
             [...table.tHead.rows[0].cells].findIndex((c) => c.textContent === {column:?}); return \
             Number(table.tBodies[0].rows[{row}].cells[at].dataset.value); }})()"
        ))
    };
    let step = keel_results::clock_step(comparison);
    for (row, result) in comparison.allocators.iter().enumerate() {
        for (column, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            let mut values: Vec<f64> = (result.runs.iter())
                .map(|run| {
                    keel_results::percentile(&run.latency["malloc"].0, quantile, step)
                        / common::TICKS_PER_NS
                })
                .collect();
            values.sort_by(f64::total_cmp);
            let median = f64::midpoint(values[1], values[2]);
            let shown = cell(row, column);
            assert!(
                (shown - median).abs() <= median * 1e-4,
                "{} {column}: {shown}, not {median}",
                result.name
            );
        }
    }
    let order = "[...document.querySelectorAll('#tables table')[0].tBodies[0].rows].map((r) => \
        r.cells[0].textContent)";
    let before = window.eval(order);
    window.eval(
        "document.querySelectorAll('#tables table')[0].tHead.querySelectorAll('button')[2].click()",
    );
    let after = window.eval(order);
    assert_ne!(before, after, "the table is sorted by mean");
    assert_eq!(after[0], "null", "no allocator is faster than null");
}

fn options_change_the_charts(window: &Window, comparison: &keel_results::Comparison) {
    let (density, curves) = (picture(&panel(0)), picture("#percentiles"));
    let before = (window.eval(&density), window.eval(&curves));
    press(window, "free");
    let frees = comparison.journal.operations["free"].to_string();
    window.until(&format!("document.querySelector({:?}).dataset.calls === '{frees}'", panel(0)));
    assert_ne!(window.eval(&density), before.0);
    assert_ne!(window.eval(&curves), before.1);
    press(window, "malloc");
    assert_eq!(window.eval(&density), before.0, "the same picture again");

    press(window, "by cause");
    assert_ne!(window.eval(&density), before.0);
    press(window, "by size");
    let marked = window.number(&coloured(&panel(0)));
    press(window, "Slow calls");
    assert!(window.number(&coloured(&panel(0))) < marked, "fewer coloured pixels without marks");
    press(window, "Slow calls");

    press(window, "Dark");
    assert_eq!(window.eval("document.documentElement.dataset.theme"), "dark");
    assert_ne!(window.eval(&density), before.0);
    window.screenshot("report-1280-dark.png", true);
    press(window, "Light");

    let panels = "document.querySelectorAll('#panels .panel').length";
    let count = window.number(panels);
    window.eval("document.querySelector('.chip[data-allocator=system]').click()");
    window.wait_until_drawn();
    assert_eq!(window.number(panels), count - 1.0);
    window.eval("document.querySelector('.chip[data-allocator=system]').click()");
    window.wait_until_drawn();
}

fn zoom_reduces_the_calls_in_view(window: &Window) {
    let calls = format!("Number(document.querySelector({:?}).dataset.calls)", panel(1));
    let all = window.number(&calls);
    window.tab.find_element(&panel(1)).unwrap().focus().unwrap();
    for _ in 0..3 {
        window.tab.press_key("+").unwrap();
    }
    window.wait_until_drawn();
    let zoomed = window.number(&calls);
    assert!(zoomed > 0.0 && zoomed < all * 0.5, "{zoomed} of {all}");
    assert!(window.number(&coloured(&panel(1))) > 500.0);
    let label = window.eval("document.getElementById('memory').getAttribute('aria-label')");
    assert!(label.as_str().unwrap().contains("Peaks"));
    drag(window, 0.3, 0.6);
    let brushed = window.number(&calls);
    assert!(brushed > 0.0 && brushed < zoomed, "dragging zooms in: {brushed} of {zoomed}");
    press(window, "Show all");
    assert_eq!(window.number(&calls), all);
    drag(window, 0.02, 0.14);
}

/// Drags over a part of the first panel's plot with pointer events of a mouse.
fn drag(window: &Window, from: f64, to: f64) {
    let script = format!(
        "(() => {{ const c = document.querySelector({:?}); const b = c.getBoundingClientRect(); \
         const fire = (kind, part) => c.dispatchEvent(new PointerEvent(kind, {{ bubbles: true, \
         pointerId: 1, pointerType: 'mouse', button: 0, clientX: b.left + 50 + (b.width - 58) * \
         part, clientY: b.top + 60 }})); c.setPointerCapture = () => {{}}; fire('pointerdown', \
         {from}); fire('pointermove', {to}); fire('pointerup', {to}); }})()",
        panel(0)
    );
    window.eval(&script);
    window.wait_until_drawn();
}

#[test]
fn page_fits_a_phone() {
    let Some(window) = Window::open(390, 844, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (page, _) = make_page(folder.path(), 60_000, 3);
    window.show(&page);
    window.wait_until_drawn();
    let overflow = window
        .number("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert_eq!(overflow, 0.0, "the page scrolls horizontally");
    assert!(window.number(&coloured(&panel(0))) > 1500.0);
    assert!(window.number(&coloured("#percentiles")) > 200.0);
    let unnamed = window.eval(
        "[...document.querySelectorAll('button, canvas[role=img]')] .filter((e) => \
         !(e.textContent.trim() || e.getAttribute('aria-label'))).map((e) => e.outerHTML)",
    );
    assert_eq!(unnamed, serde_json::json!([]), "elements without a name");
    window.assert_no_problems();
    window.screenshot("report-390.png", true);
}
