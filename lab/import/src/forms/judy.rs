//! Output of programs that are built with the Judy library and one of its tracing switches. Their
//! other lines become markers.
//!
//! ```text
//! a ADDR BYTES POPULATION                     TRACEMI2: all hexadecimal
//! f ADDR BYTES POPULATION
//! 0xADDR SEQ = j__udyAllocJBL(), Words = N    TRACEMI: N words of 8 bytes
//! 0xADDR SEQ =  j__udyFreeJBL(), Words = N
//! 0xADDR = JudyMalloc(N)                      TRACEJM: likewise
//! 0xADDR   JudyFree(N)
//! ```
//!
//! TRACEMI and TRACEJM report the same blocks on two levels. If both are enabled, only the level of
//! the first trace is read.

use super::{Form, Guess, Line, Record, fields, is_hexadecimal};
use crate::error::Fault;
use crate::text::{Cursor, without_byte_order_marks};
use keel_journal::Op;

const WORD_BYTES: u64 = 8;

#[derive(Default)]
pub(crate) struct Judy {
    level: Option<Level>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Letters,
    Internal,
    Malloc,
}

pub(crate) fn recognises(line: &[u8]) -> Guess {
    match parse_level(line) {
        Some((Level::Letters, record)) if record.op == Op::Free => Guess::Perhaps(Form::Judy),
        Some(_) => Guess::Surely(Form::Judy),
        None => Guess::Unknown,
    }
}

impl Judy {
    /// No line is a fault: a line that is not a trace is a marker, except blank lines.
    pub fn parse(&mut self, line: &[u8]) -> Line {
        let line = without_byte_order_marks(line);
        match parse_level(line) {
            None if line.trim_ascii().is_empty() => Line::Silent,
            None => Line::Mark,
            Some((level, record)) => {
                if *self.level.get_or_insert(level) == level {
                    Line::Operation(record)
                } else {
                    Line::Silent
                }
            }
        }
    }
}

fn parse_level(line: &[u8]) -> Option<(Level, Record)> {
    let line = line.trim_ascii();
    if line.starts_with(b"a ") || line.starts_with(b"f ") {
        return letters(line).ok().map(|record| (Level::Letters, record));
    }
    if !line.starts_with(b"0x") && !line.starts_with(b"(nil)") {
        return None;
    }
    let mut cursor = Cursor::new(line, "");
    let address = cursor.hexadecimal_here("an address").ok()?;
    if !cursor.at_field_end() {
        return None;
    }
    cursor.skip_blanks();
    if cursor.takes(b"= JudyMalloc(") {
        let size = words(&mut cursor).filter(|_| is_call_end(&cursor))?;
        return Some((Level::Malloc, Record { size, new: address, ..Record::default() }));
    }
    if cursor.takes(b"JudyFree(") {
        words(&mut cursor).filter(|_| is_call_end(&cursor))?;
        return Some((Level::Malloc, Record { op: Op::Free, old: address, ..Record::default() }));
    }
    internal(cursor, address).map(|record| (Level::Internal, record))
}

fn letters(line: &[u8]) -> Result<Record, Fault> {
    if fields(line).count() != 4 || !fields(&line[1..]).all(is_hexadecimal) {
        return Err(Cursor::new(line, "").fault("a trace"));
    }
    let mut cursor = Cursor::new(&line[1..], "");
    let address = cursor.hexadecimal("an address")?;
    let size = cursor.hexadecimal_size("a size")?;
    Ok(match line[0] {
        b'a' => Record { size, new: address, ..Record::default() },
        _ => Record { op: Op::Free, old: address, ..Record::default() },
    })
}

/// `SEQ = j__udyAllocJBL(), Words = N`, perhaps with more text after a comma.
fn internal(mut cursor: Cursor<'_>, address: u64) -> Option<Record> {
    cursor.decimal_here("a number").ok()?;
    cursor.skip_blanks();
    cursor.takes(b"=").then_some(())?;
    cursor.skip_blanks();
    cursor.takes(b"j__udy").then_some(())?;
    let frees = match cursor.word() {
        name if name.starts_with(b"Alloc") => false,
        name if name.starts_with(b"Free") => true,
        _ => return None,
    };
    cursor.takes(b"(), Words = ").then_some(())?;
    cursor.skip_blanks();
    let size = words(&mut cursor)?;
    (cursor.at_field_end() || cursor.peek() == Some(b',')).then_some(())?;
    Some(match frees {
        true => Record { op: Op::Free, old: address, ..Record::default() },
        false => Record { size, new: address, ..Record::default() },
    })
}

fn words(cursor: &mut Cursor<'_>) -> Option<u64> {
    let words = cursor.decimal_here("a number of words").ok()?;
    words.checked_mul(WORD_BYTES).filter(|bytes| bytes >> 63 == 0)
}

fn is_call_end(cursor: &Cursor<'_>) -> bool {
    cursor.rest().trim_ascii() == b")"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(line: &str) -> Option<(Op, u64, u64)> {
        match Judy::default().parse(line.as_bytes()) {
            Line::Operation(record) => Some((record.op, record.old | record.new, record.size)),
            _ => None,
        }
    }

    #[test]
    fn all_three_levels_are_read() {
        assert_eq!(operation("a 55d0c0 20 1f"), Some((Op::Malloc, 0x55_d0c0, 32)));
        assert_eq!(operation("f 55d0c0 20 1e"), Some((Op::Free, 0x55_d0c0, 0)));
        assert_eq!(
            operation("0x55d0c0       12 = j__udyAllocJBL(), Words = 3"),
            Some((Op::Malloc, 0x55_d0c0, 24))
        );
        assert_eq!(
            operation("0x55d0c0 12 =  j__udyFreeJBL(), Words = 3, TotPop1 = 7"),
            Some((Op::Free, 0x55_d0c0, 0))
        );
        assert_eq!(operation("0x55d0c0 = JudyMalloc(4)"), Some((Op::Malloc, 0x55_d0c0, 32)));
        assert_eq!(operation("0x55d0c0   JudyFree(4)\r"), Some((Op::Free, 0x55_d0c0, 0)));
    }

    #[test]
    fn everything_else_is_a_marker() {
        for line in [
            "inserted 1000 keys",
            "a 1 2",
            "a 1 2 zz",
            "a 1 2 3 4",
            "0x12 = JudyMalloc(x)",
            "0x12 hello",
        ] {
            assert_eq!(Judy::default().parse(line.as_bytes()), Line::Mark, "{line}");
        }
        assert_eq!(Judy::default().parse(b"  \r"), Line::Silent);
    }

    #[test]
    fn only_the_first_of_two_levels_is_read() {
        let mut judy = Judy::default();
        assert!(matches!(judy.parse(b"0x10 = JudyMalloc(4)"), Line::Operation(_)));
        assert_eq!(judy.parse(b"0x10 1 = j__udyAllocJLB1(), Words = 4"), Line::Silent);
        assert!(matches!(judy.parse(b"0x10   JudyFree(4)"), Line::Operation(_)));
    }
}
