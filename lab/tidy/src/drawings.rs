//! Drawings in comments and documents that lost their shape, as when a formatter reflows them.
//!
//! Four faults are looked for:
//!
//! - A vertical bar or corner of a box that joins nothing in the lines above and below.
//! - A plus of a border (pluses with dashes between them) that has neither `|` nor `+` above or
//!   below it.
//! - Text in columns (indented, with a wide gap inside) that goes on in a line without indentation.
//! - A comment whose closing mark alone was moved to the next line.

use crate::{Findings, tree};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// Characters of boxes that continue upward, and those that continue downward.
const UP: &str = "│║├┤┼┴└┘╰╯╠╣╩╬╚╝▲";
const DOWN: &str = "│║├┤┼┬┌┐╭╮╠╣╦╬╔╗▼";
/// What a bar may meet besides: arrows, bars that cross it, and the edge of a box.
const JOINS: &str = "─═▶◀▲▼┬┴┼▷◁^v";

/// Checks every C, Rust, JavaScript, Python and Markdown file.
pub fn check(root: &Path, files: &[PathBuf]) -> Result<Findings> {
    let mut findings = Findings::new();
    for file in files.iter().filter(|file| !file.starts_with("bench/runs")) {
        let name = file.display().to_string();
        let read = || std::fs::read_to_string(root.join(file)).with_context(|| name.clone());
        if tree::has_extension(file, &["c", "h", "cc", "cpp", "hpp", "rs", "js", "py"]) {
            let text = read()?;
            findings.extend(boxes(&name, &comment_blocks(&text)));
            findings.extend(borders(&name, &comment_blocks(&text)));
            findings.extend(columns(&name, &comment_blocks(&text)));
            findings.extend(closing_marks(&name, &text));
        } else if tree::has_extension(file, &["md"]) {
            let text = read()?;
            findings.extend(boxes(&name, &fenced_blocks(&text)));
            findings.extend(borders(&name, &fenced_blocks(&text)));
        }
    }
    Ok(findings)
}

/// Lines that follow one another, each with its index.
type Block<'a> = Vec<(usize, &'a str)>;

/// The lines that `chosen` accepts, in runs.
fn blocks<'a>(text: &'a str, mut chosen: impl FnMut(&str) -> bool) -> Vec<Block<'a>> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        let take = chosen(line);
        if take && !open {
            blocks.push(Vec::new());
        }
        if let Some(block) = blocks.last_mut().filter(|_| take) {
            block.push((index, line));
        }
        open = take;
    }
    blocks
}

/// Runs of lines that are nothing but comment.
fn comment_blocks(text: &str) -> Vec<Block<'_>> {
    let is_comment = |line: &str| {
        let line = line.trim_start();
        ["//", "/*", "* ", "*/"].iter().any(|mark| line.starts_with(mark))
            || line == "*"
            || (line.starts_with('#') && line[1..].starts_with([' ', '#']))
    };
    blocks(text, is_comment)
}

/// The contents of the fences of a Markdown text.
fn fenced_blocks(text: &str) -> Vec<Block<'_>> {
    let mut fenced = false;
    blocks(text, move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        fenced && !fence
    })
}

/// Bars and corners that join nothing.
fn boxes(name: &str, blocks: &[Block]) -> Findings {
    let mut findings = Findings::new();
    for block in blocks {
        let rows = rows_of(block);
        for (row, characters) in rows.iter().enumerate() {
            let loose = characters.iter().enumerate().find(|&(column, &character)| {
                let (above, below) = around(&rows, row, column);
                let joins_above = DOWN.contains(above) || JOINS.contains(above);
                let joins_below = UP.contains(below) || JOINS.contains(below);
                match character {
                    '│' | '║' => !joins_above && !joins_below,
                    '┌' | '┐' | '╭' | '╮' | '┬' => !joins_below,
                    '└' | '┘' | '╰' | '╯' | '┴' => !joins_above,
                    _ => false,
                }
            });
            if let Some((column, character)) = loose {
                findings.push(joins_nothing(name, block[row].0, column, *character));
            }
        }
    }
    findings
}

fn rows_of(block: &Block) -> Vec<Vec<char>> {
    block.iter().map(|(_, line)| line.chars().collect()).collect()
}

/// The characters above and below a place; a space where there is none.
fn around(rows: &[Vec<char>], row: usize, column: usize) -> (char, char) {
    let at = |row: Option<usize>| row.and_then(|row| rows.get(row)?.get(column).copied());
    (at(row.checked_sub(1)).unwrap_or(' '), at(Some(row + 1)).unwrap_or(' '))
}

fn joins_nothing(name: &str, line: usize, column: usize, character: char) -> String {
    format!(
        "{name}:{}: the drawing is broken: {character} in column {} joins nothing",
        line + 1,
        column + 1
    )
}

