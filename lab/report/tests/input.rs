//! Touch, mouse, keyboard and print, as real browser events. No test calls a function of the page.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests may panic and print why they are skipped"
)]

mod common;
mod window;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use window::{Window, screenshots};

const FIRST: &str = "#panels .panel canvas.density";
/// Left margin of a plot in its canvas, and both margins together (`PANEL` in `page/density.js`).
const PLOT: (f64, f64) = (50.0, 58.0);

fn make_page(folder: &Path, rows: usize) -> PathBuf {
    common::write(folder, rows, 2, 3);
    common::page(&[folder])
}

/// The time range of the first panel in seconds, read from its label.
fn view(window: &Window) -> (f64, f64) {
    let label =
        window.eval(&format!("document.querySelector({FIRST:?}).getAttribute('aria-label')"));
    let label = label.as_str().unwrap().replace('\u{a0}', " ");
    let times = label.split("Time ").nth(1).unwrap().trim_end_matches('.');
    let (from, to) = times.split_once(" to ").unwrap();
    let seconds = |text: &str| text.trim_end_matches(" s").parse::<f64>().unwrap();
    (seconds(from), seconds(to))
}

/// Scrolls to the first panel. Returns points at half its height, by their share of its width.
fn points(window: &Window, shares: &[f64]) -> Vec<(f64, f64)> {
    window.eval(&format!(
        "document.querySelector({FIRST:?}).scrollIntoView({{ behavior: 'instant', block: 'center' \
         }})"
    ));
    window.wait_until_drawn();
    let [left, top, width, height] = window.bounds_of(FIRST);
    shares
        .iter()
        .map(|share| (left + PLOT.0 + (width - PLOT.1) * share, top + height / 2.0))
        .collect()
}

