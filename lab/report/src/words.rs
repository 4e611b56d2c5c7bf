//! Quantities, lists and names in text.

pub use keel_results::text::{bytes, duration};

use std::path::Path;

/// `a`, `a and b`, `a, b and c`.
pub fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

/// `a`, `a or b`, `a, b or c`.
pub fn either(names: &[&str]) -> String {
    match names {
        [init @ .., last] if !init.is_empty() => format!("{} or {last}", init.join(", ")),
        _ => list(names),
    }
}

/// Text for the inside of an element or of an attribute.
pub fn escape_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text for a cell of a Markdown table: it cannot end the cell or begin markup.
pub fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('`', "'")
}

/// The name of a result folder among several.
pub fn folder_label(folder: &Path) -> String {
    let name = folder.file_name().or(folder.parent().and_then(Path::file_name)).unwrap_or_default();
    name.to_string_lossy().trim_end_matches(".comparison").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape_markup("<a b=\"&\">"), "&lt;a b=&quot;&amp;&quot;&gt;");
        assert_eq!(escape_cell("a|b`<"), "a\\|b'&lt;");
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list(&["keel"]), "keel");
        assert_eq!(list(&["keel", "system"]), "keel and system");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(list(&[]), "");
        assert_eq!([either(&["a", "b", "c"]), either(&["a"])], ["a, b or c", "a"]);
    }
}
