//! Files of unfinished recordings. A program or a crash may have put any bytes there.
//!
//! - `spool`: the file of a program that recorded itself, header and chunks (`journal/ring.h`);
//! - `rings`: such a file without its end, and the rings beside it;
//! - `partial`: the journal of a writer that was killed;
//! - `journal`: a complete journal, read and analysed as `keel info` does.
//!
//! No input may cause a panic, and every resulting journal must keep every rule.

use crate::{Failure, Outcome, Random, shape};
use keel_journal::{Event, Op, Reader, Rules, Writer};
use rustc_hash::FxHasher;
use std::fs::File;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Spool,
    Rings,
    Partial,
    Journal,
}

impl Left {
    pub const ALL: [(&str, Left); 4] = [
        ("spool", Left::Spool),
        ("rings", Left::Rings),
        ("partial", Left::Partial),
        ("journal", Left::Journal),
    ];

    /// Longest input, bytes.
    pub fn longest(self) -> usize {
        if matches!(self, Left::Partial | Left::Journal) { 30_000 } else { 6_000 }
    }

    pub fn seeds(self) -> Vec<Vec<u8>> {
        match self {
            Left::Spool => vec![spool(true), spool(false)],
            Left::Rings => vec![rings()],
            Left::Partial => partial().into_iter().collect(),
            Left::Journal => whole().into_iter().collect(),
        }
    }

    /// Overwrites an aligned word, as a wild store would. Then the checksums of a partial journal
    /// are corrected, because otherwise the data after them would never be read.
    pub fn mutate(self, input: &mut [u8], random: &mut Random) {
        const WIDTHS: [usize; 3] = [1, 4, 8];
        let width = WIDTHS[random.below(3)];
        if input.len() < width {
            return;
        }
        let mut at = random.below(input.len() / width) * width;
        if self == Left::Journal && random.below(4) != 0 {
            // The footer has no checksum, so that its changes are read.
            at = input.len() - width - random.below(input.len().min(FOOTER) - width + 1);
        }
        let from = random.below(input.len() / width) * width;
        let word = match random.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << random.below(64),
            3 => random.next(),
            4 => random.below(300) as u64,
            _ => return input.copy_within(from..from + width, at),
        };
        input[at..at + width].copy_from_slice(&word.to_le_bytes()[..width]);
        if self == Left::Partial && random.below(4) != 0 {
            repair_checksums(input);
        }
    }

    pub fn check(self, input: &[u8], folder: &Path) -> Result<Outcome, String> {
        let (path, output) = (folder.join("left"), folder.join("output"));
        drop(std::fs::remove_file(&output));
        let written = match self {
            Left::Spool => write_spool(&path, input),
            Left::Rings => write_rings(&path, &folder.join("left.rings"), input),
            Left::Partial | Left::Journal => std::fs::write(&path, input).map_err(Into::into),
        };
        written.map_err(|error| error.to_string())?;
        if self == Left::Journal {
            return Ok(analyse(&path));
        }
        let made = match self {
            Left::Partial => keel_journal::salvage(&path, &output)
                .map(|salvaged| (salvaged.rows, salvaged.torn_bytes > 0))
                .map_err(|error| error.to_string()),
            _ => keel_record::import_log(&path, &output, &[])
                .map(|imported| (imported.rows, imported.ended_in_order))
                .map_err(|error| error.to_string()),
        };
        let mut hasher = FxHasher::default();
        let whole = match &made {
            Err(error) => {
                shape(error).hash(&mut hasher);
                false
            }
            // The metadata of a partial journal comes from the input.
            Ok((rows, _)) if self == Left::Partial => {
                read(&output, None).is_ok_and(|read| read == *rows)
            }
            Ok((rows, ended)) => {
                let read = read(&output, Some(&mut hasher))?;
                if read != *rows {
                    return Err(format!("{rows} rows written, {read} read"));
                }
                ended.hash(&mut hasher);
                *ended
            }
        };
        Ok(Outcome { behaviour: hasher.finish(), whole })
    }
}

/// Reads a journal in two ways. Any error is an answer.
fn analyse(path: &Path) -> Outcome {
    let mut hasher = FxHasher::default();
    let rows = read(path, Some(&mut hasher));
    let facts = Reader::open(path).and_then(|reader| {
        let violation = keel_journal::analysis::verify(&reader, &mut |_| {})?;
        Ok((keel_journal::analysis::analyse(&reader, &mut |_| {})?, violation))
    });
    if let Err(error) = &rows {
        shape(error).hash(&mut hasher);
    }
    if let Err(error) = &facts {
        shape(&error.to_string()).hash(&mut hasher);
    }
    Outcome { behaviour: hasher.finish(), whole: rows.is_ok() && facts.is_ok() }
}