/// Borders, pluses with dashes between them, that no side of a box meets, as after a line break in
/// the middle.
fn borders(name: &str, blocks: &[Block]) -> Findings {
    let mut findings = Findings::new();
    for block in blocks {
        let rows = rows_of(block);
        for (row, characters) in rows.iter().enumerate() {
            let loose = border_corners(characters).into_iter().find(|&column| {
                let (above, below) = around(&rows, row, column);
                !['|', '+'].contains(&above) && !['|', '+'].contains(&below)
            });
            findings.extend(loose.map(|column| joins_nothing(name, block[row].0, column, '+')));
        }
    }
    findings
}

/// The columns of each `+` that dashes connect with the next or the previous one. Dots and spaces
/// may interrupt the dashes.
fn border_corners(characters: &[char]) -> Vec<usize> {
    let corners: Vec<usize> =
        (0..characters.len()).filter(|&column| characters[column] == '+').collect();
    let connects = |pair: &&[usize]| {
        let between = &characters[pair[0] + 1..pair[1]];
        between.len() >= 2
            && between.starts_with(&['-'])
            && between.ends_with(&['-'])
            && between.iter().all(|character| ['-', '.', ' '].contains(character))
    };
    let mut columns: Vec<usize> = corners.windows(2).filter(connects).flatten().copied().collect();
    columns.dedup();
    columns
}

/// A comment's text after its mark, with its indentation.
fn comment_text(line: &str) -> &str {
    let line = line.trim_start();
    let marks = ["//!", "///", "//", "/**", "/*", "*/", "*", "#"];
    marks.iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line).trim_end()
}

/// Where the indented text of one line goes on flush in the next. Fenced text of rustdoc may be
/// flush.
fn columns(name: &str, blocks: &[Block]) -> Findings {
    let mut findings = Findings::new();
    for block in blocks {
        let mut fenced = false;
        for pair in block.windows(2) {
            let (first, second) = (comment_text(pair[0].1), comment_text(pair[1].1));
            fenced ^= first.trim_start().starts_with("```");
            if fenced {
                continue;
            }
            let indent = |text: &str| text.len() - text.trim_start().len();
            let has_gap = |text: &str| text.trim_start().contains("    ");
            let flush = !second.is_empty() && indent(second) <= 1;
            let overflows = second.trim_start().starts_with(|first: char| first.is_lowercase());
            if indent(first) >= 3 && has_gap(first) && flush && (overflows || has_gap(second)) {
                findings.push(format!(
                    "{name}:{}: the drawing is broken: its line goes on without indentation",
                    pair[1].0 + 1
                ));
            }
        }
    }
    findings
}

/// ` * */`: what remains where a formatter wraps a line that was full.
fn closing_marks(name: &str, text: &str) -> Findings {
    let alone = text.lines().enumerate().filter(|(_, line)| line.trim() == "* */");
    alone
        .map(|(index, _)| format!("{name}:{}: the comment's closing mark is alone", index + 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_markdown(drawing: &str) -> Findings {
        boxes("a.md", &fenced_blocks(&format!("```text\n{drawing}```\n")))
    }

    #[test]
    fn a_whole_box_is_accepted() {
        assert!(in_markdown("┌───┐      ▲\n│ a ├─────▶│\n└─┬─┘      │\n  ▼\n").is_empty());
    }

    #[test]
    fn a_box_with_a_shifted_side_is_found() {
        let found = in_markdown("┌───┐\n│ abc │\n└───┘\n");
        assert_eq!(found[0], "a.md:2: the drawing is broken: ┐ in column 5 joins nothing");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_border_in_the_middle_of_a_line_is_found() {
        // `#` stands for a plus, so that this file passes its own check.
        let found = |text: &str| borders("a.h", &comment_blocks(&text.replace('#', "+")));
        let sound = "// A page:\n//\n//   #----#-- .. --#\n//   | b0 |        |  x\n\
                     //   #----#-- .. --#\n//      #-> next\n";
        assert!(found(sound).is_empty(), "{:?}", found(sound));
        let wrapped = "// A page: #----#-- ..\n// --#------# | b0 |        | x\n\
                       // #----#-- .. --#\n";
        assert_eq!(found(wrapped)[0], "a.h:1: the drawing is broken: + in column 12 joins nothing");
        assert_eq!(found(wrapped).len(), 3);
    }

    #[test]
    fn text_in_columns_that_was_wrapped_is_found() {
        let found = |text: &str| columns("a.c", &comment_blocks(text));
        let sound = "/* Idea.\n *\n *   malloc      a.c\n *     next      two\n *\n * Then. */\n";
        assert!(found(sound).is_empty());
        let wrapped =
            "/* Idea.\n *   malloc      claim an index, two\n * comparisons, then done\n */\n";
        assert!(found("//! ```text\n//!        x    y\n//! size  a    b\n//! ```\n").is_empty());
        assert_eq!(
            found(wrapped),
            vec!["a.c:3: the drawing is broken: its line goes on without indentation"]
        );
    }

    #[test]
    fn a_closing_mark_alone_is_found() {
        assert_eq!(closing_marks("a.h", "/* text\n * */\n").len(), 1);
        assert!(closing_marks("a.h", "/* text\n */\n").is_empty());
    }
}
