//! The page of one suite: the parts of `suite/` in one file.

use super::headline::suite_headline;
use super::markdown::noise_found;
use crate::words::escape_markup as escape;
use keel_results::Suite;

const HTML: &str = include_str!("../../suite/page.html");
const STYLE: [&str; 4] = [
    include_str!("../../page/theme.css"),
    include_str!("../../page/layout.css"),
    include_str!("../../page/views.css"),
    include_str!("../../suite/suite.css"),
];
/// In order of dependence.
const SCRIPTS: [&str; 6] = [
    include_str!("../../page/format.js"),
    include_str!("../../page/colour.js"),
    include_str!("../../suite/data.js"),
    include_str!("../../suite/charts.js"),
    include_str!("../../suite/tables.js"),
    include_str!("../../suite/main.js"),
];

/// The page with all runs of the suite. It loads nothing.
pub fn suite_page(suite: &Suite) -> String {
    filled(HTML, &|name| match name {
        "title" => "Benchmark suite".to_owned(),
        "headline" => escape(&suite_headline(suite)),
        "noise" => escape(&noise_found(suite)),
        "style" => STYLE.concat(),
        // A `<` could end the element.
        "data" => serde_json::to_string(suite).unwrap_or_default().replace('<', "\\u003c"),
        _ => SCRIPTS.concat(),
    })
}

/// The text with each `{{name}}` replaced.
pub fn filled(text: &str, part: &dyn Fn(&str) -> String) -> String {
    let mut filled = String::with_capacity(1 << 18);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or(("", after));
        filled.push_str(before);
        filled.push_str(&part(name));
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// The styles that all pages of suites share.
pub fn style() -> String {
    STYLE.concat()
}
