//! memray's capture files of Python programs, compressed with LZ4 or not.
//!
//! A file is a header and records without gaps. The upper bits of a record's first byte are its
//! kind, the others are flags. Numbers are varints; many are differences to the number before.
//!
//! ```text
//! 128..  allocation or free: 4 bits are the address among the last 15 (15: a new one follows),
//!        3 bits are the kind (0: a byte follows)
//! 64..   a function is entered: its code and the offset of the instruction
//! 32..   an object of Python, which has no meaning here
//! 16..   1 to 16 functions are left
//! 0..    time, thread, name of a thread, code of a function, modules, end of the file
//! ```
//!
//! These are the records from format 12 on; `early` describes those before.
//!
//! memray writes a realloc as a free and an allocation. A line that changes within a function is
//! written as if the function had been left and entered again.

mod bytes;
mod early;
mod lines;

use crate::error::{Error, Fault, Refusal, Result};
use crate::forms::{Naming, Record, Times};
use crate::objects::Objects;
use crate::stacks::{StackNumber, StackTable};
use crate::{Options, Sink};
use bytes::{Bytes, Stop};
use keel_journal::{Metadata, NamedCall, Op};
use lines::Code;
use rustc_hash::FxHashMap;
use std::path::Path;

const MAGIC: &[u8] = b"memray\0";
/// The versions of the format, from that of memray 1.2 to that of memray 1.20.
const VERSIONS: std::ops::RangeInclusive<u32> = 8..=13;
/// The versions from which on the header has this, or the records are packed more tightly.
mod since {
    pub const SKIPPED_CALLS: u32 = 9;
    pub const KINDS_OF_FILE: u32 = 10;
    pub const TRACED_ALLOCATORS: u32 = 11;
    pub const PACKED_RECORDS: u32 = 12;
    pub const OBJECTS: u32 = 13;
}
const ADVICE: &str = "The file is damaged, or of an unknown version of memray; record again";
const NS_IN_MS: u64 = 1_000_000;
/// Number of addresses that a record can refer to without repeating them.
const RECENT: usize = 15;

/// What a call is, by its number in the file.
mod call {
    pub const PYTHON_FREE: u8 = 1;
    pub const PYTHON_CALLOC: u8 = 3;
    pub const FREE: u8 = 5;
    pub const CALLOC: u8 = 8;
    pub const MMAP: u8 = 14;
    pub const MUNMAP: u8 = 15;
}

