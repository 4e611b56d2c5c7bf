//! The line tables of Python's functions, as CPython documents them (`Objects/locations.md`,
//! `Objects/lnotab_notes.txt`).

/// A function of the program.
pub(crate) struct Code {
    pub function: String,
    pub file: String,
    pub first_line: i64,
    /// In the form of the Python version.
    pub table: Vec<u8>,
}

/// The first versions with other tables, as Python's `sys.hexversion`.
const PYTHON_3_10: u32 = 0x030a_0000;
const PYTHON_3_11: u32 = 0x030b_0000;

impl Code {
    /// The line of the instruction at this offset; 0 if unknown.
    pub fn line(&self, python: u32, offset: i64) -> u32 {
        let Ok(offset) = u64::try_from(offset) else { return 0 };
        let line = match python {
            _ if self.table.is_empty() => Some(self.first_line),
            PYTHON_3_11.. => self.line_of_locations(offset),
            PYTHON_3_10.. => Some(self.line_of_pairs(offset.saturating_mul(2), Some(-128))),
            _ => Some(self.line_of_pairs(offset, None)),
        };
        line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
    }

    /// From Python 3.11 on: one entry for a few instructions of two bytes.
    fn line_of_locations(&self, offset: u64) -> Option<i64> {
        let (mut line, mut end, mut at) = (self.first_line, 0, 0);
        let number = |at: &mut usize| {
            let (mut value, mut shift) = (0_i64, 0_u32);
            loop {
                let byte = *self.table.get(*at)?;
                *at += 1;
                value |= i64::from(byte & 63).checked_shl(shift)?;
                shift += 6;
                if byte & 64 == 0 {
                    return Some(value);
                }
            }
        };
        while let Some(first) = self.table.get(at) {
            at += 1;
            end += u64::from(first & 7) + 1;
            match first >> 3 & 15 {
                // No line.
                15 => {}
                kind @ 13..=14 => {
                    let value = number(&mut at)?;
                    let change = if value & 1 == 0 { value >> 1 } else { -(value >> 1) };
                    line = line.wrapping_add(change);
                    // The long form also has the last line and the columns.
                    for _ in 0..if kind == 14 { 3 } else { 0 } {
                        number(&mut at)?;
                    }
                }
                kind @ 10..=12 => {
                    line = line.wrapping_add(i64::from(kind) - 10);
                    at += 2;
                }
                _ => at += 1,
            }
            if offset / 2 < end {
                return Some(line);
            }
        }
        None
    }

    /// Before Python 3.11: pairs of an advance in the code and one in the lines. `no_line` is an
    /// advance that means that the instructions have no line.
    fn line_of_pairs(&self, offset: u64, no_line: Option<i64>) -> i64 {
        let (mut line, mut code) = (self.first_line, 0);
        for pair in self.table.chunks_exact(2) {
            code += u64::from(pair[0]);
            let advance = i64::from(pair[1] as i8);
            // Until 3.9, the advance in the lines belongs to the code after the pair.
            if no_line.is_none() && code > offset {
                break;
            }
            line = line.wrapping_add(if Some(advance) == no_line { 0 } else { advance });
            if no_line.is_some() && code > offset {
                break;
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(table: &[u8]) -> Code {
        let (function, file) = (String::new(), String::new());
        Code { function, file, first_line: 10, table: table.to_vec() }
    }

    #[test]
    fn each_form_of_entry_advances_the_line() {
        // Two instructions on line 10 (short form), one on 12 (one line), one without a line, one
        // on 9 (no columns: -3), one on 49 (long form: +40).
        let table = [0x80 | 1, 0, 0x80 | 12 << 3, 0, 0, 0x80 | 15 << 3, 0x80 | 13 << 3, 7];
        let mut table = table.to_vec();
        table.extend([0x80 | 14 << 3, 64 | 16, 1, 0, 0, 0]);
        let code = code(&table);
        let lines = [0, 2, 4, 6, 8, 10, 12].map(|offset| code.line(0x030b_07f0, offset));
        assert_eq!(lines, [10, 10, 12, 12, 9, 49, 0]);
        assert_eq!(code.line(0x030b_07f0, -1), 0);
    }

    #[test]
    fn older_tables_are_pairs() {
        // The offsets of Python 3.10 are instructions, those before it are bytes.
        let code = code(&[4, 0, 6, 2, 2, 128]);
        assert_eq!([0, 2, 4].map(|offset| code.line(0x030a_00f0, offset)), [10, 12, 12]);
        assert_eq!([0, 5, 11].map(|offset| code.line(0x0309_00f0, offset)), [10, 10, 12]);
    }
}
