//! The parts of the page, and how they become one file.

use crate::encode::Block;
use crate::model::Facts;
use serde::Serialize as _;

const HTML: &str = include_str!("../page/page.html");
const STYLE: [&str; 3] = [
    include_str!("../page/theme.css"),
    include_str!("../page/layout.css"),
    include_str!("../page/views.css"),
];
/// In order of dependence: while it loads, a file uses only what stands above it.
const SCRIPTS: [&str; 24] = [
    include_str!("../page/format.js"),
    include_str!("../page/data.js"),
    include_str!("../page/pyramid.js"),
    include_str!("../page/colour.js"),
    include_str!("../page/axes.js"),
    include_str!("../page/state.js"),
    include_str!("../page/rasters.js"),
    include_str!("../page/painters.js"),
    include_str!("../page/marks.js"),
    include_str!("../page/density.js"),
    include_str!("../page/gestures.js"),
    include_str!("../page/percentiles.js"),
    include_str!("../page/memory.js"),
    include_str!("../page/strips.js"),
    include_str!("../page/frames.js"),
    include_str!("../page/planes.js"),
    include_str!("../page/outliers.js"),
    include_str!("../page/table.js"),
    include_str!("../page/pairs.js"),
    include_str!("../page/verdict.js"),
    include_str!("../page/hitch.js"),
    include_str!("../page/comparisons.js"),
    include_str!("../page/notes.js"),
    include_str!("../page/main.js"),
];

/// One comparison of the page.
pub struct Part {
    /// Its facts.
    pub facts: Facts,
    /// Its blocks.
    pub blocks: Vec<Block>,
}

/// The whole page, which begins with the first part. Blocks are placed after the visible part, so that it shows before
/// they are read.
pub fn assemble(parts: &[Part]) -> String {
    let blocks = || parts.iter().flat_map(|part| &part.blocks);
    let mut html =
        String::with_capacity(blocks().map(|block| block.text.len() + 100).sum::<usize>() + (1 << 20));
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
        "headline" => first.into_iter().for_each(|facts| html.push_str(&escape(&facts.verdict.headline))),
        "style" => STYLE.iter().for_each(|style| html.push_str(style)),
        "facts" => parts.iter().for_each(|part| html.push_str(&facts(&part.facts))),
        "blocks" => {
            parts.iter().flat_map(|part| &part.blocks).for_each(|block| html.push_str(&block.html()));
        }
        "script" => SCRIPTS.iter().for_each(|script| html.push_str(script)),
        other => debug_assert!(false, "page.html asks for {other}"),
    }
}

/// The element that holds a comparison's facts.
fn facts(facts: &Facts) -> String {
    let (prefix, json) = (&facts.prefix, json(facts));
    format!(
        "<script type=\"application/json\" class=\"comparison-facts\" id=\"{prefix}facts\">{json}</script>\n"
    )
}

/// JSON that may stand inside a `<script>` element: no `<` can end the element early.
fn json(facts: &Facts) -> String {
    let mut bytes = Vec::new();
    // Plain structs of numbers and strings: this cannot fail.
    let _ = facts.serialize(&mut serde_json::Serializer::new(&mut bytes));
    String::from_utf8_lossy(&bytes).replace('<', "\\u003c")
}

/// Text that may stand between tags or in an attribute.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_for_known_parts_and_loads_nothing() {
        let names: Vec<&str> =
            HTML.split("{{").skip(1).filter_map(|part| Some(part.split_once("}}")?.0)).collect();
        assert_eq!(names, ["title", "style", "headline", "facts", "blocks", "script"]);
        for part in STYLE.iter().chain(&SCRIPTS).chain([&HTML]) {
            for outside in ["https:", "http:", "@import", "url("] {
                let at = part.find(outside).map(|at| &part[at..part.len().min(at + 60)]);
                assert!(at.is_none_or(|text| text.starts_with("http://www.w3.org/2000/svg")), "{at:?}");
            }
        }
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("<a b=\"&\">"), "&lt;a b=&quot;&amp;&quot;&gt;");
    }
}
