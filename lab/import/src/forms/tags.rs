//! Plain lists of allocations and frees by tag, and by number.
//!
//! ```text
//! Allocate TAG SIZE    any word, or a number; also Alloc, Malloc, in any case
//! Free TAG             also Release, Dealloc, Deallocate
//!
//! Alloc(SIZE),         the traces of wee_alloc
//! Free(N),             of the N-th `Alloc`, from 0
//! ```

use super::{Form, Guess, Line, Record, fields, is_decimal};
use crate::error::Fault;
use crate::text::Cursor;
use keel_journal::Op;
use rustc_hash::FxHashMap;

const TAGGED: &str = "Lines have the forms `Allocate TAG SIZE` and `Free TAG`; repair or remove \
    this line";
const NUMBERED: &str = "Lines have the forms `Alloc(SIZE),` and `Free(N),`, where N is the number \
    of an `Alloc`, counted from 0; repair or remove this line";

pub(crate) struct Tags {
    form: Form,
    /// The keys of all tags so far.
    keys: FxHashMap<Box<[u8]>, u64>,
    allocated: u64,
}

pub(crate) fn recognises(line: &[u8]) -> Guess {
    let call = line.strip_suffix(b",").unwrap_or(line).strip_suffix(b")");
    let number = call.and_then(|call| call.strip_prefix(b"Alloc(").or(call.strip_prefix(b"Free(")));
    if number.is_some_and(is_decimal) {
        return Guess::Surely(Form::Numbered);
    }
    let mut fields = fields(line);
    let verb = verb(fields.next().unwrap_or_default());
    let tag = fields.next();
    match (verb, tag, fields.next(), fields.next()) {
        (Some(Op::Malloc), Some(_), Some(size), None) if is_decimal(size) => {
            Guess::Surely(Form::Tags)
        }
        (Some(Op::Free), Some(_), None, None) => Guess::Perhaps(Form::Tags),
        _ => Guess::Unknown,
    }
}

fn verb(word: &[u8]) -> Option<Op> {
    match word.to_ascii_lowercase().as_slice() {
        b"allocate" | b"alloc" | b"malloc" => Some(Op::Malloc),
        b"free" | b"release" | b"dealloc" | b"deallocate" => Some(Op::Free),
        _ => None,
    }
}

impl Tags {
    pub fn new(form: Form) -> Tags {
        Tags { form, keys: FxHashMap::default(), allocated: 0 }
    }

    pub fn parse(&mut self, line: &[u8]) -> Result<Line, Fault> {
        let advice = if self.form == Form::Numbered { NUMBERED } else { TAGGED };
        let mut cursor = Cursor::new(line, advice);
        cursor.skip_blanks();
        if matches!(cursor.peek(), None | Some(b'#')) {
            return Ok(Line::Silent);
        }
        let record =
            if self.form == Form::Numbered { self.numbered(cursor)? } else { self.tagged(cursor)? };
        Ok(Line::Operation(record))
    }

    fn numbered(&mut self, mut cursor: Cursor<'_>) -> Result<Record, Fault> {
        let allocates = match cursor.takes(b"Alloc(") {
            false if !cursor.takes(b"Free(") => {
                return Err(cursor.fault("an operation (Alloc or Free)"));
            }
            allocates => allocates,
        };
        let number =
            cursor.decimal_here(if allocates { "a size" } else { "the number of an Alloc" })?;
        cursor.expect(")")?;
        cursor.takes(b",");
        cursor.end()?;
        if !allocates {
            return Ok(Record { op: Op::Free, old: number + 1, ..Record::default() });
        }
        self.allocated += 1;
        Ok(Record { size: number, new: self.allocated, ..Record::default() })
    }

    fn tagged(&mut self, mut cursor: Cursor<'_>) -> Result<Record, Fault> {
        let start = cursor.position();
        let Some(op) = verb(cursor.token()) else {
            return Err(cursor.fault_at(start, "an operation (Allocate or Free)"));
        };
        let tag = cursor.token();
        if tag.is_empty() {
            return Err(cursor.fault("a tag"));
        }
        let next = self.keys.len() as u64 + 1;
        let key = match self.keys.get(tag) {
            Some(key) => *key,
            None => *self.keys.entry(tag.into()).or_insert(next),
        };
        let record = match op {
            Op::Free => Record { op, old: key, ..Record::default() },
            _ => Record { size: cursor.decimal("a size")?, new: key, ..Record::default() },
        };
        cursor.end()?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;

    fn operation(tags: &mut Tags, line: &str) -> (Op, u64, u64, u64) {
        match tags.parse(line.as_bytes()).unwrap() {
            Line::Operation(record) => (record.op, record.size, record.old, record.new),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tags_are_words() {
        let mut tags = Tags::new(Form::Tags);
        assert_eq!(operation(&mut tags, "Allocate A 100"), (Op::Malloc, 100, 0, 1));
        assert_eq!(operation(&mut tags, "alloc 17 8"), (Op::Malloc, 8, 0, 2));
        assert_eq!(operation(&mut tags, "FREE A"), (Op::Free, 0, 1, 0));
        assert_eq!(operation(&mut tags, "Allocate A 7\r"), (Op::Malloc, 7, 0, 1));
        assert_eq!(tags.parse(b"Free").unwrap_err().expected, "a tag");
        assert_eq!(tags.parse(b"Frobnicate 1").unwrap_err().column, Some(1));
    }

    #[test]
    fn numbers_count_the_allocations() {
        let mut tags = Tags::new(Form::Numbered);
        assert_eq!(operation(&mut tags, "Alloc(552),"), (Op::Malloc, 552, 0, 1));
        assert_eq!(operation(&mut tags, "Alloc(120)"), (Op::Malloc, 120, 0, 2));
        assert_eq!(operation(&mut tags, "Free(1),"), (Op::Free, 0, 2, 0));
        assert_eq!(tags.parse(b"Free(1").unwrap_err().expected, "`)`");
        assert_eq!(tags.parse(b"Alloc(1),2").unwrap_err().column, Some(10));
    }
}
