//! The records of the formats 8 to 11: memray 1.2 to 1.18.
//!
//! The lower four bits of a record's first byte are its kind, the upper four are flags:
//!
//! ```text
//! 0   end of the file, with flag 1
//! 1   allocation or free; the flags are the called function. Address, and for others than free the
//!     size
//! 2   allocation with the index of a native call after the size
//! 3   a line of a function: number, function, file, line
//! 4   a line of a function is entered: number
//! 9   1 to 16 functions are left
//! 5..8, 10..12  native calls, modules, name of a thread, time, thread
//! ```
//!
//! Addresses, numbers and lines are differences to the one before.

use super::bytes::{Bytes, Stop};
use super::{Found, Header, NS_IN_MS, State};
use crate::forms::Record;
use crate::stacks::StackNumber;
use keel_journal::{NamedCall, Op};
use rustc_hash::FxHashMap;

/// The called function, by its number in the file.
mod call {
    pub const FREE: u8 = 2;
    pub const CALLOC: u8 = 3;
    pub const MMAP: u8 = 10;
    pub const MUNMAP: u8 = 11;
    pub const PYTHON_CALLOC: u8 = 13;
    pub const PYTHON_FREE: u8 = 15;
}

/// What only these formats have.
#[derive(Default)]
pub(super) struct Early {
    address: u64,
    number: u64,
    line: i64,
    /// Sites by the number of their line of a function.
    sites: FxHashMap<u64, u32>,
}

impl State {
    /// Reads a record.
    pub(super) fn early(
        &mut self,
        header: &Header,
        first: u8,
        bytes: &mut Bytes<'_>,
    ) -> Result<Found, Stop> {
        let (kind, flags) = (first & 15, first >> 4);
        match kind {
            0 if flags == 1 => return Ok(Found::End),
            // Files are filled with zeros up to their end.
            0 if flags == 0 => {}
            1 | 2 => return self.early_operation(kind == 2, flags, bytes),
            3 => self.early_line(bytes)?,
            4 => {
                self.early.number = self.early.number.wrapping_add_signed(bytes.signed()?);
                let site = self.early.sites.get(&self.early.number).copied();
                let site = site.filter(|_| !self.is_own(header));
                self.enter_site(site);
            }
            5 => drop((bytes.signed()?, bytes.signed()?)),
            6 => {}
            7 => drop((bytes.text()?, bytes.varint()?, bytes.word()?)),
            8 => drop((bytes.word()?, bytes.varint()?)),
            9 => self.leave(usize::from(flags) + 1),
            10 => self.name_thread(bytes)?,
            11 => self.pass_time(bytes)?,
            12 => self.thread = bytes.word()?,
            _ => return Err(Stop::Broken("a known kind of record")),
        }
        Ok(Found::Other)
    }

    fn early_operation(
        &mut self,
        is_native: bool,
        called: u8,
        bytes: &mut Bytes<'_>,
    ) -> Result<Found, Stop> {
        if called == 0 {
            return Err(Stop::Broken("a known function"));
        }
        let is_free = called == call::FREE || called == call::PYTHON_FREE;
        let address = self.early.address.wrapping_add_signed(bytes.signed()?);
        self.early.address = address;
        let size = if is_free && !is_native { 0 } else { bytes.varint()? };
        if is_native {
            bytes.signed()?;
        }
        if called == call::MMAP || called == call::MUNMAP {
            self.mappings += 1;
            return Ok(Found::Other);
        }
        let op = match called {
            _ if is_free => Op::Free,
            call::CALLOC | call::PYTHON_CALLOC => Op::Calloc,
            _ => Op::Malloc,
        };
        self.heap_operation(op, address, size)
    }

    fn early_line(&mut self, bytes: &mut Bytes<'_>) -> Result<(), Stop> {
        let number = self.early.number.wrapping_add_signed(bytes.signed()?);
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let (function, file) = (text(bytes.text()?), text(bytes.text()?));
        let line = self.early.line.wrapping_add(bytes.signed()?);
        (self.early.number, self.early.line) = (number, line);
        let line = u32::try_from(line).unwrap_or(0);
        let call = NamedCall { function, file, line, ..NamedCall::default() };
        let site = self.table.named_site(0, std::iter::once(call));
        self.early.sites.insert(number, site);
        Ok(())
    }

    /// An operation of the heap by the thread of now.
    pub(super) fn heap_operation(
        &mut self,
        op: Op,
        address: u64,
        size: u64,
    ) -> Result<Found, Stop> {
        if size >> 63 != 0 {
            return Err(Stop::Broken("a size below 2^63"));
        }
        let is_free = op == Op::Free;
        let (old, new) = if is_free { (address, 0) } else { (0, address) };
        let (thread, time) = (self.thread, self.time);
        let size = if is_free { 0 } else { size };
        let record = Record { op, size, old, new, thread, begin: time, time, ..Record::default() };
        let calls = self.calls.get(&thread).filter(|_| !is_free);
        let stack = calls.and_then(|calls| calls.last().copied()).unwrap_or(0);
        Ok(Found::Operation(record, stack))
    }

    /// Whether the next call of the thread of now is one of memray's own.
    pub(super) fn is_own(&self, header: &Header) -> bool {
        let depth = self.calls.get(&self.thread).map_or(0, Vec::len) as u64;
        self.thread == header.main_thread && depth < header.own_calls
    }

    /// The thread of now enters a line of a function. Without a site, it does not become a part of
    /// the stack.
    pub(super) fn enter_site(&mut self, site: Option<u32>) {
        let calls = self.calls.entry(self.thread).or_default();
        let outer: StackNumber = calls.last().copied().unwrap_or(0);
        calls.push(site.map_or(outer, |site| self.table.stack(outer, site)));
    }

    pub(super) fn leave(&mut self, count: usize) {
        let calls = self.calls.entry(self.thread).or_default();
        calls.truncate(calls.len().saturating_sub(count));
    }

    pub(super) fn name_thread(&mut self, bytes: &mut Bytes<'_>) -> Result<(), Stop> {
        let name = String::from_utf8_lossy(bytes.text()?).into_owned();
        self.names.insert(self.thread, name);
        Ok(())
    }

    pub(super) fn pass_time(&mut self, bytes: &mut Bytes<'_>) -> Result<(), Stop> {
        let (_resident, ms) = (bytes.varint()?, bytes.varint()?);
        let time = ms.checked_mul(NS_IN_MS).filter(|time| time >> 63 == 0);
        self.time = self.time.max(time.ok_or(Stop::Broken("a time in ms"))?);
        Ok(())
    }
}
