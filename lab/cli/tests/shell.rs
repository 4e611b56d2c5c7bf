//! `keel completions` and `keel manual`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

fn keel(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_keel")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What bash offers after these words. It calls the function with the command, the last word and
/// the one before it.
fn offered(words: &[&str]) -> Vec<String> {
    let script = keel(&["completions", "bash"]);
    let (last, index) = (words.last().unwrap(), words.len());
    let before = ["keel"].iter().chain(words).nth(index - 1).unwrap();
    let program = format!(
        "{script}\nCOMP_WORDS=(keel {}); COMP_CWORD={index}; _keel keel {last} {before}\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" "),
    );
    let output = Command::new("bash").args(["-c", &program]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_options() {
    assert_eq!(offered(&["rec"]), ["record"]);
    assert_eq!(offered(&["record", "--follow"]), ["--follow-children"]);
    assert_eq!(offered(&["plot", "--view", "life"]), ["lifetimes"]);
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        assert!(keel(&["completions", shell]).contains("follow-children"), "{shell}");
    }
}

/// In the script of fish every quoted text is a word of its own: white space follows the quote that
/// ends it. Otherwise the text contains a quote.
#[test]
fn texts_do_not_end_the_quotes_around_them() {
    let script = keel(&["completions", "fish"]);
    let (mut quote, mut letters) = (None, script.chars().peekable());
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', _) => drop(letters.next()),
            ('#', None) => while letters.next_if(|one| *one != '\n').is_some() {},
            ('"' | '\'', None) => quote = Some(letter),
            (_, Some(opened)) if letter == opened => {
                quote = None;
                let rest: String = letters.clone().take(40).collect();
                assert!(rest.is_empty() || rest.starts_with(char::is_whitespace), "{rest}");
            }
            _ => {}
        }
    }
    assert_eq!(quote, None);
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    keel(&["manual", folder.path().to_str().unwrap()]);
    let help = keel(&["--help"]);
    let commands: Vec<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with(|letter: char| letter.is_ascii_lowercase()))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() >= 16, "{commands:?}");
    for command in commands {
        let page = folder.path().join(format!("keel-{command}.1"));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{command}: {text}");
        // The title, the section, the day and the version; the day is in no quotes.
        let title = text.lines().find(|line| line.starts_with(".TH ")).unwrap();
        let words: Vec<&str> = title.split_whitespace().collect();
        assert_eq!(&words[1..3], [&format!("keel-{command}"), "1"], "{title}");
        assert_eq!(words[3].split('-').count(), 3, "{title}");
        assert!(title.contains(concat!("\"keel ", env!("CARGO_PKG_VERSION"), "\"")), "{title}");
    }
}
