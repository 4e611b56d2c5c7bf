//! Recognises journal files and reads their footers.

use crate::columns::{COLUMNS, Checksums, METADATA_KEY};
use crate::{Error, FORMAT_VERSION, Metadata, Result};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The length of the shortest Parquet file: magic, footer length, magic.
const LEAST_BYTES: u64 = 12;

/// Runs code of the Parquet library. If damaged input makes it panic, the result is an error.
pub(crate) fn guarded<T>(
    work: impl FnOnce() -> std::result::Result<T, ParquetError>,
) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("its bytes cannot be decoded".to_owned()),
    }
}

/// Checks the magic and the footer length. This distinguishes other kinds of files from damaged
/// journals.
pub(crate) fn check_frame(path: &Path, file: &mut File, bytes: u64) -> Result<()> {
    let read_error = |cause| Error::Read { path: path.to_path_buf(), cause };
    let mut head = Vec::new();
    file.take(64).read_to_end(&mut head).map_err(read_error)?;
    if !head.starts_with(b"PAR1") {
        let (found, advice) = describe_other(&head);
        return Err(Error::NotParquet { path: path.to_path_buf(), found, advice });
    }
    let truncated = |detail: String| Err(Error::Truncated { path: path.to_path_buf(), detail });
    if bytes < LEAST_BYTES {
        return truncated(format!("it has only {bytes} bytes"));
    }
    let mut tail = [0; 8];
    file.seek(SeekFrom::End(-8)).and_then(|_| file.read_exact(&mut tail)).map_err(read_error)?;
    if &tail[4..] != b"PAR1" {
        return truncated(format!("its {bytes} bytes end without a footer"));
    }
    let footer = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if footer + LEAST_BYTES > bytes {
        return truncated(format!("a footer of {footer} bytes does not fit in its {bytes} bytes"));
    }
    Ok(())
}

fn describe_other(head: &[u8]) -> (String, &'static str) {
    const IMPORT: &str = "Turn it into a journal first: keel import INPUT -o game.journal.parquet";
    const OTHER: &str = "Give a file that `keel record` or `keel import` wrote";
    if head.is_empty() {
        ("it is empty".to_owned(), OTHER)
    } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        ("it is compressed with zstd".to_owned(), IMPORT)
    } else if head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
        ("it is text".to_owned(), IMPORT)
    } else {
        ("it is not a Parquet file".to_owned(), OTHER)
    }
}

pub(crate) fn footer_entry<'a>(parquet: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let entries = parquet.file_metadata().key_value_metadata()?;
    entries.iter().find(|entry| entry.key == key)?.value.as_deref()
}

pub(crate) fn read_metadata(
    path: &Path,
    parquet: &ParquetMetaData,
    checksums: Option<&Checksums>,
) -> Result<Metadata> {
    let Some(text) = footer_entry(parquet, METADATA_KEY) else {
        let schema = parquet.file_metadata().schema_descr();
        let names: Vec<String> =
            schema.columns().iter().take(12).map(|column| column.path().string()).collect();
        return Err(Error::NotJournal { path: path.to_path_buf(), columns: names.join(", ") });
    };
    let corrupt = |detail: String| {
        let place = format!("footer, entry {METADATA_KEY}");
        Error::Corrupt { path: path.to_path_buf(), place, detail }
    };
    #[derive(serde::Deserialize)]
    struct Version {
        version: u64,
    }
    let Version { version } =
        serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))?;
    if version > u64::from(FORMAT_VERSION) {
        return Err(Error::Future { path: path.to_path_buf(), version, known: FORMAT_VERSION });
    }
    if checksums.is_some_and(|sums| sums.metadata != crc32fast::hash(text.as_bytes())) {
        return Err(corrupt("its checksum does not match".to_owned()));
    }
    serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))
}

/// Returns the position of each of [`COLUMNS`].
pub(crate) fn find_columns(
    path: &Path,
    parquet: &ParquetMetaData,
) -> Result<[usize; COLUMNS.len()]> {
    let mut positions = [0; COLUMNS.len()];
    for (position, name) in positions.iter_mut().zip(COLUMNS) {
        *position = find_column(parquet, name).ok_or_else(|| {
            let detail = format!("there is no column `{name}` of integers");
            Error::Corrupt { path: path.to_path_buf(), place: "schema".to_owned(), detail }
        })?;
    }
    Ok(positions)
}

/// Returns the column with this name, if it has one integer per row.
fn find_column(parquet: &ParquetMetaData, name: &str) -> Option<usize> {
    let columns = parquet.file_metadata().schema_descr().columns();
    columns.iter().position(|column| {
        column.path().parts() == [name]
            && matches!(column.physical_type(), PhysicalType::INT32 | PhysicalType::INT64)
            && column.max_rep_level() == 0
    })
}
