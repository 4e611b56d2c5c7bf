//! Figures and lists as a person would write them.

pub use keel_results::text::{bytes, duration};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list(&["keel"]), "keel");
        assert_eq!(list(&["keel", "system"]), "keel and system");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(list(&[]), "");
        assert_eq!([either(&["a", "b", "c"]), either(&["a"])], ["a, b or c", "a"]);
    }
}
