//! The page as a reader sees it first: short, with a contents list, and with links to what it
//! shows.
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

fn make_page(folder: &Path) -> PathBuf {
    common::write(folder, 60_000, 3, 3);
    let options = keel_report::Options::default();
    let report = keel_report::build(&[folder.to_path_buf()], options, &|_, _| {}).unwrap();
    let page = folder.join("report.html");
    std::fs::write(&page, report.html).unwrap();
    page
}

/// Sentences that are on the screen twice.
const TWICE: &str = "(() => { const seen = new Set(), twice = []; \
    for (const e of document.querySelectorAll('#decision :is(h1, p, li, figcaption)')) \
    for (const part of e.innerText.split(/(?<=\\.)\\s+/)) { const text = part.trim(); \
    if (text.length > 24 && seen.has(text)) twice.push(text); seen.add(text); } return twice; })()";

#[test]
fn the_page_is_short_until_a_section_is_unfolded() {
    let folder = tempfile::tempdir().unwrap();
    for (width, height) in [(1280, 900), (390, 844)] {
        let Some(window) = Window::open(width, height, &screenshots()) else { return };
        window.show_folded(&make_page(folder.path()), "");
        window.wait_until_drawn();
        let length = window.number("document.documentElement.scrollHeight");
        assert!(length <= 4000.0, "{length} px at a width of {width}");
        assert_eq!(window.eval(TWICE), json!([]), "no sentence twice");
        window.screenshot(&format!("opening-{width}.png"), true);
        // The list stays in sight, and a link in it unfolds its section.
        let folded = "document.getElementById('memory-section').classList.contains('folded')";
        assert_eq!(window.eval(folded), Value::Bool(true));
        window.eval("document.querySelector('#contents a[href=\"#memory-section\"]').click()");
        window.until(&format!("!{folded}"));
        window.until("scrollY > 0");
        let top = "document.getElementById('contents').getBoundingClientRect().top";
        assert_eq!(window.number(top), 0.0);
        let named = window.eval(
            "[...document.querySelectorAll('#contents a')].every((a) => \
             document.getElementById(a.getAttribute('href').slice(1)))",
        );
        assert_eq!(named, Value::Bool(true));
        window.assert_no_problems();
    }
}

#[test]
fn the_address_of_a_call_opens_that_call() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(folder.path());
    window.show_folded(&page, "");
    window.wait_until_drawn();
    window.eval("document.querySelector('#hitch button').click()");
    window.until("location.hash.startsWith('#call-')");
    let title = "document.querySelector('#detail h3').textContent";
    let (hash, call) = (window.eval("location.hash"), window.eval(title));
    // Another document, so that the page is loaded again.
    window.show_folded(&page, &format!("?again{}", hash.as_str().unwrap()));
    window.until("!document.getElementById('detail').hidden");
    assert_eq!(window.eval(title), call);
    // Its neighbours in the frame are beside it, whatever their operation.
    let frame = "document.querySelector('.frame-mates li') !== null";
    let has_frame = "document.querySelector('#detail').innerText.includes('Slow calls of frame')";
    assert_eq!(window.eval(frame), window.eval(has_frame));
    // Copied text does not run together.
    let text = window.eval("document.getElementById('detail').textContent");
    assert!(!text.as_str().unwrap().contains("CloseSize"), "{text}");
    window.assert_no_problems();
}

#[test]
fn the_picture_shows_the_programs_allocator_beside_another() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    window.show_folded(&make_page(folder.path()), "");
    window.wait_until_drawn();
    assert_eq!(window.number("document.querySelectorAll('#picture polyline').length"), 2.0);
    let label = window.eval("document.querySelector('#picture svg').getAttribute('aria-label')");
    assert!(label.as_str().unwrap().contains(" and "), "{label}");
    window.assert_no_problems();
}
