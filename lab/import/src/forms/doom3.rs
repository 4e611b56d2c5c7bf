//! The text journal of the blog "Benchmarking Malloc with Doom 3", and its extension.
//!
//! One operation a line; sizes, thread ids and times (ns) are decimal, pointers hexadecimal with or
//! without `0x` and leading zeros, in either case. Fields are separated by blanks; lines may end in
//! CR LF; blank lines and lines that begin with `#` are skipped.
//!
//! ```text
//! a SIZE PTR THREAD NS              malloc
//! f PTR THREAD NS                   free
//! c TOTAL PTR THREAD NS             calloc
//! r SIZE OLDPTR NEWPTR THREAD NS    realloc, OLDPTR 0 for NULL
//! m ALIGN SIZE PTR THREAD NS        aligned
//! s SIZE PTR THREAD NS              free with the size
//! l ALIGN PTR THREAD NS             free with the alignment
//! d ALIGN SIZE PTR THREAD NS        free with both
//! F NS                              a frame, in the frames file
//! ```

use super::{Form, Guess, Record, fields, is_hexadecimal};
use crate::error::Fault;
use crate::plain::Plain;
use crate::text::Cursor;
use keel_journal::{FreeHint, Op};

const FORMS: &str = "Lines have the forms `a SIZE PTR THREAD NS`, `f PTR THREAD NS`, `c TOTAL PTR \
    THREAD NS`, `r SIZE OLDPTR NEWPTR THREAD NS`, `m ALIGN SIZE PTR THREAD NS`, and for \
                     frees with hints \
                     `s SIZE PTR THREAD NS`, `l ALIGN PTR THREAD NS` and `d ALIGN SIZE PTR THREAD \
                     NS`; repair or remove this line";
const FRAME_FORM: &str = "A frames file has lines of the form `F NS`; repair or remove this line";

/// Judy's `f` lines have as many fields as those of this form, its `a` lines one less.
pub(crate) fn recognises(line: &[u8]) -> Guess {
    let mut fields = fields(line);
    let letter = fields.next().unwrap_or_default();
    let (count, numbers) = fields
        .fold((0, true), |(count, numbers), field| (count + 1, numbers && is_hexadecimal(field)));
    match (letter, count) {
        (b"a" | b"c" | b"s" | b"l", 4) | (b"r" | b"m" | b"d", 5) if numbers => {
            Guess::Surely(Form::Doom3)
        }
        (b"f", 3) if numbers => Guess::Perhaps(Form::Doom3),
        // Truncated or damaged; no other form begins in this way.
        (b"a" | b"c" | b"m" | b"r", 3..) => Guess::Perhaps(Form::Doom3),
        _ => Guess::Unknown,
    }
}

/// Reads one line without its line break; `None` for a blank line or a comment.
#[inline]
pub(crate) fn parse_line(line: &[u8]) -> Result<Option<Record>, Fault> {
    let mut cursor = Cursor::new(line, FORMS);
    let Some(letter) = cursor.letter() else { return Ok(None) };
    let mut record = Record::default();
    match letter {
        b'a' | b'c' => {
            record.op = if letter == b'a' { Op::Malloc } else { Op::Calloc };
            record.size = cursor.decimal("a size")?;
            record.new = cursor.hexadecimal("a pointer")?;
        }
        b'f' => {
            record.op = Op::Free;
            record.old = cursor.hexadecimal("a pointer")?;
        }
        b'r' => {
            record.op = Op::Realloc;
            record.size = cursor.decimal("a size")?;
            record.old = cursor.hexadecimal("the old pointer")?;
            record.new = cursor.hexadecimal("the new pointer")?;
        }
        b'm' => {
            record.op = Op::Aligned;
            record.align = cursor.decimal("an alignment")?;
            record.size = cursor.decimal("a size")?;
            record.new = cursor.hexadecimal("a pointer")?;
        }
        b's' | b'l' | b'd' => {
            record.op = Op::Free;
            record.free_hint = match letter {
                b's' => FreeHint::SIZE,
                b'l' => FreeHint::ALIGN,
                _ => FreeHint::BOTH,
            };
            if letter != b's' {
                record.align = cursor.decimal("an alignment")?;
            }
            if letter != b'l' {
                record.size = cursor.decimal("a size")?;
            }
            record.old = cursor.hexadecimal("a pointer")?;
        }
        _ => return Err(cursor.fault_at(0, "an operation (a, f, c, r, m, s, l or d)")),
    }
    record.thread = cursor.decimal("a thread id")?;
    record.time = cursor.decimal("a time in ns")?;
    record.begin = record.time;
    cursor.end()?;
    Ok(Some(record))
}

