//! Makes a journal of the `.partial` file of a writer that was killed, and of a file that lost its
//! end.
//!
//! In the file, a record follows each row group. The record is a footer for that group alone, and a
//! tail of 24 bytes with the start of the group (`journal/FORMAT.md`, Writing). A group starts
//! where the previous record ends. Therefore all records can be found from the last complete one.
//! The writer was writing the bytes after that record when it was killed.

use crate::columns::{CHECKSUMS_KEY, Checksum, Checksums, METADATA_KEY};
use crate::destination::Destination;
use crate::encoder::{RECORD_MAGIC, RECORD_TAIL_BYTES, footer};
use crate::footer::{footer_entry, guarded};
use crate::read_at::read_exact_at;
use crate::{Error, Metadata, Result};
use parquet::file::metadata::{ParquetMetaDataReader, RowGroupMetaData};
use parquet::schema::types::SchemaDescPtr;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

const PARQUET_MAGIC: &[u8; 4] = b"PAR1";
const COPY_BYTES: usize = 1 << 20;

/// The result of [`salvage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Operations in the journal.
    pub rows: u64,
    /// Size of the journal.
    pub bytes: u64,
    /// Bytes at the end of the partial file that are not a complete row group.
    pub torn_bytes: u64,
}

/// Returns true if the file is a journal that lacks its end.
pub fn is_partial(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| Partial::open(&file).is_ok_and(|partial| partial.is_some()))
}

/// Writes a journal with the complete row groups of a `.partial` file. The `.partial` file is not
/// changed.
///
/// The journal has the metadata of the last complete row group. `ended` is `recorder killed` unless
/// the file has lost only its footer. The function copies the file once, with memory for the
/// largest row group.
///
/// # Errors
/// [`Error::Read`], [`Error::Truncated`] if no row group is complete, [`Error::Create`] and
/// [`Error::Write`].
pub fn salvage(partial: &Path, output: &Path) -> Result<Salvaged> {
    let read_error = |cause| Error::Read { path: partial.to_path_buf(), cause };
    let file = File::open(partial).map_err(read_error)?;
    let found = Partial::open(&file).map_err(read_error)?;
    let nothing = || Error::Truncated {
        path: partial.to_path_buf(),
        detail: "it has no whole row group".to_owned(),
    };
    let Partial { records, length } = found.ok_or_else(nothing)?;
    let (records, end) = sound(&file, records).map_err(read_error)?;
    let Some(last) = records.last() else { return Err(nothing()) };
    let metadata = merged(&records);
    let descriptor = last.descriptor.clone();
    let rows = records.iter().map(|record| record.group.num_rows() as u64).sum();
    let checksums: Vec<Checksum> = records.iter().map(|record| record.checksum).collect();
    let groups = records.into_iter().map(|record| record.group).collect();
    let footer = footer(&descriptor, groups, &checksums, &metadata)?;
    write_journal(&file, end, &footer, output)?;
    Ok(Salvaged { rows, bytes: end + footer.len() as u64, torn_bytes: length - end })
}

/// A row group that states more rows, or fewer than none, is damaged. So the sums of the rows of
/// all groups do not overflow.
const GROUP_ROWS_MAX: i64 = u32::MAX as i64;

/// A row group and its record.
struct Record {
    group: RowGroupMetaData,
    descriptor: SchemaDescPtr,
    checksum: Checksum,
    /// The metadata's lists have only the entries that earlier records do not have.
    metadata: Metadata,
    /// The offset at which the record ends.
    end: u64,
}

struct Partial {
    /// The records in the order of the file.
    records: Vec<Record>,
    length: u64,
}

impl Partial {
    /// Returns `None` if the file is not a partial journal or has no complete record.
    fn open(file: &File) -> io::Result<Option<Partial>> {
        let length = file.metadata()?.len();
        let mut head = [0; PARQUET_MAGIC.len()];
        if length < head.len() as u64 || !file.metadata()?.is_file() {
            return Ok(None);
        }
        read_exact_at(file, &mut head, 0)?;
        let mut tail = head;
        read_exact_at(file, &mut tail, length - PARQUET_MAGIC.len() as u64)?;
        if &head != PARQUET_MAGIC || (&tail == PARQUET_MAGIC && length > PARQUET_MAGIC.len() as u64)
        {
            return Ok(None);
        }
        let Some(mut end) = last_record_end(file, length)? else { return Ok(None) };
        let mut records = Vec::new();
        while end > head.len() as u64 {
            let Some(record) = read_record(file, end)? else { return Ok(None) };
            end = record.checksum.offset;
            records.push(record);
        }
        records.reverse();
        Ok(Some(Partial { records, length }))
    }
}

