//! The call stacks of heaptrack's files. Numbers are hexadecimal, and indices begin at 1.
//!
//! ```text
//! v VERSION FORMAT                          strings have their length before them from format 3 on
//! t IP PARENT                               the next stack: its innermost call, and the stack
//!                                           around it
//! ```
//!
//! In a raw file, IP is an address, and the modules are:
//!
//! ```text
//! x PATH                                    the program
//! m -                                       the modules that follow replace all others
//! m PATH BASE (START SIZE)...               a module and its segments; PATH `x` is the program
//! ```
//!
//! In an interpreted file, IP is an index:
//!
//! ```text
//! s TEXT                                    the next string
//! i IP MODULE [FUNCTION FILE LINE]...       the next address, by indices of strings; 0 is none.
//!                                           Several functions where they were inlined
//! ```
//!
//! heaptrack subtracts 1 from return addresses, so that they are in the call.

use crate::error::Fault;
use crate::stacks::{StackNumber, StackTable};
use crate::text::Cursor;
use keel_journal::NamedCall;
use rustc_hash::FxHashMap;

/// The lines that describe stacks.
#[derive(Default)]
pub(crate) struct HeaptrackCalls {
    pub table: StackTable,
    has_lengths: bool,
    interpreted: bool,
    program: String,
    strings: Vec<String>,
    /// Sites of the lines `i`.
    instructions: Vec<u32>,
    /// Stacks of the lines `t`.
    traces: Vec<StackNumber>,
    segments: Vec<Segment>,
    /// Sites by address, in the modules of now.
    sites: FxHashMap<u64, u32>,
}

struct Segment {
    start: u64,
    end: u64,
    base: u64,
    module: u32,
}

impl HeaptrackCalls {
    /// Reads a line `v`, `x`, `m`, `s`, `i` or `t`.
    pub fn parse(&mut self, letter: u8, mut cursor: Cursor<'_>) -> Result<(), Fault> {
        match letter {
            b'v' => {
                cursor.token();
                self.has_lengths = number(cursor.token()).is_some_and(|format| format >= 3);
            }
            b'x' => self.program = self.text(&mut cursor),
            b's' => {
                let text = self.text(&mut cursor);
                self.strings.push(text);
            }
            b'm' => self.module(cursor)?,
            b'i' => self.instruction(cursor)?,
            _ => self.trace(cursor)?,
        }
        Ok(())
    }

    /// The stack of a line `t`. Unknown indices are no stack.
    pub fn stack(&self, trace: u64) -> StackNumber {
        let index = usize::try_from(trace).ok().and_then(|trace| trace.checked_sub(1));
        index.and_then(|index| self.traces.get(index).copied()).unwrap_or(0)
    }

    /// The rest of the line, or as much as its length says.
    fn text(&self, cursor: &mut Cursor<'_>) -> String {
        cursor.skip_blanks();
        let mut rest = cursor.rest();
        if self.has_lengths {
            let length = number(cursor.token()).unwrap_or(0) as usize;
            cursor.skip_blanks();
            rest = cursor.rest();
            rest = rest.get(..length).unwrap_or(rest);
        }
        cursor.skip(rest.len());
        String::from_utf8_lossy(rest).into_owned()
    }

    fn module(&mut self, mut cursor: Cursor<'_>) -> Result<(), Fault> {
        let name = match self.has_lengths {
            true => self.text(&mut cursor),
            false => String::from_utf8_lossy(cursor.token()).into_owned(),
        };
        if name == "-" {
            self.segments.clear();
            self.sites.clear();
            return Ok(());
        }
        let path = if name == "x" { self.program.clone() } else { name };
        let module = self.table.module(&path);
        let base = cursor.hexadecimal("a base address")?;
        loop {
            cursor.skip_blanks();
            if cursor.rest().is_empty() {
                break;
            }
            let start = base.wrapping_add(cursor.hexadecimal_here("the start of a segment")?);
            let end = start.saturating_add(cursor.hexadecimal("the size of a segment")?);
            self.segments.push(Segment { start, end, base, module });
        }
        Ok(())
    }

    fn instruction(&mut self, mut cursor: Cursor<'_>) -> Result<(), Fault> {
        self.interpreted = true;
        let address = cursor.hexadecimal("an address")?;
        let module = cursor.hexadecimal("a module")?;
        let module = match self.string(module) {
            "" => None,
            path => Some(path.to_owned()),
        };
        let module = module.map(|path| self.table.module(&path));
        let mut names = Vec::new();
        loop {
            cursor.skip_blanks();
            if cursor.rest().is_empty() {
                break;
            }
            let function = cursor.hexadecimal_here("a function")?;
            let function = self.string(function).to_owned();
            cursor.skip_blanks();
            let (mut file, mut line) = (String::new(), 0);
            // The file and the line are missing if they are unknown.
            if !cursor.rest().is_empty() {
                let index = cursor.hexadecimal_here("a file")?;
                file = self.string(index).to_owned();
                line = cursor.hexadecimal("a line")? as u32;
            }
            names.push(NamedCall { site: 0, function, file, line, module });
        }
        if names.is_empty() && module.is_some() {
            names.push(NamedCall { module, ..NamedCall::default() });
        }
        let site = self.table.named_site(address.wrapping_add(1), names.into_iter());
        self.instructions.push(site);
        Ok(())
    }

    fn trace(&mut self, mut cursor: Cursor<'_>) -> Result<(), Fault> {
        let place = cursor.hexadecimal("an address or its index")?;
        let parent = cursor.hexadecimal("the index of a stack")?;
        let outer = self.stack(parent);
        let site = match self.interpreted {
            true => {
                let index = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
                index.and_then(|index| self.instructions.get(index).copied())
            }
            false => Some(self.site_at(place)),
        };
        // A stack without its innermost call is that of its caller.
        let stack = site.map_or(outer, |site| self.table.stack(outer, site));
        self.traces.push(stack);
        Ok(())
    }

    /// The site of an address in a raw file.
    fn site_at(&mut self, address: u64) -> u32 {
        let (segments, table) = (&self.segments, &mut self.table);
        *self.sites.entry(address).or_insert_with(|| {
            let range = |segment: &&Segment| (segment.start..segment.end).contains(&address);
            match segments.iter().rev().find(range) {
                Some(segment) => {
                    let offset = (address - segment.base).wrapping_add(1);
                    table.site(Some(segment.module), offset)
                }
                None => table.site(None, address.wrapping_add(1)),
            }
        })
    }

    fn string(&self, index: u64) -> &str {
        let index = usize::try_from(index).ok().and_then(|index| index.checked_sub(1));
        index.and_then(|index| self.strings.get(index)).map_or("", String::as_str)
    }
}

fn number(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}
