//! Retired words: the list in `retired-words.txt`, refused in sources, documents and names of
//! files.

use crate::{Findings, tree};
use anyhow::{Context as _, Result};
use regex::Regex;
use std::path::{Path, PathBuf};

/// The list, in the repository.
const LIST: &str = "lab/tidy/retired-words.txt";

/// A line with this marker, and the line after it, may quote a retired word.
const MARKER: &str = "tidy:quoted";

const EXTENSIONS: [&str; 20] = [
    "c", "h", "cc", "cpp", "hpp", "rs", "js", "mjs", "css", "html", "py", "sh", "bash", "md",
    "toml", "txt", "cmake", "in", "snap", "rb",
];
const NAMES: [&str; 4] = ["Makefile", "LAYERS", ".clang-format", "run"];

/// Checks every text file of the repository.
pub fn check(root: &Path, files: &[PathBuf]) -> Result<Findings> {
    let text = std::fs::read_to_string(root.join(LIST)).with_context(|| LIST.to_owned())?;
    let list = List::parse(&text)?;
    let mut findings = Findings::new();
    let is_text = |file: &&PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        tree::has_extension(file, &EXTENSIONS) || NAMES.contains(&name)
    };
    for file in files.iter().filter(|file| !list.is_exempt(file)) {
        findings.extend(list.findings_in_name(file));
    }
    for file in files.iter().filter(is_text).filter(|file| !list.is_exempt(file)) {
        let bytes = std::fs::read(root.join(file)).with_context(|| file.display().to_string())?;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            findings.extend(list.findings(file, text));
        }
    }
    Ok(findings)
}

/// The parsed list.
struct List {
    retired: Vec<Retired>,
    allowed: Vec<Phrase>,
    exempt: Vec<PathBuf>,
    microseconds: Regex,
}

/// A line of the list.
struct Retired {
    phrases: Vec<Phrase>,
    replacement: String,
    /// Empty: everywhere.
    only_in: Vec<PathBuf>,
    not_in: Vec<PathBuf>,
    /// The letters that its phrases begin with.
    initials: String,
}

/// Words in sequence, in lower case; a word that ends in `*` matches every word that begins so.
struct Phrase(Vec<String>);

impl Phrase {
    fn parse(text: &str) -> Phrase {
        Phrase(
            text.split([' ', '_', '-'])
                .filter(|word| !word.is_empty())
                .map(str::to_lowercase)
                .collect(),
        )
    }

    /// Whether it begins at this word of the text.
    fn is_at(&self, words: &[Word]) -> bool {
        let fits = |(pattern, word): (&String, &Word)| match pattern.strip_suffix('*') {
            Some(stem) => word.text.starts_with(stem),
            None => word.text == *pattern,
        };
        let joined = |word: &Word| word.follows;
        words.len() >= self.0.len()
            && self.0.iter().zip(words).all(fits)
            && words[1..self.0.len()].iter().all(joined)
    }
}