/// Reads a line with its line break in the usual form; returns its length. Any other line, valid or
/// not, is left to [`parse_line`]. The record is constructed in place, because copying a new one is
/// slow.
#[inline]
pub(crate) fn parse_plain(bytes: &[u8], record: &mut Record) -> Option<usize> {
    let (letter, mut line) = Plain::after_letter(bytes)?;
    *record = Record::default();
    match letter {
        b'f' => {
            record.op = Op::Free;
            record.old = line.hexadecimal();
        }
        b'a' | b'c' => {
            record.op = if letter == b'a' { Op::Malloc } else { Op::Calloc };
            record.size = line.decimal();
            record.new = line.hexadecimal();
        }
        b'r' => {
            record.op = Op::Realloc;
            record.size = line.decimal();
            record.old = line.hexadecimal();
            record.new = line.hexadecimal();
        }
        b'm' => {
            record.op = Op::Aligned;
            record.align = line.decimal();
            record.size = line.decimal();
            record.new = line.hexadecimal();
        }
        _ => return None,
    }
    record.thread = line.decimal();
    let (time, length) = line.last_decimal()?;
    (record.begin, record.time) = (time, time);
    Some(length)
}

/// Reads one line of a frames file.
pub(crate) fn parse_frame(line: &[u8]) -> Result<Option<u64>, Fault> {
    let mut cursor = Cursor::new(line, FRAME_FORM);
    match cursor.letter() {
        None => Ok(None),
        Some(b'F') => {
            let time = cursor.decimal("a time in ns")?;
            cursor.end()?;
            Ok(Some(time))
        }
        Some(_) => Err(cursor.fault_at(0, "a frame (F)")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;
    use proptest::prelude::*;

    fn record(line: &str) -> Record {
        parse_line(line.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn lines_of_the_blog_are_read() {
        let malloc = record("a 2048 0000023101F264A0 15888 542200");
        assert_eq!((malloc.op, malloc.size, malloc.new), (Op::Malloc, 2048, 0x231_01f2_64a0));
        assert_eq!((malloc.thread, malloc.time, malloc.old), (15888, 542_200, 0));
        let free = record("f 0000023101F28020 15888 1142000\r");
        assert_eq!(
            (free.op, free.old, free.new, free.time),
            (Op::Free, 0x231_01f2_8020, 0, 1_142_000)
        );
    }

    #[test]
    fn the_extension_is_read() {
        let calloc = record("c 1984 56470b2f22a0 0 2794");
        assert_eq!((calloc.op, calloc.size), (Op::Calloc, 1984));
        let realloc = record("r 900 0 0x10 3 7");
        assert_eq!((realloc.op, realloc.size, realloc.old, realloc.new), (Op::Realloc, 900, 0, 16));
        let free = record("d 64 100 0x10 2 8");
        assert_eq!(
            (free.free_hint, free.align, free.size, free.old),
            (FreeHint::BOTH, 64, 100, 16)
        );
        let free = record("s 100 0x10 2 8");
        assert_eq!(
            (free.op, free.free_hint, free.size, free.old),
            (Op::Free, FreeHint::SIZE, 100, 16)
        );
        let free = record("l 64 0x10 2 8");
        assert_eq!(
            (free.op, free.free_hint, free.align, free.old),
            (Op::Free, FreeHint::ALIGN, 64, 16)
        );
        let aligned = record("\tm  64 100\t0XfF 2 8 ");
        assert_eq!(
            (aligned.op, aligned.align, aligned.size, aligned.new),
            (Op::Aligned, 64, 100, 255)
        );
    }

    #[test]
    fn blank_lines_and_comments_are_skipped() {
        for line in ["", "  ", "\r", "# a 1 2 3 4", "  # comment"] {
            assert_eq!(parse_line(line.as_bytes()), Ok(None), "{line}");
        }
        assert_eq!(parse_frame(b"F 17\r"), Ok(Some(17)));
        assert!(
            parse_frame(b"a 17").is_err()
                && parse_frame(b"F").is_err()
                && parse_frame(b"F 1 2").is_err()
        );
    }

    #[test]
    fn fast_path_reads_plain_lines() {
        let lines = [
            "a 2048 0000023101F264A0 15888 542200\r\n",
            "f ff 0 0\n",
            "c 1984 56470b2f22a0 0 1234567890123456\n",
            "r 900 0 10 3 12345678\n",
            "m 64 100 fedcba9876543210 2 123456789\n",
            "r 12345678 fedcba987654 fedcba9876543210 1234567 123456789012\n",
        ];
        for line in lines {
            let padded = format!("{line}{}", "f 10 0 123456789012345\n".repeat(4));
            let whole = parse_line(line.trim_end().as_bytes()).unwrap().unwrap();
            let mut record = Record::default();
            assert_eq!(parse_plain(padded.as_bytes(), &mut record), Some(line.len()), "{line}");
            assert_eq!(record, whole, "{line}");
        }
    }

    proptest! {
        /// If the fast path reads a line, the general one gives the same result.
        #[test]
        fn both_ways_agree(
            line in concat!(
                r"[acfmrx](( |  |\t|\r|-|\+|\x00|\x80|@|`|g|:|/|0x)?",
                r"[0-9a-fA-FgG]{0,18}){0,5}\r?\n",
            ),
            valid in concat!(
                r"[acfmr]( [0-9]{1,17})?( [0-9]{1,17})?( [0-9a-fA-F]{1,17}){1,2} ",
                r"[0-9]{1,17} [0-9]{1,17}\r?\n",
            ),
        ) {
            for line in [line, valid] {
                let padded = format!("{line}{}", "f 10 0 123456789012345\n".repeat(4));
                let mut record = Record { align: 8, old: 9, ..Record::default() };
                if let Some(length) = parse_plain(padded.as_bytes(), &mut record) {
                    prop_assert_eq!(length, line.len());
                    prop_assert_eq!(parse_line(&line.as_bytes()[..length - 1]), Ok(Some(record)));
                }
            }
        }
    }

    #[test]
    fn faults_have_expected_and_found_text() {
        let cases = [
            ("x 1 2 3 4", "an operation (a, f, c, r, m, s, l or d)", "`x 1 2 3 4`"),
            ("a", "a size", "the end of the line"),
            ("a12 ff 1 2", "a size", "`12 ff 1 2`"),
            ("a -1 ff 1 2", "a size", "`-1 ff 1 2`"),
            ("a 12q ff 1 2", "a size", "`12q ff 1 2`"),
            ("a 12 fg 1 2", "a pointer", "`fg 1 2`"),
            ("a 12 0x 1 2", "a pointer", "`0x 1 2`"),
            ("f 11112222333344445 1 2", "a pointer", "`11112222333344445 1 2`"),
            ("r 12 0", "the new pointer", "the end of the line"),
            ("f ff 1", "a time in ns", "the end of the line"),
            ("f ff 1 2 3", "the end of the line", "`3`"),
            ("a 9223372036854775808 ff 1 2", "a size", "`9223372036854775808 ff 1 2`"),
            ("f ff \u{1} 2", "a thread id", "`\\x01 2`"),
        ];
        for (line, expected, found) in cases {
            let fault = parse_line(line.as_bytes()).unwrap_err();
            assert_eq!(
                (fault.expected.as_str(), fault.found.as_str()),
                (expected, found),
                "{line}"
            );
        }
        assert_eq!(record("a 9223372036854775807 0000000000000000ff 1 2").size, i64::MAX as u64);
    }
}
