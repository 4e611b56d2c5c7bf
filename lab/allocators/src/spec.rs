//! The syntax of `--allocator`, the same for all commands.

/// `[LABEL=]ALLOCATOR[:symbols=PREFIX][:VARIABLE=VALUE]...`: a name or path, the label to show, and
/// settings.
///
/// A label has no colon and no slash. A colon begins a setting only if a variable's name and `=`
/// follow, so values may contain colons and commas:
/// `thp=jemalloc:MALLOC_CONF=dirty_decay_ms:0,background_thread:true`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The name to show, if it is not the default.
    pub label: Option<String>,
    /// Name, path or `all`.
    pub name: String,
    /// The prefix of a library's functions.
    pub symbols: Option<String>,
    /// Environment variables and their values.
    pub settings: Vec<(String, String)>,
}

impl Spec {
    /// Parses a specification. Every text is valid; the allocator need not exist.
    pub fn parse(text: &str) -> Spec {
        let (label, text) = match text.split_once('=') {
            Some((label, rest)) if is_label(label) => (Some(label.to_owned()), rest),
            _ => (None, text),
        };
        let mut cuts: Vec<usize> = text
            .match_indices(':')
            .map(|(at, _)| at)
            .filter(|&at| begins_setting(&text[at + 1..]))
            .collect();
        let first = cuts.first().copied().unwrap_or(text.len());
        let mut spec = Spec { label, name: text[..first].to_owned(), ..Spec::default() };
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

    /// Whether it names a library by its path.
    pub fn is_path(&self) -> bool {
        self.name.contains('/') || self.name.ends_with(".so")
    }
}

fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|letter| letter.is_alphanumeric() || "-_.+".contains(letter))
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
        let Spec { label, name, symbols, settings } = Spec::parse(text);
        assert_eq!(label, None, "{text}");
        (name, symbols, settings)
    }

    #[test]
    fn values_of_settings_may_contain_colons() {
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

    #[test]
    fn a_label_comes_before_the_name() {
        let spec = Spec::parse("thp=/usr/lib/libjemalloc.so:MALLOC_CONF=thp:always");
        assert_eq!(spec.label.as_deref(), Some("thp"));
        assert!(spec.is_path() && spec.name == "/usr/lib/libjemalloc.so");
        assert_eq!(spec.settings, [("MALLOC_CONF".to_owned(), "thp:always".to_owned())]);
        assert_eq!(Spec::parse("./a=b.so").label, None, "a path may contain an equals sign");
    }
}