#[test]
fn pinch_zooms_and_one_finger_pans_or_scrolls() {
    let Some(window) = Window::open(390, 844, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    window.enable_touch();
    window.show(&make_page(folder.path(), 60_000));
    window.wait_until_drawn();
    let at = points(&window, &[0.4, 0.6, 0.1, 0.9]);
    let whole = view(&window);
    window.swipe(&at[..2], &at[2..]);
    let zoomed = view(&window);
    let factor = (whole.1 - whole.0) / (zoomed.1 - zoomed.0);
    assert!(
        (3.2..4.8).contains(&factor),
        "the fingers move four times as far apart: {whole:?} to {zoomed:?}"
    );
    let middle = |(from, to): (f64, f64)| f64::midpoint(from, to);
    assert!(
        (middle(whole) - middle(zoomed)).abs() < (zoomed.1 - zoomed.0) * 0.1,
        "the center of the view moves"
    );

    window.swipe(&[at[3]], &[at[0]]);
    let panned = view(&window);
    let moved = (panned.0 - zoomed.0) / (zoomed.1 - zoomed.0);
    assert!(
        (0.4..0.6).contains(&moved),
        "the view moves by half its width: {zoomed:?} to {panned:?}"
    );
    assert!(
        ((panned.1 - panned.0) / (zoomed.1 - zoomed.0) - 1.0).abs() < 0.02,
        "panning does not zoom"
    );

    let before = window.number("scrollY");
    window.swipe(&[at[1]], &[(at[1].0, at[1].1 - 250.0)]);
    assert!(window.number("scrollY") > before + 100.0, "a vertical swipe scrolls the page");
    assert_eq!(view(&window), panned, "a vertical swipe keeps the view");

    let at = points(&window, &[0.1, 0.9, 0.4, 0.6]);
    window.swipe(&at[..2], &at[2..]);
    window.swipe(&at[..2], &at[2..]);
    assert_eq!(view(&window), whole, "pinching together shows the whole recording");
    window.assert_no_problems();
}

#[test]
fn tap_on_a_slow_call_shows_its_details() {
    let Some(window) = Window::open(390, 844, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    window.enable_touch();
    window.show(&make_page(folder.path(), 40_000));
    window.wait_until_drawn();
    points(&window, &[0.5]);
    // The key n highlights a mark with a ring, whose center is the position to tap.
    window.tab.find_element(FIRST).unwrap().focus().unwrap();
    let ring = format!(
        "(() => {{ const c = \
         document.querySelector({FIRST:?}).parentElement.querySelector('.overlay'); const p = \
         c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let [x, y, n] = [0, 0, 0]; \
         for (let i = 3; i < p.length; i += 4) if (p[i] > 99) {{ x += (i >> 2) % c.width; y += \
         Math.floor((i >> 2) / c.width); n += 1; }} return n ? [x / n, y / n] : null; }})()"
    );
    window.tab.press_key("n").unwrap();
    window.wait_until_drawn();
    let [x, y]: [f64; 2] = serde_json::from_value(window.eval(&ring)).unwrap();
    let [left, top, _, _] = window.bounds_of(FIRST);
    window.tab.press_key("Tab").unwrap();
    assert_eq!(window.eval("document.getElementById('detail').hidden"), Value::Bool(true));
    let [_, scrolled, _, _] = window.bounds_of(FIRST);
    assert!((scrolled - top).abs() < 400.0);
    points(&window, &[0.5]);
    let [_, top, _, _] = window.bounds_of(FIRST);
    window.touch("touchStart", &[(left + x, top + y)]);
    window.touch("touchEnd", &[]);
    window.wait_until_drawn();
    let detail = window.eval("document.querySelector('#detail h3')?.textContent ?? ''");
    assert!(detail.as_str().unwrap().contains(" in malloc, keel"), "{detail}");
    window.assert_no_problems();
}

#[test]
fn dragging_zooms_and_the_wheel_zooms_and_pans() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    window.show(&make_page(folder.path(), 60_000));
    window.wait_until_drawn();
    let at = points(&window, &[0.2, 0.7, 0.5]);
    let whole = view(&window);
    window.drag(at[0], at[1]);
    let brushed = view(&window);
    let part = (brushed.1 - brushed.0) / (whole.1 - whole.0);
    assert!(
        (0.48..0.52).contains(&part),
        "the drag selects half of the view: {brushed:?} of {whole:?}"
    );
    window.wheel(at[2], (0.0, -120.0), 2);
    window.wait_until_drawn();
    let zoomed = view(&window);
    assert!(zoomed.1 - zoomed.0 < (brushed.1 - brushed.0) * 0.6, "Ctrl + wheel zooms: {zoomed:?}");
    window.wheel(at[2], (0.0, 100.0), 8);
    window.wait_until_drawn();
    assert!(view(&window).0 > zoomed.0, "Shift + wheel pans");
    window.drag(at[0], (at[0].0 + 2.0, at[0].1));
    assert!(
        view(&window).1 - view(&window).0 > (zoomed.1 - zoomed.0) * 0.98,
        "a click does not zoom"
    );
    window.assert_no_problems();
}

#[test]
fn every_control_has_a_name_and_is_reachable_with_tab() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    window.show(&make_page(folder.path(), 40_000));
    window.wait_until_drawn();
    let unnamed = window.accessible_elements().into_iter().filter(|(role, name)| {
        let needs = [
            "button",
            "image",
            "img",
            "link",
            "combobox",
            "table",
            "columnheader",
            "region",
            "toolbar",
        ];
        needs.contains(&role.as_str()) && name.trim().is_empty()
    });
    let unnamed: Vec<_> = unnamed.collect();
    assert!(unnamed.is_empty(), "elements without a name: {unnamed:?}");
    let reachable = "[...document.querySelectorAll('button:not(:disabled), select, \
        [tabindex=\"0\"], a[href], summary')].filter((e) => e.getClientRects().length && \
        !e.closest('details:not([open]) > :not(summary)'))";
    let wanted = window.number(&format!("{reachable}.length")) as usize;
    window.eval("window.met = new Set()");
    for _ in 0..wanted + 2 {
        window.tab.press_key("Tab").unwrap();
        window.eval("met.add(document.activeElement) && null");
    }
    let missed = window.eval(&format!(
        "{reachable}.filter((e) => !met.has(e)).map((e) => e.outerHTML.slice(0, 80))"
    ));
    assert_eq!(missed, json!([]), "elements that Tab does not reach");
    // The focus must be visible.
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    assert_ne!(window.eval(outline), "none");
    window.assert_no_problems();
}

