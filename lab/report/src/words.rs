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

/// `12 %`, with a digit below 10 %.
pub fn short_percent(share: f64) -> String {
    let value = 100.0 * share;
    let digits = usize::from(value < 9.95);
    format!("{value:.digits$} %")
}

/// How much lower a value is, `12 %`: with a digit below 10 % and from 95 % on.
pub fn lower_by(share: f64) -> String {
    let value = 100.0 * share;
    let digits = usize::from(!(9.95..94.95).contains(&value));
    format!("{value:.digits$} %")
}

/// `1.3 % of the recorded time`.
pub fn percent_of(share: f64, of: &str) -> String {
    match 100.0 * share {
        value if value < 0.01 => format!("less than 0.01 % {of}"),
        value if value < 1.0 => format!("{value:.2} % {of}"),
        value => format!("{value:.1} % {of}"),
    }
}

/// Beyond this factor the end of a ratio's interval is not printed: the runs varied too much for it
/// to mean more than "many times".
pub const WIDEST: f64 = 100.0;

/// A ratio in text, cut at [`WIDEST`]: `1.034`, `12.5`, `>100`, `<0.01`.
pub fn ratio(value: f64, digits: usize) -> String {
    match value {
        _ if value > WIDEST => format!(">{WIDEST}"),
        _ if value < 1.0 / WIDEST => format!("<{}", 1.0 / WIDEST),
        _ => format!("{value:.digits$}"),
    }
}

/// The text with no-break spaces between numbers and their units, for the page.
pub fn bound(text: &str) -> String {
    const UNITS: [&str; 12] =
        ["ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB", "TiB", "Hz", "%", "PiB"];
    let mut words = text.split(' ').peekable();
    let mut bound = String::with_capacity(text.len() + 16);
    while let Some(word) = words.next() {
        bound.push_str(word);
        let Some(next) = words.peek() else { break };
        let unit = next.trim_end_matches(['.', ',', ';', ':', ')']);
        let number = word.ends_with(|last: char| last.is_ascii_digit());
        bound.push(if number && UNITS.contains(&unit) { '\u{a0}' } else { ' ' });
    }
    bound
}

/// Text for the inside of an element or of an attribute.
pub fn escape_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text for a cell of a Markdown table: it cannot end the cell or begin markup.
pub fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('`', "'")
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
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
    fn numbers_stay_with_their_units() {
        let text = "12 % of 3.5 MiB, (2 ms) in 5 runs of sed 4 strings, 7 s.";
        let expected =
            "12\u{a0}% of 3.5\u{a0}MiB, (2\u{a0}ms) in 5 runs of sed 4 strings, 7\u{a0}s.";
        assert_eq!(bound(text), expected);
    }

    #[test]
    fn a_ratio_is_cut_where_it_means_many_times() {
        assert_eq!([ratio(1.0344, 3), ratio(100.0, 1)], ["1.034", "100.0"]);
        assert_eq!([ratio(3254.1, 3), ratio(0.0003, 3)], [">100", "<0.01"]);
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list(&["keel"]), "keel");
        assert_eq!(list(&["keel", "system"]), "keel and system");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(list(&[]), "");
    }
}