/// Searches for the last record's magic, from the end backwards.
fn last_record_end(file: &File, length: u64) -> io::Result<Option<u64>> {
    let mut until = length;
    let mut window = vec![0; COPY_BYTES];
    while until >= RECORD_TAIL_BYTES as u64 {
        let from = until.saturating_sub(window.len() as u64);
        let bytes = &mut window[..(until - from) as usize];
        read_exact_at(file, bytes, from)?;
        let ends = bytes.windows(RECORD_MAGIC.len()).enumerate().rev();
        for (at, _) in ends.filter(|(_, eight)| *eight == RECORD_MAGIC) {
            let end = from + (at + RECORD_MAGIC.len()) as u64;
            // Compressed data may contain these eight bytes by chance.
            if read_record(file, end)?.is_some() {
                return Ok(Some(end));
            }
        }
        if from == 0 {
            break;
        }
        // The windows overlap, so that no magic is split between two of them.
        until = from + RECORD_MAGIC.len() as u64 - 1;
    }
    Ok(None)
}

/// Returns the record that ends at `end`, if there is an undamaged one.
fn read_record(file: &File, end: u64) -> io::Result<Option<Record>> {
    let Some(tail_at) = end.checked_sub(RECORD_TAIL_BYTES as u64) else { return Ok(None) };
    let mut tail = [0; RECORD_TAIL_BYTES];
    read_exact_at(file, &mut tail, tail_at)?;
    let word = |at: usize| u32::from_le_bytes([tail[at], tail[at + 1], tail[at + 2], tail[at + 3]]);
    let start = u64::from(word(0)) | u64::from(word(4)) << 32;
    let (crc, length) = (word(8), u64::from(word(12)));
    let Some(footer_at) = tail_at.checked_sub(length).filter(|at| start < *at) else {
        return Ok(None);
    };
    let mut bytes = vec![0; length as usize];
    read_exact_at(file, &mut bytes, footer_at)?;
    if &tail[16..] != RECORD_MAGIC || crc32fast::hash(&bytes) != crc {
        return Ok(None);
    }
    Ok(decode(&bytes, end).filter(|record| {
        let sum = record.checksum;
        sum.offset == start && sum.offset.checked_add(sum.length) == Some(footer_at)
    }))
}

fn decode(footer: &[u8], end: u64) -> Option<Record> {
    let parquet = guarded(|| ParquetMetaDataReader::decode_metadata(footer)).ok()?;
    let checksums: Checksums = serde_json::from_str(footer_entry(&parquet, CHECKSUMS_KEY)?).ok()?;
    let metadata = serde_json::from_str(footer_entry(&parquet, METADATA_KEY)?).ok()?;
    let group = parquet.row_groups().first()?.clone();
    if !(0..=GROUP_ROWS_MAX).contains(&group.num_rows()) {
        return None;
    }
    let descriptor = parquet.file_metadata().schema_descr_ptr();
    Some(Record { group, descriptor, checksum: *checksums.row_groups.first()?, metadata, end })
}

/// Returns the records before the first damaged row group, and the offset at which they end.
fn sound(file: &File, records: Vec<Record>) -> io::Result<(Vec<Record>, u64)> {
    let (mut kept, mut end) = (Vec::new(), 0);
    for record in records {
        let mut bytes = vec![0; record.checksum.length as usize];
        read_exact_at(file, &mut bytes, record.checksum.offset)?;
        if crc32fast::hash(&bytes) != record.checksum.crc32 {
            break;
        }
        end = record.end;
        kept.push(record);
    }
    Ok((kept, end))
}

/// Returns the latest metadata, with the joined lists of all records.
fn merged(records: &[Record]) -> Metadata {
    let mut merged = records.last().map(|record| record.metadata.clone()).unwrap_or_default();
    merged.frames.clear();
    merged.marks.clear();
    merged.stacks = Default::default();
    for Record { metadata, .. } in records {
        merged.frames.extend(&metadata.frames);
        merged.marks.extend(metadata.marks.iter().cloned());
        merged.stacks.sites.extend(&metadata.stacks.sites);
        merged.stacks.nodes.extend(&metadata.stacks.nodes);
        merged.stacks.names.extend(metadata.stacks.names.iter().cloned());
    }
    // The last record of a finished journal states how the program ended.
    if merged.ended.is_empty() {
        merged.ended = "recorder killed".to_owned();
    }
    merged
}

fn write_journal(from: &File, length: u64, footer: &[u8], output: &Path) -> Result<()> {
    let create_error = |cause| Error::Create { path: output.to_path_buf(), cause };
    let target = Destination::file(output).map_err(create_error)?;
    let mut name = target.as_os_str().to_owned();
    name.push(".salvage");
    // What an earlier salvage left here is of no use. A link with this name is not followed.
    drop(std::fs::remove_file(&name));
    let mut file = File::create_new(&name).map_err(create_error)?;
    let copied = (|| {
        let mut bytes = vec![0; COPY_BYTES];
        let mut at = 0;
        while at < length {
            let count = (length - at).min(COPY_BYTES as u64) as usize;
            read_exact_at(from, &mut bytes[..count], at)?;
            file.write_all(&bytes[..count])?;
            at += count as u64;
        }
        file.write_all(footer)?;
        std::fs::rename(&name, target)
    })();
    copied.map_err(|cause| {
        drop(std::fs::remove_file(&name));
        Error::Write { path: output.to_path_buf(), cause }
    })
}