#[test]
fn print_fits_the_paper_and_hides_the_controls() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    window.show(&make_page(folder.path(), 40_000));
    window.wait_until_drawn();
    window.eval("document.getElementById('theme').click()");
    window.wait_until_drawn();
    let pdf = window.print("report.pdf");
    assert!(pdf.starts_with(b"%PDF") && pdf.len() > 100_000, "{} bytes", pdf.len());
    window.wait_until_drawn();
    let theme = || window.eval("document.documentElement.dataset.theme");
    assert_eq!(theme(), "dark", "print is light; the screen is dark again");

    window.emulate_media("print");
    window.eval("dispatchEvent(new Event('beforeprint')) && null");
    assert_eq!(theme(), "light");
    let wide = window.eval(
        "[...document.querySelectorAll('main > section, figcaption, .scroll')].filter((e) => \
         e.getClientRects().length && (e.getBoundingClientRect().right > 700.5 + \
         document.querySelector('main').getBoundingClientRect().left || (e.scrollWidth > \
         e.clientWidth + 1 && e.tagName === 'DIV'))).map((e) => e.id || e.textContent)",
    );
    assert_eq!(wide, json!([]), "elements wider than the paper");
    // An element that must not break moves to the next page as a whole, so no such element may be
    // tall, even with nine allocators. A page is about 1,000 pixels high.
    window.eval(
        "[...document.querySelectorAll('.strips')].forEach((box) => { const strip = \
         box.querySelector('.strip'); while (box.querySelectorAll('.strip').length < 9) \
         strip.after(strip.cloneNode(true)); })",
    );
    let tall = window.eval(
        "[...document.querySelectorAll('.verdict *')].filter((e) => \
         getComputedStyle(e).breakInside === 'avoid' && e.tagName !== 'TABLE' && \
         e.getBoundingClientRect().height > 160).map((e) => e.className)",
    );
    assert_eq!(tall, json!([]), "unbreakable elements that are too tall");
    let folded = "document.querySelectorAll('details.hitch-rest:not([open])').length";
    assert_eq!(window.number(folded), 0.0, "paper cannot be unfolded");
    let [_, cautions, ..] = window.bounds_of("#cautions");
    let [_, criteria, ..] = window.bounds_of("#criteria");
    assert!(cautions < criteria, "text, which can break, precedes the cards");
    for gone in ["#toolbar", "#overview", "#theme", "#panels .overlay", "#hitch button"] {
        // The hitch has no button if the charts do not show its run.
        let seen = window.eval(&format!(
            "[...document.querySelectorAll({gone:?})].some((e) => e.getClientRects().length > 0)"
        ));
        assert_eq!(seen, Value::Bool(false), "{gone} is visible in print");
    }
    window.eval("dispatchEvent(new Event('afterprint')) && null");
    window.emulate_media("");
    window.assert_no_problems();
}

/// Dark pixels of the ring around the worst call in the first panel: in six columns outside of the
/// plot's left or right edge, and in six columns inside of it.
fn ring(window: &Window, at_end: bool) -> (f64, f64) {
    let side = |outside: bool| {
        window.number(&format!(
            "(() => {{ const c = document.querySelector({FIRST:?}); const edge = {at_end} ? \
             c.width - 8 : 50; const x = {at_end} === {outside} ? edge : edge - 6; const p = \
             c.getContext('2d').getImageData(x, 0, 6, c.height - 24).data; let n = 0; for (let i = \
             0; i < p.length; i += 4) if (p[i + 3] > 128 && p[i] + p[i + 1] + p[i + 2] < 210) n += \
             1; return n; }})()"
        ))
    };
    (side(true), side(false))
}