/// Reads a journal; returns the number of its rows. With a hasher, checks every rule and hashes the
/// properties of the journal.
fn read(path: &Path, hasher: Option<&mut FxHasher>) -> Result<u64, String> {
    let reader = Reader::open(path).map_err(|error| error.to_string())?;
    let metadata = reader.metadata();
    let mut rules = Rules::new(metadata).map_err(|violation| violation.to_string())?;
    let (mut kinds, mut rows) = (0_u32, 0);
    let (mut events, mut origins) = (Vec::new(), Vec::new());
    let mut batches = reader.batches();
    while batches.next_with_origins(&mut events, &mut origins).map_err(|error| error.to_string())? {
        for (event, origin) in events.iter().zip(&origins) {
            rows += 1;
            kinds |= 1 << event.op as u8;
            if hasher.is_some() {
                let sound = rules.check(event).and_then(|()| rules.check_origin(*origin));
                sound.map_err(|violation| format!("{violation}: {event:?}"))?;
            }
        }
    }
    if let Some(hasher) = hasher {
        let counts = [
            metadata.threads.len(),
            metadata.marks.len(),
            metadata.frames.len(),
            metadata.modules.len(),
        ];
        (kinds, counts.map(|count| count.min(4)), metadata.foreign.min(4)).hash(hasher);
        metadata.repairs.keys().for_each(|kind| kind.hash(hasher));
    }
    Ok(rows)
}

// ---- the file of a program that recorded itself: an input is the first 64 bytes of its header,
// then its chunks

const PAGE: usize = 4096;
const HEADER: usize = 64;
const LOG_MAGIC: u64 = 0x314c_4f4f_5053_4c4b;
const SPOOL_MAGIC: u64 = 0x3130_474e_4952_4c4b;
const CHUNK_MAGIC: u64 = 0x314b_4e55_4843_4c4b;
const MAPS: &[u8] = b"55d0000-55e0000 r-xp 00001000 fe:00 123    /usr/bin/a program\n";

fn page_of(header: &[u8]) -> Vec<u8> {
    let mut page = header[..header.len().min(HEADER)].to_vec();
    page.resize(PAGE, 0);
    page
}

