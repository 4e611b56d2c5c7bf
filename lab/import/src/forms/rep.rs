//! The `.rep` files of the malloc lab.
//!
//! ```text
//! 20000        suggested size of the heap, not used
//! 3            number of ids
//! 5            number of operations
//! 1            weight
//! a ID SIZE    malloc
//! r ID SIZE    realloc; of an id without a block, realloc(NULL, SIZE)
//! f ID         free; of the id -1, free(NULL)
//! ```

use super::{Form, Guess, Line, Record, fields, is_decimal};
use crate::error::Fault;
use crate::text::Cursor;
use keel_journal::Op;
use rustc_hash::FxHashSet;

const ADVICE: &str = "After four numbers, lines have the forms `a ID SIZE`, `r ID SIZE` and `f \
    ID`; repair or remove this line";
const HEADER_LINES: usize = 4;

#[derive(Default)]
pub(crate) struct Rep {
    header: Vec<u64>,
    operations: u64,
    /// The ids that had a block.
    known: FxHashSet<u64>,
}

pub(crate) fn recognises(line: &[u8]) -> Guess {
    let mut fields = fields(line);
    let letter = fields.next().unwrap_or_default();
    let (count, numbers) = fields.fold((0, true), |(count, numbers), field| {
        (count + 1, numbers && (is_decimal(field) || letter == b"f" && field == b"-1"))
    });
    match (letter, count) {
        (b"a" | b"r", 2) | (b"f", 1) if numbers => Guess::Surely(Form::Rep),
        _ => Guess::Unknown,
    }
}

impl Rep {
    pub fn parse(&mut self, line: &[u8]) -> Result<Line, Fault> {
        let mut cursor = Cursor::new(line, ADVICE);
        let mut record = Record::default();
        match cursor.letter() {
            None => return Ok(Line::Silent),
            Some(b'a') => {
                record.new = key(&mut cursor)?;
                self.known.insert(record.new);
                record.size = cursor.decimal("a size")?;
            }
            Some(b'r') => {
                record.op = Op::Realloc;
                record.new = key(&mut cursor)?;
                record.old = if self.known.insert(record.new) { 0 } else { record.new };
                record.size = cursor.decimal("a size")?;
            }
            Some(b'f') => {
                record.op = Op::Free;
                let mut ahead = cursor;
                match ahead.token() {
                    b"-1" => cursor = ahead,
                    _ => record.old = key(&mut cursor)?,
                }
            }
            Some(digit)
                if digit.is_ascii_digit()
                    && self.operations == 0
                    && self.header.len() < HEADER_LINES =>
            {
                let mut cursor = Cursor::new(line, ADVICE);
                cursor.skip_blanks();
                self.header.push(cursor.decimal_here("a number")?);
                cursor.end()?;
                return Ok(Line::Silent);
            }
            Some(_) => return Err(cursor.fault_at(0, "an operation (a, r or f)")),
        }
        cursor.end()?;
        self.operations += 1;
        Ok(Line::Operation(record))
    }

    /// The header states the number of operations. If there are fewer, the file was truncated.
    pub fn finish(&self) -> Result<(), Fault> {
        match self.header.get(2) {
            Some(promised) if self.header.len() == HEADER_LINES && *promised > self.operations => {
                Err(Fault {
                    expected: format!("{promised} operations, as its third line states"),
                    found: self.operations.to_string(),
                    advice: "The file was truncated: get all of it, or correct the third line",
                    column: None,
                })
            }
            _ => Ok(()),
        }
    }
}

fn key(cursor: &mut Cursor<'_>) -> Result<u64, Fault> {
    cursor.decimal("an id").map(|id| id + 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;

    #[test]
    fn header_and_operations_are_read() {
        let mut rep = Rep::default();
        for line in ["20000", "1", "4", "1"] {
            assert_eq!(rep.parse(line.as_bytes()), Ok(Line::Silent));
        }
        let mut operation = |line: &str| match rep.parse(line.as_bytes()).unwrap() {
            Line::Operation(record) => (record.op, record.size, record.old, record.new),
            other => panic!("{other:?}"),
        };
        assert_eq!(operation("a 0 512"), (Op::Malloc, 512, 0, 1));
        assert_eq!(operation("r 0 640"), (Op::Realloc, 640, 1, 1));
        assert_eq!(operation("f 0"), (Op::Free, 0, 1, 0));
        assert_eq!(rep.finish().unwrap_err().found, "3");
        assert_eq!(rep.parse(b"20").unwrap_err().expected, "an operation (a, r or f)");
        let mut operation = |line: &str| match rep.parse(line.as_bytes()).unwrap() {
            Line::Operation(record) => (record.op, record.size, record.old, record.new),
            other => panic!("{other:?}"),
        };
        assert_eq!(operation("r 7 16"), (Op::Realloc, 16, 0, 8), "realloc(NULL, 16)");
        assert_eq!(operation("r 7 32"), (Op::Realloc, 32, 8, 8));
        assert_eq!(operation("f -1"), (Op::Free, 0, 0, 0), "free(NULL)");
    }
}
