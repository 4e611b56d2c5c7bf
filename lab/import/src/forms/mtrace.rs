//! glibc's mtrace.
//!
//! ```text
//! = Start
//! @ ./program:(main+0x1f)[0x11e0] + 0x5564ab6cc4a0 0x64     malloc, calloc, memalign
//! @ ./program:[0x1208] < 0x5564ab6cc4a0                     realloc: the old block,
//! @ ./program:[0x1208] > 0x5564ab6cc5b0 0x1388              and the new one
//! @ ./program:[0x1208] ! 0x5564ab6cc4a0 0x1388              realloc that failed
//! @ ./program:[0x127c] - 0x5564ab6cd940                     free
//! = End
//! ```
//!
//! WHERE is the call: the module, the function with the offset in it if it is known, and the
//! address.

use super::{Form, Guess, Line, Record};
use crate::error::Fault;
use crate::stacks::{StackNumber, StackTable};
use crate::text::Cursor;
use keel_journal::{NamedCall, Op, Origin};
use rustc_hash::FxHashMap;

const ADVICE: &str = "Lines have the form `@ WHERE + PTR SIZE`, with `-`, `<`, `>` or `!` for \
    `+`; repair or remove this line";

#[derive(Default)]
pub(crate) struct Mtrace {
    /// The old block of a realloc whose line with the new block comes next.
    moving: Option<u64>,
    table: StackTable,
    /// The stacks of the calls, by their text.
    known: FxHashMap<Vec<u8>, StackNumber>,
    /// The stack of the last operation.
    stack: StackNumber,
}

pub(crate) fn recognises(line: &[u8]) -> Guess {
    let surely = line == b"= Start" || line.starts_with(b"@ ") && sign_of(line).is_some();
    if surely { Guess::Surely(Form::Mtrace) } else { Guess::Unknown }
}

/// The position of the last separate sign; the caller field may contain blanks.
fn sign_of(line: &[u8]) -> Option<usize> {
    let is_sign =
        |three: &[u8]| three[0] == b' ' && b"+-<>!".contains(&three[1]) && three[2] == b' ';
    line.windows(3).rposition(is_sign).map(|at| at + 1)
}

impl Mtrace {
    pub fn parse(&mut self, line: &[u8]) -> Result<Line, Fault> {
        let mut cursor = Cursor::new(line, ADVICE);
        cursor.skip_blanks();
        if matches!(cursor.peek(), None | Some(b'=' | b'#')) {
            return Ok(Line::Silent);
        }
        let sign = match sign_of(line) {
            Some(at) => at,
            None if b"+-<>!".contains(&line[cursor.position()]) => cursor.position(),
            None => return Err(cursor.fault("`@ WHERE` and an operation (+, -, <, > or !)")),
        };
        let mut cursor = Cursor::new(line, ADVICE);
        while cursor.position() < sign {
            cursor.skip_blanks();
            if cursor.position() < sign {
                cursor.token();
            }
        }
        let place = line[..cursor.position()].trim_ascii();
        let sign = cursor.token();
        let after_old = self.moving.take();
        if (sign == b">") != after_old.is_some() {
            let expected =
                if sign == b">" { "the old block of a realloc (<)" } else { "its new block (>)" };
            return Err(Cursor::new(line, ADVICE).fault(expected));
        }
        cursor.skip_blanks();
        let pointer = cursor.hexadecimal_here("a pointer")?;
        let mut record = Record::default();
        match sign {
            b"-" => (record.op, record.old) = (Op::Free, pointer),
            b"<" => {
                self.moving = Some(pointer);
                cursor.end()?;
                return Ok(Line::Silent);
            }
            _ => {
                record.new = pointer;
                record.size = cursor.hexadecimal_size("a size")?;
                // glibc writes a realloc of NULL as a plain allocation.
                if let Some(old) = after_old.filter(|old| *old != 0) {
                    (record.op, record.old) = (Op::Realloc, old);
                }
            }
        }
        cursor.end()?;
        self.stack = place.strip_prefix(b"@ ").map_or(0, |place| self.stack_at(place));
        Ok(if sign == b"!" { Line::Silent } else { Line::Operation(record) })
    }

    /// The stack of a call: `MODULE:(FUNCTION+OFFSET)[ADDRESS]`.
    fn stack_at(&mut self, place: &[u8]) -> StackNumber {
        if let Some(stack) = self.known.get(place) {
            return *stack;
        }
        let text = String::from_utf8_lossy(place);
        let (rest, address) = text.rsplit_once('[').unwrap_or((&text, ""));
        let address = address.trim_end_matches(']').trim_start_matches("0x");
        let address = u64::from_str_radix(address, 16).unwrap_or(0);
        let (module, function) = rest.split_once(":(").unwrap_or((rest, ""));
        let function = function.trim_end_matches(')');
        let (name, offset) = function.rsplit_once('+').unwrap_or((function, ""));
        let module = module.trim_end_matches(':');
        let file = module.rsplit('/').next().unwrap_or(module);
        let function = match (name, offset) {
            ("", "") => format!("{file}+{address:#x}"),
            ("", offset) => format!("{file}+{offset}"),
            (name, _) => name.to_owned(),
        };
        let module = Some(module).filter(|path| !path.is_empty());
        let module = module.map(|path| self.table.module(path));
        let call = NamedCall { function, module, ..NamedCall::default() };
        let site = self.table.named_site(address, std::iter::once(call));
        let stack = self.table.stack(0, site);
        self.known.insert(place.to_vec(), stack);
        stack
    }

    /// The origin of the last operation.
    pub fn origin(&self) -> Origin {
        self.table.origin(self.stack)
    }

    /// The calls as stacks of one call each.
    pub fn into_stacks(self) -> StackTable {
        self.table
    }

    pub fn finish(&self) -> Result<(), Fault> {
        match self.moving {
            None => Ok(()),
            Some(_) => Err(Cursor::new(b"", ADVICE).fault("the new block of a realloc (>)")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;

    #[test]
    fn every_sign_is_read() {
        let mut mtrace = Mtrace::default();
        let mut operation = |line: &str| match mtrace.parse(line.as_bytes()).unwrap() {
            Line::Operation(record) => Some((record.op, record.size, record.old, record.new)),
            _ => None,
        };
        assert_eq!(operation("= Start"), None);
        assert_eq!(operation("@ ./a b:(f+0x1)[0x2] + 0x10 0x64"), Some((Op::Malloc, 100, 0, 16)));
        assert_eq!(operation("@ ./s:[0x1208] < 0x10"), None);
        assert_eq!(operation("@ ./s:[0x1208] > 0x20 0x1388"), Some((Op::Realloc, 5000, 16, 32)));
        assert_eq!(operation("@ ./s:[0x1208] ! 0x20 0x1388"), None);
        assert_eq!(operation("@ ./s:[0x127c] - 0x20\r"), Some((Op::Free, 0, 32, 0)));
        assert_eq!(operation("+ (nil) 0x1000000000000000"), Some((Op::Malloc, 1 << 60, 0, 0)));
        assert_eq!(operation("= End"), None);
    }

    #[test]
    fn a_realloc_has_two_lines() {
        let mut mtrace = Mtrace::default();
        assert!(mtrace.parse(b"@ x > 0x20 0x1").unwrap_err().expected.contains("(<)"));
        mtrace.parse(b"@ x < 0x20").unwrap();
        assert!(mtrace.finish().is_err());
        assert!(mtrace.parse(b"@ x + 0x20 0x1").unwrap_err().expected.contains("(>)"));
        assert!(mtrace.finish().is_ok());
    }
}
