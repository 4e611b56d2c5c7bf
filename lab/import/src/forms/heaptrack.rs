//! heaptrack's files. The numbers in both kinds are hexadecimal.
//!
//! Raw, written by `heaptrack --raw`:
//!
//! ```text
//! v 10400 3           versions
//! + SIZE TRACE PTR    allocation
//! - PTR               free
//! c MS                time
//! ```
//!
//! Interpreted, the default of heaptrack: single blocks are not distinguished, only their kinds (a
//! size and a call site). The block of a kind that a free frees is unknown. The youngest is used,
//! which gives the correct sizes at every time.
//!
//! ```text
//! a SIZE TRACE        the next kind: 0, 1, 2 ...
//! + KIND              allocation
//! - KIND              free
//! ```
//!
//! The other lines describe call stacks: see `heaptrack_calls`.
//!
//! heaptrack writes a realloc as a free and an allocation, and calloc and aligned allocations as
//! plain allocations.

use super::heaptrack_calls::HeaptrackCalls;
use super::{Form, Guess, Line, Record, fields, is_hexadecimal};
use crate::error::Fault;
use crate::stacks::{StackNumber, StackTable};
use crate::text::Cursor;
use keel_journal::{Op, Origin};

const ADVICE: &str = "Lines have the forms `+ SIZE TRACE PTR` and `- PTR` in a raw file of \
    heaptrack, `a SIZE TRACE`, \
                      `+ KIND` and `- KIND` in an interpreted one; repair or remove this line";
const NS_IN_MS: u64 = 1_000_000;

#[derive(Default)]
pub(crate) struct Heaptrack {
    time: u64,
    /// The sizes of the kinds, and the keys of their live blocks; only in an interpreted file.
    kinds: Vec<Kind>,
    created: u64,
    raw: bool,
    calls: HeaptrackCalls,
    /// The stack of the last operation.
    stack: StackNumber,
}

struct Kind {
    size: u64,
    stack: StackNumber,
    live: Vec<u64>,
}

/// Only the first line of a file is recognised. A part of a file may begin with other lines, but
/// these are ambiguous.
pub(crate) fn recognises(line: &[u8]) -> Guess {
    let mut fields = fields(line);
    let version = fields.next() == Some(b"v") && fields.all(is_hexadecimal);
    if version && line.len() > 4 { Guess::Surely(Form::Heaptrack) } else { Guess::Unknown }
}

impl Heaptrack {
    /// Whether blocks are identified by kinds, not by addresses.
    pub const fn is_interpreted(&self) -> bool {
        !self.raw
    }

    pub fn parse(&mut self, line: &[u8]) -> Result<Line, Fault> {
        let mut cursor = Cursor::new(line, ADVICE);
        match cursor.letter() {
            Some(b'+') => self.allocation(cursor),
            Some(b'-') => self.free(cursor),
            Some(b'a') => {
                let size = cursor.hexadecimal_size("a size")?;
                let stack = self.calls.stack(cursor.hexadecimal("a trace")?);
                cursor.end()?;
                self.kinds.push(Kind { size, stack, live: Vec::new() });
                Ok(Line::Silent)
            }
            Some(b'c') => {
                let start = cursor.position();
                let time = cursor.hexadecimal("a time in ms")?.checked_mul(NS_IN_MS);
                self.time = time
                    .filter(|ns| ns >> 63 == 0)
                    .ok_or_else(|| cursor.fault_at(start, "a time in ms"))?;
                cursor.end()?;
                Ok(Line::Silent)
            }
            Some(letter @ (b'v' | b'x' | b'm' | b's' | b'i' | b't')) => {
                self.calls.parse(letter, cursor)?;
                Ok(Line::Silent)
            }
            // Command line, resident memory, page size, attached, suppressions.
            None | Some(b'X' | b'R' | b'I' | b'A' | b'S') => Ok(Line::Silent),
            Some(_) => Err(cursor.fault_at(0, "a line of heaptrack (+, -, a, c and others)")),
        }
    }

    /// The origin of the last operation.
    pub fn origin(&self) -> Origin {
        self.calls.table.origin(self.stack)
    }

    /// The call stacks of the file.
    pub fn into_stacks(self) -> StackTable {
        self.calls.table
    }

    fn allocation(&mut self, mut cursor: Cursor<'_>) -> Result<Line, Fault> {
        let start = cursor.position();
        let first = cursor.hexadecimal_size("a number")?;
        cursor.skip_blanks();
        if cursor.rest().is_empty() {
            let Some(kind) = self.kinds.get_mut(first as usize) else {
                return Err(
                    cursor.fault_at(start, "a kind of allocation from a line `a SIZE TRACE` above")
                );
            };
            self.created += 1;
            kind.live.push(self.created);
            let size = kind.size;
            self.stack = kind.stack;
            return Ok(self.operation(Record { size, new: self.created, ..Record::default() }));
        }
        self.raw = true;
        let trace = cursor.hexadecimal_here("a trace")?;
        self.stack = self.calls.stack(trace);
        let new = cursor.hexadecimal("a pointer")?;
        cursor.end()?;
        Ok(self.operation(Record { size: first, new, ..Record::default() }))
    }

    fn free(&mut self, mut cursor: Cursor<'_>) -> Result<Line, Fault> {
        let start = cursor.position();
        let number = cursor.hexadecimal("a number")?;
        cursor.end()?;
        let mut old = number;
        if !self.kinds.is_empty() {
            let Some(kind) = self.kinds.get_mut(number as usize) else {
                return Err(
                    cursor.fault_at(start, "a kind of allocation from a line `a SIZE TRACE` above")
                );
            };
            // No block has this key, so a lookup reports that it is not live.
            old = kind.live.pop().unwrap_or(u64::MAX);
        }
        self.stack = 0;
        Ok(self.operation(Record { op: Op::Free, old, ..Record::default() }))
    }

    fn operation(&self, record: Record) -> Line {
        Line::Operation(Record { begin: self.time, time: self.time, ..record })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;

    fn operations(text: &str) -> Vec<(Op, u64, u64, u64, u64)> {
        let mut parser = Heaptrack::default();
        let mut operation = |line: &str| match parser.parse(line.as_bytes()).unwrap() {
            Line::Operation(record) => {
                Some((record.op, record.size, record.old, record.new, record.time))
            }
            _ => None,
        };
        text.lines().filter_map(&mut operation).collect()
    }

    #[test]
    fn raw_files_have_addresses() {
        let text = "v 10400 3\nX ./s2\nt 7f597302fb9f 0\n+ 11c00 4 561a2cac4530\nc 1f\n- \
            561a2cac4530";
        let expected = [
            (Op::Malloc, 0x11c00, 0, 0x561a_2cac_4530, 0),
            (Op::Free, 0, 0x561a_2cac_4530, 0, 31_000_000),
        ];
        assert_eq!(operations(text), expected);
    }

    #[test]
    fn interpreted_files_have_kinds() {
        let text = "v 10400 3\na 10 1\n+ 0\na 20 1\n+ 1\n+ 0\n- 0\n- 0\n- 0";
        let expected = [
            (Op::Malloc, 16, 0, 1, 0),
            (Op::Malloc, 32, 0, 2, 0),
            (Op::Malloc, 16, 0, 3, 0),
            (Op::Free, 0, 3, 0, 0),
            (Op::Free, 0, 1, 0, 0),
            (Op::Free, 0, u64::MAX, 0, 0),
        ];
        assert_eq!(operations(text), expected);
        assert!(
            Heaptrack::default()
                .parse(b"+ 0")
                .unwrap_err()
                .expected
                .contains("a kind of allocation")
        );
    }
}
