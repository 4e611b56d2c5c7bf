//! Android's allocation traces: `record_allocs` of malloc_debug, and the dumps of memory_replay.
//!
//! ```text
//! TID: malloc PTR SIZE              [START_NS END_NS]
//! TID: calloc PTR COUNT SIZE        [START_NS END_NS]
//! TID: realloc NEW OLD SIZE         [START_NS END_NS]
//! TID: memalign PTR ALIGN SIZE      [START_NS END_NS]
//! TID: free PTR                     [START_NS END_NS [BYTES_PRESENT]]
//! TID: thread_done 0x0              [END_NS]
//! ```
//!
//! The clock of the times began earlier; the first operation's time becomes 0 in the journal.

use super::{Form, Guess, Line, Record};
use crate::error::Fault;
use crate::text::Cursor;
use keel_journal::Op;

const ADVICE: &str = "Lines have the forms `TID: malloc PTR SIZE`, `TID: calloc PTR COUNT SIZE`, \
    `TID: realloc NEW OLD SIZE`, `TID: memalign PTR ALIGN SIZE`, `TID: free PTR` and \
    `TID: thread_done 0x0`, each optionally followed by START_NS END_NS; repair or remove this \
    line";

#[derive(Default)]
pub(crate) struct Android {
    /// Whether lines have times; the first line decides.
    timed: Option<bool>,
}

pub(crate) fn recognises(line: &[u8]) -> Guess {
    let mut cursor = Cursor::new(line, "");
    let known = cursor.decimal_here("").is_ok() && cursor.takes(b": ") && is_action(cursor.token());
    if known { Guess::Surely(Form::Android) } else { Guess::Unknown }
}

fn is_action(name: &[u8]) -> bool {
    matches!(name, b"malloc" | b"calloc" | b"realloc" | b"memalign" | b"free" | b"thread_done")
}

impl Android {
    pub const fn has_times(&self) -> bool {
        matches!(self.timed, Some(true))
    }

    pub fn parse(&mut self, line: &[u8]) -> Result<Line, Fault> {
        let mut cursor = Cursor::new(line, ADVICE);
        if cursor.letter().is_none() {
            return Ok(Line::Silent);
        }
        let mut cursor = Cursor::new(line, ADVICE);
        cursor.skip_blanks();
        let thread = cursor.decimal_here("a thread id")?;
        cursor.expect(":")?;
        cursor.skip_blanks();
        let start = cursor.position();
        let mut record = Record { thread, ..Record::default() };
        match cursor.token() {
            b"malloc" => {
                record.new = cursor.hexadecimal("a pointer")?;
                record.size = cursor.decimal("a size")?;
            }
            b"calloc" => {
                record.op = Op::Calloc;
                record.new = cursor.hexadecimal("a pointer")?;
                record.size = product(&mut cursor)?;
            }
            b"realloc" => {
                record.op = Op::Realloc;
                record.new = cursor.hexadecimal("the new pointer")?;
                record.old = cursor.hexadecimal("the old pointer")?;
                record.size = cursor.decimal("a size")?;
            }
            b"memalign" => {
                record.op = Op::Aligned;
                record.new = cursor.hexadecimal("a pointer")?;
                record.align = cursor.decimal("an alignment")?;
                record.size = cursor.decimal("a size")?;
            }
            b"free" => {
                record.op = Op::Free;
                record.old = cursor.hexadecimal("a pointer")?;
            }
            b"thread_done" => {
                cursor.hexadecimal("0x0")?;
                cursor.skip_blanks();
                if !cursor.rest().is_empty() {
                    cursor.decimal_here("a time in ns")?;
                }
                cursor.end()?;
                return Ok(Line::ThreadEnds(thread));
            }
            _ => {
                return Err(cursor.fault_at(
                    start,
                    "an action (malloc, calloc, realloc, memalign, free or thread_done)",
                ));
            }
        }
        self.times(&mut cursor, &mut record)?;
        cursor.end()?;
        Ok(Line::Operation(record))
    }

    fn times(&mut self, cursor: &mut Cursor<'_>, record: &mut Record) -> Result<(), Fault> {
        let timed = *self.timed.get_or_insert_with(|| {
            let mut ahead = *cursor;
            ahead.skip_blanks();
            !ahead.rest().is_empty()
        });
        if !timed {
            return Ok(());
        }
        let begin = cursor.decimal("a start time in ns")?;
        let end = cursor.decimal("an end time in ns")?.max(begin);
        let mut ahead = *cursor;
        if record.op == Op::Free && ahead.decimal("bytes").is_ok() {
            *cursor = ahead;
        }
        record.time = if record.op == Op::Free { begin } else { end };
        record.begin = if record.op == Op::Realloc { begin } else { record.time };
        Ok(())
    }
}

/// COUNT times SIZE.
pub(crate) fn product(cursor: &mut Cursor<'_>) -> Result<u64, Fault> {
    let mut before = *cursor;
    let count = cursor.decimal("a count")?;
    let size = cursor.decimal("a size")?;
    before.skip_blanks();
    count
        .checked_mul(size)
        .filter(|bytes| bytes >> 63 == 0)
        .ok_or_else(|| before.fault("a count and a size whose product is below 2^63"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;

    fn record(parser: &mut Android, line: &str) -> Record {
        match parser.parse(line.as_bytes()).unwrap() {
            Line::Operation(record) => record,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn blocks_are_created_at_the_end_and_released_at_the_start() {
        let mut parser = Android::default();
        let malloc = record(&mut parser, "7: malloc 0x10 8 1000 1010");
        assert_eq!((malloc.begin, malloc.time, parser.has_times()), (1010, 1010, true));
        let realloc = record(&mut parser, "7: realloc 0x20 0x10 9 1020 1035");
        assert_eq!((realloc.begin, realloc.time), (1020, 1035));
        let free = record(&mut parser, "7: free 0x20 1050 1060 512");
        assert_eq!((free.begin, free.time), (1050, 1050));
        assert!(parser.parse(b"7: free 0x20").is_err());
        assert_eq!(parser.parse(b"7: thread_done 0x0 1070"), Ok(Line::ThreadEnds(7)));
    }

    #[test]
    fn times_are_on_all_lines_or_on_none() {
        let mut parser = Android::default();
        assert_eq!(record(&mut parser, "7: calloc 0x10 3 8").size, 24);
        assert!(!parser.has_times());
        assert!(parser.parse(b"7: free 0x10 1 2").is_err());
        let fault = parser.parse(b"7: calloc 0x10 9223372036854775807 2").unwrap_err();
        assert_eq!((fault.column, fault.found.as_str()), (Some(16), "`9223372036854775807 2`"));
    }
}