/// Whether these are the first bytes of a capture file.
pub(crate) fn recognises(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

#[derive(Default)]
struct Header {
    version: u32,
    python: u32,
    has_native_stacks: bool,
    command: String,
    pid: u32,
    main_thread: u64,
    /// Number of outermost calls of the main thread that are memray's own.
    own_calls: u64,
}

/// Converts the records to the rows of the journal.
pub(crate) struct Memray<S> {
    objects: Objects,
    sink: S,
    repair: bool,
    header: Option<Header>,
    /// Bytes of a record that is not complete yet.
    pending: Vec<u8>,
    /// Offset of the next record in the decompressed file.
    offset: u64,
    has_ended: bool,
    state: State,
}

/// What the records so far say.
#[derive(Default)]
struct State {
    table: StackTable,
    time: u64,
    thread: u64,
    /// The last address, in units of 8 bytes.
    address: u64,
    recent: [u64; RECENT],
    first_line: i64,
    codes: FxHashMap<u64, Code>,
    sites: FxHashMap<(u64, u32), u32>,
    /// The calls of each thread, the outermost first.
    calls: FxHashMap<u64, Vec<StackNumber>>,
    early: early::Early,
    names: FxHashMap<u64, String>,
    /// Calls of `mmap` and `munmap`, which are not operations of the heap.
    mappings: u64,
}

impl<S: Sink> Memray<S> {
    pub fn new(options: &Options, frames: Vec<u64>, sink: S) -> Memray<S> {
        let mut objects = Objects::new(options.repair, frames);
        objects.adapt(Times::SinceStart, Naming::Address, true);
        Memray {
            objects,
            sink,
            repair: options.repair,
            header: None,
            pending: Vec::new(),
            offset: 0,
            has_ended: false,
            state: State::default(),
        }
    }

    /// Reads the next bytes of the file.
    pub fn take(&mut self, arrived: &[u8], path: &Path) -> Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(arrived);
        let mut at = 0;
        while at < pending.len() && !self.has_ended {
            let mut bytes = Bytes::new(&pending[at..]);
            match self.next(&mut bytes, path) {
                Ok(()) => {}
                Err(Step::Stop(Stop::Incomplete)) => break,
                Err(Step::Stop(Stop::Broken(expected))) => {
                    return Err(self.broken(expected, &pending[at..], path));
                }
                Err(Step::Refused(refusal)) => return Err(refusal.at_byte(path, self.offset)),
                Err(Step::Failed(error)) => return Err(error),
            }
            at += bytes.position();
            self.offset += bytes.position() as u64;
        }
        pending.drain(..at);
        self.pending = pending;
        Ok(())
    }

    /// Reads the header or a record.
    fn next(&mut self, bytes: &mut Bytes<'_>, path: &Path) -> std::result::Result<(), Step> {
        let Some(header) = &self.header else {
            self.header = Some(header(bytes, path)?);
            return Ok(());
        };
        let first = bytes.byte()?;
        let found = match first {
            _ if header.version < since::PACKED_RECORDS => {
                self.state.early(header, first, bytes)?
            }
            128.. => self.state.operation(header, first, bytes)?,
            1 => Found::End,
            first => self.state.describe(header, first, bytes)?,
        };
        match found {
            Found::Operation(record, stack) => {
                self.sink.set_origin(self.state.table.origin(stack));
                self.objects.apply(&record, &mut self.sink)?;
            }
            Found::End => self.has_ended = true,
            Found::Other => {}
        }
        Ok(())
    }

    /// Returns the sink and the metadata.
    pub fn finish(self, path: &Path, program: &str) -> Result<(S, Metadata)> {
        let is_cut_off = self.header.is_none() || !self.pending.is_empty() && !self.has_ended;
        if is_cut_off && !self.repair {
            return Err(self.broken("the rest of a record", &self.pending, path));
        }
        let Memray { objects, sink, state, header, .. } = self;
        let header = header.unwrap_or_default();
        let mut remains = objects.finish();
        for (what, count) in [(CUT_OFF, u64::from(is_cut_off)), (MAPPINGS, state.mappings)] {
            if count > 0 {
                remains.repairs.insert(what.to_owned(), count);
            }
        }
        for thread in &mut remains.threads {
            thread.name = state.names.get(&thread.id).cloned().unwrap_or_default();
        }
        let mut words = header.command.split(' ').map(str::to_owned);
        let first = words.next().unwrap_or_default();
        let (modules, stacks) = state.table.into_parts();
        let metadata = Metadata {
            writer: format!("keel import ({NAME}) {}", env!("CARGO_PKG_VERSION")),
            program: if program.is_empty() { first } else { program.to_owned() },
            arguments: words.collect(),
            pid: header.pid,
            clock: "text".to_owned(),
            clock_hz: 1e9,
            threads: remains.threads,
            frames: remains.frames,
            foreign: remains.foreign,
            repairs: remains.repairs,
            modules,
            stacks,
            ..Metadata::default()
        };
        Ok((sink, metadata))
    }

    fn broken(&self, expected: &str, found: &[u8], path: &Path) -> Error {
        let fault = Fault {
            expected: expected.to_owned(),
            found: match found.first() {
                None => "the end of the file".to_owned(),
                Some(byte) => format!("a record that begins with byte {byte:#04x}"),
            },
            advice: ADVICE,
            column: None,
        };
        fault.at_byte(path, self.offset)
    }
}

/// The name of the format.
pub(crate) const NAME: &str = "memray";
const CUT_OFF: &str = "incomplete last record: left out";
const MAPPINGS: &str = "call of mmap or munmap: left out";

/// What a record is.
enum Found {
    /// An operation of the heap, and its stack.
    Operation(Record, StackNumber),
    /// The end of the file.
    End,
    /// Something else; it changed the state.
    Other,
}

/// Why a record has no effect.
enum Step {
    Stop(Stop),
    Refused(Refusal),
    Failed(Error),
}

impl From<Stop> for Step {
    fn from(stop: Stop) -> Step {
        Step::Stop(stop)
    }
}

impl From<Refusal> for Step {
    fn from(refusal: Refusal) -> Step {
        Step::Refused(refusal)
    }
}

fn header(bytes: &mut Bytes<'_>, path: &Path) -> std::result::Result<Header, Step> {
    bytes.take(MAGIC.len())?;
    let unsupported = |found: String, advice| {
        Step::Failed(Error::Unsupported { path: path.to_path_buf(), found, advice })
    };
    let version = bytes.half_word()?;
    if !VERSIONS.contains(&version) {
        let found = format!("it is a capture file of memray in format {version}");
        return Err(unsupported(found, "record with memray 1.2 to 1.20 (formats 8 to 13)"));
    }
    let has = |since: u32| version >= since;
    let python = if has(since::PACKED_RECORDS) { bytes.half_word()? } else { 0 };
    let has_native_stacks = bytes.byte()? != 0;
    if has(since::KINDS_OF_FILE) && bytes.byte()? != 0 {
        let found = "it is a capture file of memray that has only sums".to_owned();
        return Err(unsupported(found, "record without --aggregate"));
    }
    // Numbers of allocations and frames; times of the start and the end.
    bytes.take(4 * 8)?;
    let command = String::from_utf8_lossy(bytes.text()?).into_owned();
    let pid = bytes.half_word()?;
    let (main_thread, own_calls) =
        if has(since::SKIPPED_CALLS) { (bytes.word()?, bytes.word()?) } else { (0, 0) };
    // Python's allocator, whether it was recorded, whether objects were.
    bytes.byte()?;
    bytes.take(usize::from(has(since::TRACED_ALLOCATORS)))?;
    bytes.take(usize::from(has(since::PACKED_RECORDS)))?;
    if has(since::OBJECTS) {
        bytes.text()?;
        // Two lists of folders, each of which ends with an empty text.
        for _ in 0..2 {
            while !bytes.text()?.is_empty() {}
        }
    }
    Ok(Header { version, python, has_native_stacks, command, pid, main_thread, own_calls })
}