impl List {
    fn parse(text: &str) -> Result<List> {
        let microseconds = Regex::new(r"(^|[^\w.])[0-9][0-9.,]* ?us\b")?;
        let mut list =
            List { retired: Vec::new(), allowed: Vec::new(), exempt: Vec::new(), microseconds };
        let lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            if let Some(paths) = line.strip_prefix("exempt ") {
                list.exempt.extend(paths.split_whitespace().map(PathBuf::from));
            } else if let Some(phrases) = line.strip_prefix("allow ") {
                list.allowed.extend(phrases.split(',').map(|text| Phrase::parse(text.trim())));
            } else {
                list.retired.push(Retired::parse(line)?);
            }
        }
        Ok(list)
    }

    fn is_exempt(&self, file: &Path) -> bool {
        file == Path::new(LIST) || self.exempt.iter().any(|path| file.starts_with(path))
    }

    fn findings_in_name(&self, file: &Path) -> Findings {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let findings = self.findings(file, &name).into_iter();
        findings.map(|finding| finding.replacen(":1:", ": the file's name:", 1)).collect()
    }

    fn findings(&self, file: &Path, text: &str) -> Findings {
        let lines: Vec<&str> = text.lines().collect();
        let quoted = |index: usize| {
            lines[index].contains(MARKER) || (index > 0 && lines[index - 1].contains(MARKER))
        };
        let mut found: Vec<(usize, String)> = Vec::new();
        let words = words_of(text);
        let allowed = self.allowed_words(&words);
        let retired: Vec<&Retired> =
            self.retired.iter().filter(|retired| retired.applies_to(file)).collect();
        for at in (0..words.len()).filter(|&at| !allowed[at] && !quoted(words[at].line)) {
            for retired in retired.iter().filter(|retired| retired.may_begin_with(&words[at])) {
                if let Some(phrase) =
                    retired.phrases.iter().find(|phrase| phrase.is_at(&words[at..]))
                {
                    let matched: Vec<&str> = words[at..at + phrase.0.len()]
                        .iter()
                        .map(|word| word.text.as_str())
                        .collect();
                    let message =
                        format!("\"{}\": write {}", matched.join(" "), retired.replacement);
                    found.push((words[at].line, message));
                }
            }
        }
        for (index, line) in lines.iter().enumerate().filter(|(index, _)| !quoted(*index)) {
            if self.microseconds.is_match(line) {
                found.push((index, "\"us\" after a number: write µs".to_owned()));
            }
        }
        found.sort();
        found.dedup();
        found
            .into_iter()
            .map(|(line, what)| format!("{}:{}: {what}", file.display(), line + 1))
            .collect()
    }

    /// For each word, whether it is a part of an allowed phrase.
    fn allowed_words(&self, words: &[Word]) -> Vec<bool> {
        let mut allowed = vec![false; words.len()];
        for at in 0..words.len() {
            for phrase in self.allowed.iter().filter(|phrase| phrase.is_at(&words[at..])) {
                allowed[at..at + phrase.0.len()].fill(true);
            }
        }
        allowed
    }
}

impl Retired {
    /// `word, phrase of words, stem* -> replacement; in PATH...; not in PATH...`
    fn parse(line: &str) -> Result<Retired> {
        let (phrases, rest) =
            line.split_once(" -> ").with_context(|| format!("{LIST}: no `->` in: {line}"))?;
        let mut parts = rest.split(';').map(str::trim);
        let replacement = parts.next().unwrap_or_default().to_owned();
        let phrases: Vec<Phrase> =
            phrases.split(',').map(|text| Phrase::parse(text.trim())).collect();
        let initials =
            phrases.iter().filter_map(|phrase| phrase.0.first()?.chars().next()).collect();
        let mut retired =
            Retired { phrases, replacement, only_in: Vec::new(), not_in: Vec::new(), initials };
        for part in parts {
            if let Some(paths) = part.strip_prefix("not in ") {
                retired.not_in.extend(paths.split_whitespace().map(PathBuf::from));
            } else if let Some(paths) = part.strip_prefix("in ") {
                retired.only_in.extend(paths.split_whitespace().map(PathBuf::from));
            } else {
                anyhow::bail!("{LIST}: neither `in` nor `not in`: {line}");
            }
        }
        Ok(retired)
    }

    fn may_begin_with(&self, word: &Word) -> bool {
        word.text.chars().next().is_some_and(|first| self.initials.contains(first))
    }

    fn applies_to(&self, file: &Path) -> bool {
        let lies_in = |paths: &[PathBuf]| paths.iter().any(|path| file.starts_with(path));
        (self.only_in.is_empty() || lies_in(&self.only_in)) && !lies_in(&self.not_in)
    }
}

/// A word of a text, in lower case.
struct Word {
    text: String,
    /// From 0.
    line: usize,
    /// Whether nothing but space, `_`, `-` and the marks of comments is between the word before
    /// and this one.
    follows: bool,
}