#[test]
fn ring_of_the_worst_call_is_complete_at_the_edges_and_leaves_no_trace() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    // The first malloc is the slowest, the last one the second slowest.
    let ends = |journal: &common::Journal| {
        let malloc = |row: &usize| journal.op[*row] == 0;
        let rows = 0..journal.op.len();
        (rows.clone().find(malloc).unwrap(), rows.rev().find(malloc).unwrap())
    };
    let plant = |_: &str, journal: &common::Journal, ticks: &mut [u32], _: &mut [u8]| {
        let (first, last) = ends(journal);
        (ticks[first], ticks[last]) = (90_000_000, 80_000_000);
    };
    let (journal, _) = common::write_planted(folder.path(), 40_000, 2, 3, &plant);
    let page = common::page(&[folder.path()]);
    let (first, last) = ends(&journal);
    assert!(
        journal.time[first] * 2000 < journal.span,
        "the call is less than half a pixel from the edge"
    );
    for suffix in ["?canvas", "?webgl"] {
        window.show_at(&page, suffix);
        window.wait_until_drawn();
        let at = points(&window, &[0.3, 0.5, journal.time[last] as f64 / journal.span as f64]);
        let (outside, inside) = ring(&window, false);
        assert!(outside >= 10.0, "{suffix}: no half ring left of the plot: {outside}, {inside}");
        assert!(
            (0.5..2.0).contains(&(outside / inside)),
            "{suffix}: the halves differ: {outside}, {inside}"
        );

        // After panning, the margin must be clear.
        (0..3).for_each(|_| window.wheel(at[0], (0.0, -120.0), 2));
        (0..20).for_each(|_| window.wheel(at[0], (0.0, 60.0), 8));
        window.wait_until_drawn();
        assert!(view(&window).0 > 0.0, "the view did not pan");
        assert_eq!(ring(&window, false).0, 0.0, "{suffix}: the ring left a trace");

        show_all(&window);
        window.drag(at[1], (at[2].0 + 1.0, at[2].1));
        let (outside, inside) = ring(&window, true);
        assert!(outside >= 8.0, "{suffix}: no half ring right of the plot: {outside}, {inside}");
        window.assert_no_problems();
    }
}

fn show_all(window: &Window) {
    window.eval("document.getElementById('all').click()");
    window.wait_until_drawn();
}

/// Every chart on the time axis.
const CHARTS: &str = "#panels canvas.density, #overview, #memory, #frames, #lanes, #lateness";

/// Indices of the charts whose pixels changed since the last call.
fn changed(window: &Window) -> Value {
    window.eval(&format!(
        "(() => {{ const now = [...document.querySelectorAll('{CHARTS}')].map((c) => \
         c.toDataURL()); const other = now.flatMap((picture, at) => picture === \
         window.pictures?.[at] ? [] : [at]); window.pictures = now; return other; }})()"
    ))
}

#[test]
fn gestures_draw_the_same_as_a_full_redraw() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(folder.path(), 60_000);
    for suffix in ["?canvas", "?webgl"] {
        window.show_at(&page, suffix);
        window.wait_until_drawn();
        let at = points(&window, &[0.4])[0];
        let (ctrl, shift) = (2, 8);
        for (turn, modifiers, times) in [
            (-120.0, ctrl, 3),
            (40.0, shift, 7),
            (-50.0, ctrl, 2),
            (33.0, shift, 5),
            (70.0, ctrl, 2),
        ] {
            (0..times).for_each(|_| window.wheel(at, (0.0, turn), modifiers));
            window.wait_until_drawn();
            let moved = changed(&window);
            assert!(
                moved.as_array().unwrap().contains(&json!(1)),
                "the first panel did not change: {moved}"
            );
            // Switching the theme twice redraws everything.
            for _ in 0..2 {
                window.eval("document.getElementById('theme').click()");
                window.wait_until_drawn();
            }
            assert_eq!(changed(&window), json!([]), "{suffix}, {modifiers}, {turn}");
        }
        window.assert_no_problems();
    }
}