impl State {
    /// Reads an allocation or a free.
    fn operation(
        &mut self,
        header: &Header,
        first: u8,
        bytes: &mut Bytes<'_>,
    ) -> std::result::Result<Found, Stop> {
        let index = usize::from(first >> 3 & 15);
        let change = if index == RECENT { Some(bytes.signed()?) } else { None };
        let kind = match first & 7 {
            0 => bytes.byte()?,
            kind => kind,
        };
        if kind == 0 || kind > call::MUNMAP {
            return Err(Stop::Broken("a known kind of allocation"));
        }
        let is_free = kind == call::FREE || kind == call::PYTHON_FREE;
        if header.has_native_stacks && !is_free {
            bytes.signed()?;
        }
        let size = if is_free { 0 } else { bytes.varint()? };
        let address = match change {
            Some(change) => self.new_address(change),
            None => self.recent[index],
        };
        if kind == call::MMAP || kind == call::MUNMAP {
            self.mappings += 1;
            return Ok(Found::Other);
        }
        let op = match kind {
            _ if is_free => Op::Free,
            call::CALLOC | call::PYTHON_CALLOC => Op::Calloc,
            _ => Op::Malloc,
        };
        self.heap_operation(op, address, size)
    }

    fn new_address(&mut self, change: i64) -> u64 {
        self.address = self.address.wrapping_add_signed(change);
        self.recent.rotate_right(1);
        self.recent[0] = self.address << 3;
        self.recent[0]
    }

    /// Reads a record that is no operation.
    fn describe(
        &mut self,
        header: &Header,
        first: u8,
        bytes: &mut Bytes<'_>,
    ) -> std::result::Result<Found, Stop> {
        match first {
            64.. => {
                let (code, offset) = (bytes.varint()?, bytes.signed()?);
                self.enter(header, code, offset);
            }
            32.. => {
                let is_new = first >> 1 & 15 == RECENT as u8;
                let change = if is_new { Some(bytes.signed()?) } else { None };
                if header.has_native_stacks && first & 1 != 0 {
                    bytes.signed()?;
                }
                change.map(|change| self.new_address(change));
            }
            16.. => self.leave(usize::from(first & 15) + 1),
            0 | 6 => {}
            2 => self.pass_time(bytes)?,
            5 => drop((bytes.signed()?, bytes.signed()?)),
            7 => drop((bytes.text()?, bytes.varint()?, bytes.word()?)),
            8 => drop((bytes.word()?, bytes.varint()?)),
            10 => self.name_thread(bytes)?,
            12 => self.thread = bytes.word()?,
            14 => self.add_code(bytes)?,
            _ => return Err(Stop::Broken("a known kind of record")),
        }
        Ok(Found::Other)
    }

    fn add_code(&mut self, bytes: &mut Bytes<'_>) -> std::result::Result<(), Stop> {
        let number = bytes.varint()?;
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let (function, file) = (text(bytes.text()?), text(bytes.text()?));
        let change = bytes.signed()?;
        let length = usize::try_from(bytes.varint()?).map_err(|_| Stop::Broken("a length"))?;
        let table = bytes.take(length)?.to_vec();
        self.first_line = self.first_line.wrapping_add(change);
        let code = Code { function, file, first_line: self.first_line, table };
        self.codes.insert(number, code);
        Ok(())
    }

    /// The thread enters a function, or another line of it.
    fn enter(&mut self, header: &Header, number: u64, offset: i64) {
        let is_own = self.is_own(header);
        let site = self.codes.get(&number).filter(|_| !is_own).map(|code| {
            let line = code.line(header.python, offset);
            let table = &mut self.table;
            *self.sites.entry((number, line)).or_insert_with(|| {
                let (function, file) = (code.function.clone(), code.file.clone());
                let call = NamedCall { function, file, line, ..NamedCall::default() };
                table.named_site(0, std::iter::once(call))
            })
        });
        self.enter_site(site);
    }
}
