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
    make_page_of(&[folder], 3)
}

fn make_page_of(folders: &[&Path], allocators: usize) -> PathBuf {
    for folder in folders {
        common::write(folder, 60_000, allocators, 3);
    }
    common::page(folders)
}

/// Changes the facts of a page.
fn edit_facts(page: &Path, edit: impl Fn(&mut Value)) {
    let html = std::fs::read_to_string(page).unwrap();
    let (before, rest) = html.split_once("class=\"comparison-facts\"").unwrap();
    let (id, rest) = rest.split_once('>').unwrap();
    let (facts, after) = rest.split_once("</script>").unwrap();
    let mut facts: Value = serde_json::from_str(facts).unwrap();
    edit(&mut facts);
    let facts = facts.to_string().replace('<', "\\u003c");
    let html = format!("{before}class=\"comparison-facts\"{id}>{facts}</script>{after}");
    std::fs::write(page, html).unwrap();
}

fn text(window: &Window, id: &str) -> String {
    let found = window.eval(&format!("document.getElementById({id:?}).textContent"));
    found.as_str().unwrap().replace('\u{a0}', " ")
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

#[test]
fn every_section_folds_and_the_contents_follow_what_is_shown() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(folder.path());
    // The cards after the first one are folded.
    edit_facts(&page, |facts| {
        let hitches = facts["hitches"].as_array_mut().unwrap();
        hitches.push(hitches[0].clone());
    });
    window.show_folded(&page, "");
    window.wait_until_drawn();
    // Also those that have nothing to show yet.
    let without = "[...document.querySelectorAll('main > section:not(#decision)')].filter((s) => \
        !s.querySelector(':scope > h2 > .fold')).map((s) => s.id)";
    assert_eq!(window.eval(without), json!([]));
    let differ = "(() => { const shown = [...document.querySelectorAll('main > \
        section:not([hidden])')].map((s) => s.id); const links = \
        [...document.querySelectorAll('#contents a:not([hidden])')].map((a) => \
        a.getAttribute('href').slice(1)); return JSON.stringify(shown) !== JSON.stringify(links); \
        })()";
    assert_eq!(window.eval(differ), Value::Bool(false));
    for hidden in ["true", "false"] {
        window.eval(&format!("document.getElementById('lifetimes-section').hidden = {hidden}"));
        window.wait_until_drawn();
        assert_eq!(window.eval(differ), Value::Bool(false), "hidden = {hidden}");
    }
    window.eval("document.querySelector('#toolbar [data-value=free]').click()");
    window.wait_until_drawn();
    let link = "document.querySelector('#contents a[href$=percentiles-section]').textContent";
    assert_eq!(window.eval(link), text(&window, "percentiles-title"));
    // Printing unfolds all of it, but only on paper.
    let folded = "document.querySelectorAll('main > .folded').length";
    let closed = "document.querySelectorAll('.hitch-rest:not([open])').length";
    let before = [folded, closed].map(|count| window.number(count));
    window.print("folded.pdf");
    assert_eq!([folded, closed].map(|count| window.number(count)), before);
    assert!(before[0] > 5.0 && before[1] > 0.0, "{before:?}");
    window.assert_no_problems();
}

#[test]
fn links_of_several_comparisons_lead_to_theirs() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let page = make_page_of(&[folders[0].path(), folders[1].path()], 5);
    window.show_folded(&page, "#2");
    window.wait_until_drawn();
    let length = window.number("document.documentElement.scrollHeight");
    assert!(length <= 4000.0, "{length} px");
    let second = text(&window, "comparisons-note");
    window.eval("document.querySelector('#contents a[href$=memory-section]').click()");
    assert_eq!(window.eval("location.hash"), "#2/memory-section");
    window.show_folded(&page, "?again#2/memory-section");
    window.wait_until_drawn();
    assert_eq!(text(&window, "comparisons-note"), second);
    // The link to the calls moves the focus to them, although no element has its address as id.
    assert_eq!(window.eval("document.querySelector('.skip').hash"), "#2/calls");
    window.eval("document.querySelector('.skip').click()");
    window.until("document.activeElement.id === 'calls'");
    // An address of the other comparison shows that one.
    window.eval("(() => { location.hash = '#1/frame-3'; })()");
    let other = format!("document.getElementById('comparisons-note').textContent !== {second:?}");
    window.until(&other);
    window.until("document.documentElement.dataset.ready === 'true'");
    window.wait_until_drawn();
    assert_eq!(window.eval("location.hash"), "#1/frame-3");
    window.assert_no_problems();
}

