//! How an allocator is asked for in words.

/// `NAME[:symbols=PREFIX][:VARIABLE=VALUE]...`: a name or path, and under which settings.
///
/// A colon begins a setting only where a variable's name and `=` follow, so values may hold colons and commas:
/// `jemalloc:MALLOC_CONF=dirty_decay_ms:0,background_thread:true`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// Name, path or `all`.
    pub name: String,
    /// What the names of a library's functions begin with.
    pub symbols: Option<String>,
    /// Environment variables and their values.
    pub settings: Vec<(String, String)>,
}

impl Spec {
    /// Takes the text apart. Every text is a specification; whether there is such an allocator is another question.
    pub fn parse(text: &str) -> Spec {
        let mut cuts: Vec<usize> =
            text.match_indices(':').map(|(at, _)| at).filter(|&at| begins_setting(&text[at + 1..])).collect();
        let first = cuts.first().copied().unwrap_or(text.len());
        let mut spec = Spec { name: text[..first].to_owned(), ..Spec::default() };
        cuts.push(text.len());
        for pair in cuts.windows(2) {
            if let Some((variable, value)) = text[pair[0] + 1..pair[1]].split_once('=') {
                match variable {
                    "symbols" => spec.symbols = Some(value.to_owned()),
                    _ => spec.settings.push((variable.to_owned(), value.to_owned())),
                }
            }
        }
        spec
    }
}

fn begins_setting(text: &str) -> bool {
    let Some((name, _)) = text.split_once('=') else { return false };
    let mut letters = name.chars();
    letters.next().is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, Option<String>, Vec<(String, String)>) {
        let Spec { name, symbols, settings } = Spec::parse(text);
        (name, symbols, settings)
    }

    #[test]
    fn a_specification_is_taken_apart_and_values_keep_their_colons() {
        let pair = |variable: &str, value: &str| (variable.to_owned(), value.to_owned());
        assert_eq!(parsed("keel"), ("keel".to_owned(), None, vec![]));
        assert_eq!(
            parsed("keel:KEEL_KEEPER=off"),
            ("keel".to_owned(), None, vec![pair("KEEL_KEEPER", "off")])
        );
        assert_eq!(
            parsed("./a:b.so:symbols=mi_:MI_X=1:Y="),
            ("./a:b.so".to_owned(), Some("mi_".to_owned()), vec![pair("MI_X", "1"), pair("Y", "")])
        );
        assert_eq!(
            parsed("jemalloc:MALLOC_CONF=dirty_decay_ms:0,background_thread:true"),
            (
                "jemalloc".to_owned(),
                None,
                vec![pair("MALLOC_CONF", "dirty_decay_ms:0,background_thread:true")]
            )
        );
    }
}