fn write_spool(path: &Path, input: &[u8]) -> Result<(), Failure> {
    let mut file = page_of(input);
    file.extend_from_slice(input.get(HEADER..).unwrap_or_default());
    Ok(std::fs::write(path, file)?)
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Magic; version and ready; pid and rings with memory; start; wanted and stopped; end; length of
/// maps and clock.
fn header(magic: u64) -> Vec<u8> {
    words(&[magic, 6 | 1 << 32, 77 | 2 << 32, 1000, 0, 0, 0, 0])
}

fn chunk(kind: u64, ring: u64, first: u64, moment: u64, bytes: &[u8]) -> Vec<u8> {
    let head =
        [CHUNK_MAGIC, kind | ring << 32, first, bytes.len() as u64, moment * 3, moment, 0, 0];
    [words(&head), bytes.to_vec()].concat()
}

fn slot(time: u64, address: u64, size: u64, op: u64, extra: u64) -> Vec<u8> {
    words(&[time, address, size, extra << 16 | 1 << 8 | op])
}

/// One operation of each kind, by two threads that share addresses, the second slightly later.
fn events(thread: u64) -> Vec<u8> {
    let at = |step: u64| 2000 + step * 40 + thread * 7;
    let block = |number: u64| 0x7000 + (number + thread) % 3 * 64;
    let code = 0x55d_1000;
    [
        slot(at(0), 100 + thread, thread, 8, 0),
        slot(at(1), block(0), 77, 1, code),
        slot(at(2), block(1), 88, 3, code),
        slot(at(3), block(2), 99 | 6 << 58, 4, code),
        slot(at(4), block(1), 88 | 1 << 57, 2, code),
        slot(at(5), block(0), 700, 6, code),
        slot(at(6), block(1), 700, 7, block(0)),
        slot(at(7), block(0), 55, 5, 1 << 47 | 9),
        slot(at(8), 0x55d_1200, 0x55d_1300, 11, 9),
        slot(at(9), 0, 0, 10, 0),
        slot(at(10), u64::from_le_bytes(*b"a long m"), u64::from_le_bytes(*b"ark that"), 12, 0),
        slot(at(11), u64::from_le_bytes(*b" ends\0\0\0"), 0, 13, 0),
        slot(at(12), u64::from_le_bytes(*b"worker\0\0"), 0, 14, 0),
        slot(at(13), block(2), 99 | 1 << 57 | 6 << 58, 2, code),
        slot(at(14), block(1), 0, 2, 0),
        slot(at(15), u64::from_le_bytes(*b"its name"), 0, 9, 0),
    ]
    .concat()
}

fn spool(ended: bool) -> Vec<u8> {
    let (one, two) = (events(1), events(2));
    let mut file = header(LOG_MAGIC);
    file.extend(chunk(2, 0, 0, 400, MAPS));
    file.extend(chunk(1, 0, 0, 800, &one[..8 * 32]));
    file.extend(chunk(1, 1, 0, 900, &two));
    file.extend(chunk(1, 0, 8, 1000, &one[8 * 32..]));
    if ended {
        file.extend(chunk(3, 0, 0, 1100, &[]));
    }
    file
}

// ---- its rings: an input is both headers, those of two rings, and the slots of the two, half each

const RING_HEADER: usize = 128;
const SLOTS_AT: usize = 2 * HEADER + 2 * RING_HEADER;
const RINGS_AT: u64 = 4096 + 8192 * 16 + 65536;
const RING_PAGE: u64 = 4096;
const LARGE_RING: u64 = RING_PAGE + 32768 * 32;

fn rings() -> Vec<u8> {
    let ring = || words(&[0; RING_HEADER / 8]);
    [header(LOG_MAGIC), header(SPOOL_MAGIC), ring(), ring(), events(1), events(2)].concat()
}

fn write_rings(path: &Path, rings: &Path, input: &[u8]) -> Result<(), Failure> {
    let mut input = input.to_vec();
    if input.len() < SLOTS_AT {
        input.resize(SLOTS_AT, 0);
    }
    let mut log = page_of(&input[..HEADER]);
    log.extend(chunk(2, 0, 0, 400, MAPS));
    log.extend(chunk(2, 0, 0, 900, MAPS));
    std::fs::write(path, log)?;
    drop(std::fs::remove_file(rings));
    let file = File::options().read(true).write(true).create_new(true).open(rings)?;
    file.set_len(
        RINGS_AT
            + 4 * LARGE_RING
            + 60 * (RING_PAGE + 8192 * 32)
            + (256 - 64) * (RING_PAGE + 2048 * 32)
            + (8192 - 256) * (RING_PAGE + 512 * 32),
    )?;
    file.write_all_at(&input[HEADER..2 * HEADER], 0)?;
    let slots = input[SLOTS_AT..].as_chunks::<32>().0;
    for ring in 0..2_usize {
        let head = &input[2 * HEADER + ring * RING_HEADER..][..RING_HEADER];
        let place = RINGS_AT + ring as u64 * LARGE_RING;
        file.write_all_at(head, place)?;
        let mut tail = [0; 8];
        tail.copy_from_slice(&head[64..72]);
        let tail = u64::from_le_bytes(tail);
        let half = slots.len() / 2;
        let own = if ring == 0 { &slots[..half] } else { &slots[half..] };
        for (index, slot) in own.iter().enumerate() {
            let number = tail.wrapping_add(index as u64) % 32768;
            file.write_all_at(slot, place + RING_HEADER as u64 + number * 32)?;
        }
    }
    Ok(())
}

// ---- the journal of a writer that was killed

const RECORD_MAGIC: &[u8; 8] = b"KLGROUP1";
const RECORD_TAIL: usize = 24;

/// Bytes at the end of a journal that hold its footer, or more.
const FOOTER: usize = 3000;

/// Three complete row groups and a part of the fourth.
fn partial() -> Result<Vec<u8>, Failure> {
    let bytes = whole()?;
    let last = bytes.windows(8).rposition(|eight| eight == RECORD_MAGIC).ok_or("no record")?;
    Ok(bytes[..last - 100].to_vec())
}

/// Four row groups, complete.
fn whole() -> Result<Vec<u8>, Failure> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("whole");
    let options = keel_journal::Options { rows_per_group: 20, ..keel_journal::Options::default() };
    let mut writer = Writer::with_options(&path, options)?;
    for number in 1..=35_u64 {
        writer.push(&Event {
            size: number * 8,
            created: number,
            ..Event::at(number * 100, Op::Malloc)
        })?;
        writer.push(&Event { released: number, ..Event::at(number * 100 + 50, Op::Free) })?;
    }
    writer.cut()?;
    writer.finish(keel_journal::Metadata::default())?;
    Ok(std::fs::read(&path)?)
}

/// Sets the checksum of each record to that of its bytes.
fn repair_checksums(file: &mut [u8]) {
    let ends: Vec<usize> = file
        .windows(8)
        .enumerate()
        .filter(|(_, eight)| eight == RECORD_MAGIC)
        .map(|(at, _)| at + 8)
        .collect();
    for end in ends {
        let Some(tail) = end.checked_sub(RECORD_TAIL) else { continue };
        let length = u32::from_le_bytes([
            file[tail + 12],
            file[tail + 13],
            file[tail + 14],
            file[tail + 15],
        ]);
        let Some(start) = tail.checked_sub(length as usize) else { continue };
        let mut sum = flate2::Crc::new();
        sum.update(&file[start..tail]);
        file[tail + 8..tail + 12].copy_from_slice(&sum.sum().to_le_bytes());
    }
}
