//! Puts the parts of the page into one file.

use crate::facts::{Facts, Part};
use crate::words::{bound, escape_markup as escape};
use serde::Serialize as _;

const HTML: &str = include_str!("../../page/page.html");
const STYLE: [&str; 3] = [
    include_str!("../../page/theme.css"),
    include_str!("../../page/layout.css"),
    include_str!("../../page/views.css"),
];
/// In order of dependence: while it loads, a file uses only files above its line.
const SCRIPTS: [&str; 31] = [
    include_str!("../../page/format.js"),
    include_str!("../../page/data.js"),
    include_str!("../../page/pyramid.js"),
    include_str!("../../page/colour.js"),
    include_str!("../../page/axes.js"),
    include_str!("../../page/state.js"),
    include_str!("../../page/stacks.js"),
    include_str!("../../page/rasters.js"),
    include_str!("../../page/painters.js"),
    include_str!("../../page/marks.js"),
    include_str!("../../page/density.js"),
    include_str!("../../page/gestures.js"),
    include_str!("../../page/percentiles.js"),
    include_str!("../../page/memory.js"),
    include_str!("../../page/strips.js"),
    include_str!("../../page/frames.js"),
    include_str!("../../page/planes.js"),
    include_str!("../../page/outliers.js"),
    include_str!("../../page/table.js"),
    include_str!("../../page/call_sites.js"),
    include_str!("../../page/pinned.js"),
    include_str!("../../page/flame.js"),
    include_str!("../../page/flame_tools.js"),
    include_str!("../../page/pairs.js"),
    include_str!("../../page/verdict.js"),
    include_str!("../../page/hitch.js"),
    include_str!("../../page/picture.js"),
    include_str!("../../page/contents.js"),
    include_str!("../../page/comparisons.js"),
    include_str!("../../page/notes.js"),
    include_str!("../../page/main.js"),
];

/// The whole page, which opens with the first part. Blocks are placed after the visible elements,
/// so that these show before the blocks are read.
pub fn assemble(parts: &[Part]) -> String {
    let blocks = || parts.iter().flat_map(|part| &part.blocks);
    let mut html = String::with_capacity(
        blocks().map(|block| block.text.len() + 100).sum::<usize>() + (1 << 20),
    );
    let mut rest = HTML;
    while let Some((before, after)) = rest.split_once("{{") {
        html.push_str(before);
        let (name, after) = after.split_once("}}").unwrap_or(("", after));
        place(&mut html, name, parts);
        rest = after;
    }
    html.push_str(rest);
    html
}

fn place(html: &mut String, name: &str, parts: &[Part]) {
    let first = parts.first().map(|part| &part.facts);
    match name {
        "title" => first.into_iter().for_each(|facts| html.push_str(&escape(&facts.journal.name))),
        "headline" => {
            let verdict = first.map(|facts| &facts.verdict);
            verdict
                .into_iter()
                .for_each(|one| html.push_str(&escape(&bound(one.first_sentence()))));
        }
        "style" => STYLE.iter().for_each(|style| html.push_str(style)),
        "facts" => parts.iter().for_each(|part| html.push_str(&facts(&part.facts))),
        "blocks" => {
            parts
                .iter()
                .flat_map(|part| &part.blocks)
                .for_each(|block| html.push_str(&block.html()));
        }
        "script" => SCRIPTS.iter().for_each(|script| html.push_str(script)),
        other => debug_assert!(false, "unknown part {other} in page.html"),
    }
}

/// The element with the facts of a comparison.
fn facts(facts: &Facts) -> String {
    let (prefix, json) = (&facts.prefix, json(facts));
    format!(
        "<script type=\"application/json\" class=\"comparison-facts\" \
         id=\"{prefix}facts\">{json}</script>\n"
    )
}

/// JSON for the inside of a `<script>` element: without `<`, which could end the element.
fn json(facts: &Facts) -> String {
    let mut bytes = Vec::new();
    // Cannot fail: the facts are plain structs of numbers and strings.
    let _ = facts.serialize(&mut serde_json::Serializer::new(&mut bytes));
    String::from_utf8_lossy(&bytes).replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_known_parts_and_loads_nothing() {
        let names: Vec<&str> =
            HTML.split("{{").skip(1).filter_map(|part| Some(part.split_once("}}")?.0)).collect();
        assert_eq!(names, ["title", "style", "headline", "facts", "blocks", "script"]);
        for part in STYLE.iter().chain(&SCRIPTS).chain([&HTML]) {
            for outside in ["https:", "http:", "@import", "url("] {
                let at = part.find(outside).map(|at| &part[at..part.len().min(at + 60)]);
                assert!(
                    at.is_none_or(|text| text.starts_with("http://www.w3.org/2000/svg")),
                    "{at:?}"
                );
            }
        }
    }
}