#[test]
fn a_link_shows_its_section_at_the_top() {
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(folder.path());
    // At 760 px the list has more lines.
    for (width, id) in [(1280, "memory-section"), (760, "frames-section"), (390, "setup-section")] {
        let Some(window) = Window::open(width, 900, &screenshots()) else { return };
        window.show_folded(&page, &format!("#{id}"));
        window.wait_until_drawn();
        let [_, top, ..] = window.bounds_of(&format!("#{id}"));
        let [_, _, _, list] = window.bounds_of("#contents");
        // The last section is too short to be at the top.
        let least = if id == "setup-section" { 700.0 } else { 12.0 };
        assert!((list..list + least).contains(&top), "{id} is at {top}, below a list of {list}");
        let [left, _, wide, _] = window.bounds_of("#contents [aria-current]");
        assert!(left >= 0.0 && left + wide <= f64::from(width), "{left} + {wide} of {width}");
        let here = window.eval("document.querySelector('#contents [aria-current]').hash");
        assert!(id == "setup-section" || here == format!("#{id}"), "{here} instead of {id}");
        window.assert_no_problems();
    }
}

#[test]
fn buttons_unfold_what_they_show_and_other_addresses_are_ignored() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(folder.path());
    window.show_folded(&page, "#frames-section");
    window.wait_until_drawn();
    // What a button leads to is unfolded.
    window.eval("document.querySelector('#calls .fold').click()");
    window.eval("document.querySelector('#worst-frames tbody button').click()");
    window.until("!document.getElementById('calls').classList.contains('folded')");
    window.until("location.hash.startsWith('#frame-')");
    // What is no address of the page is ignored.
    window.show_folded(&page, "?other#100%");
    window.wait_until_drawn();
    window.assert_no_problems();
}

#[test]
fn a_percentile_that_one_allocator_lacks_moves_no_other_point() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(folder.path());
    let points = "[...document.querySelectorAll('#picture polyline')].map((line) => \
        line.getAttribute('points').split(' '))";
    let draw = || -> Vec<Vec<String>> {
        window.show_folded(&page, "");
        window.wait_until_drawn();
        serde_json::from_value(window.eval(points)).unwrap()
    };
    let mut all = draw();
    edit_facts(&page, |facts| {
        let base = facts["verdict"]["base"].as_u64().unwrap() as usize;
        let malloc = &mut facts["allocators"][base]["operations"]["malloc"];
        malloc["percentiles"].as_object_mut().unwrap().remove("p99").unwrap();
    });
    all[0].remove(2);
    assert_eq!(draw(), all);
    window.assert_no_problems();
}

#[test]
fn a_long_decision_leaves_the_calls_folded() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page_of(&[folder.path()], 5);
    let sentences: Vec<String> = (0..80).map(|at| format!("Sentence {at}.")).collect();
    edit_facts(&page, |facts| facts["verdict"]["unseen"] = json!(sentences));
    window.show_folded(&page, "");
    window.wait_until_drawn();
    let length = window.number("document.documentElement.scrollHeight");
    assert!(length <= 4000.0, "{length} px");
    window.show_folded(&page, "?again#calls");
    window.wait_until_drawn();
    let folded = "document.getElementById('calls').classList.contains('folded')";
    assert_eq!(window.eval(folded), Value::Bool(false));
    // The calls stay for a reader who unfolds another section before all is loaded.
    let html = std::fs::read_to_string(&page).unwrap();
    let module = "<script type=\"module\">";
    let reader = "<script>new MutationObserver((_, observer) => { const button = \
        document.querySelector('#memory-section .fold'); if (!button) return; \
        observer.disconnect(); button.click(); }).observe(document, { childList: true, subtree: \
        true });</script>";
    std::fs::write(&page, html.replacen(module, &format!("{reader}{module}"), 1)).unwrap();
    window.show_folded(&page, "?reader");
    window.wait_until_drawn();
    let memory = folded.replace("calls", "memory-section");
    assert_eq!([window.eval(&memory), window.eval(folded)], [false, false].map(Value::Bool));
    window.assert_no_problems();
}

#[test]
fn one_of_a_kind_is_singular() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(folder.path());
    edit_facts(&page, |facts| {
        facts["journal"]["operations"] = json!({ "malloc": 1 });
        facts["journal"]["peak_live_objects"] = json!(1);
        facts["journal"]["cross_thread_frees"] = json!(1);
        facts["settings"]["runs"] = json!(1);
    });
    window.show_folded(&page, "");
    window.wait_until_drawn();
    let workload = text(&window, "workload");
    assert!(workload.starts_with("1 operation of synthetic"), "{workload}");
    assert!(workload.contains(" was replayed on "), "{workload}");
    let setup = text(&window, "facts-list");
    for part in [" in 1 object; ", " · 1 cross-thread free", " · 1 run of each allocator"] {
        assert!(setup.contains(part), "{part}: {setup}");
    }
    window.assert_no_problems();
}

#[test]
fn without_scripts_the_page_says_what_it_needs() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(folder.path());
    window.disable_scripts();
    window.tab.navigate_to(&format!("file://{}", page.display())).unwrap();
    window.tab.wait_until_navigated().unwrap();
    window.screenshot("without-scripts.png", false);
    let names: Vec<String> =
        window.accessible_elements().into_iter().map(|(_, name)| name).collect();
    let shown = names.join("\n");
    assert!(shown.contains("needs JavaScript") && !shown.contains("Metrics"), "{shown}");
}