/// The words of a text: letters and inner apostrophes. Identifiers are split at `_` and before
/// capitals.
fn words_of(text: &str) -> Vec<Word> {
    let (mut words, mut line, mut follows) = (Vec::<Word>::new(), 0, false);
    let (mut word, mut last) = (String::new(), ' ');
    let mut characters = text.chars().peekable();
    let mut end = |word: &mut String, line: usize, follows: &mut bool| {
        if !word.is_empty() {
            words.push(Word { text: std::mem::take(word).to_lowercase(), line, follows: *follows });
            *follows = true;
        }
    };
    while let Some(character) = characters.next() {
        let inner = "'’".contains(character)
            && !word.is_empty()
            && characters.peek().is_some_and(|next| next.is_alphabetic());
        if character.is_alphabetic() || inner {
            if character.is_uppercase() && last.is_lowercase() {
                end(&mut word, line, &mut follows);
            }
            word.push(if inner { '\'' } else { character });
        } else {
            end(&mut word, line, &mut follows);
            follows &= character.is_whitespace() || "_-/*!#>".contains(character);
            line += usize::from(character == '\n');
        }
        last = character;
    }
    end(&mut word, line, &mut follows);
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    const SAMPLE: &str = "# a comment\nallow by hand\nexempt quoted\nhand, tol* -> pass\n\
                          until_look -> used\nmail -> remote frees; in c; not in c/d\n";

    fn found(file: &str, text: &str) -> Findings {
        List::parse(SAMPLE).unwrap().findings(Path::new(file), text)
    }

    #[test]
    fn words_are_found_in_prose_and_in_identifiers() {
        assert_eq!(found("a.rs", "a\nis told\n"), vec!["a.rs:2: \"told\": write pass"]);
        for text in
            ["told_size", "is_told", "ToldSize", "isTold", "TOLD", "Told.", "a hand's\nhand"]
        {
            assert_eq!(found("a.rs", text).len(), 1, "{text}");
        }
        for text in ["stolen", "handle", "secondhand", "atoll"] {
            assert!(found("a.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn phrases_are_found_across_lines_of_a_comment_and_not_across_sentences() {
        for text in ["until_look", "untilLook", "/* until\n * look */", "// until\n// look"] {
            assert_eq!(found("a.c", text).len(), 1, "{text}");
        }
        assert!(found("a.c", "until. Look").is_empty());
    }

    #[test]
    fn allowed_phrases_scopes_and_quotations_are_left_alone() {
        assert!(found("a.md", "written by hand").is_empty());
        assert_eq!(found("c/x.c", "mail").len(), 1);
        assert!(found("c/d/x.c", "mail").is_empty() && found("e/x.c", "mail").is_empty());
        assert!(found("a.md", "<!-- tidy:quoted -->\n> he told me\n").is_empty());
        assert!(List::parse(SAMPLE).unwrap().is_exempt(Path::new("quoted/a.txt")));
    }

    #[test]
    fn names_of_files_are_read_too() {
        let list = List::parse(SAMPLE).unwrap();
        let found = list.findings_in_name(Path::new("told/told.rs"));
        assert_eq!(found, vec!["told/told.rs: the file's name: \"told\": write pass"]);
    }

    #[test]
    fn microseconds_have_their_sign() {
        assert_eq!(
            found("a.md", "5.2 us, then 10us"),
            vec!["a.md:1: \"us\" after a number: write µs"]
        );
        assert!(found("a.md", "5 µs of 3 users; delay_10us; p50_us").is_empty());
    }

    #[test]
    fn the_list_of_the_repository_is_sound() {
        let list = List::parse(include_str!("../retired-words.txt")).unwrap();
        assert!(list.retired.len() > 20);
        let sound =
            |retired: &Retired| !retired.replacement.is_empty() && !retired.phrases.is_empty();
        assert!(list.retired.iter().all(sound));
    }
}
