//! Tests with a disk that becomes full, at every possible byte.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use super::*;
use crate::Reader;
use std::sync::{Arc, Mutex};

/// Stores `capacity` bytes and then reports that the disk is full.
struct FullDisk {
    bytes: Arc<Mutex<Vec<u8>>>,
    capacity: usize,
}

impl io::Write for FullDisk {
    fn write(&mut self, new: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        let count = new.len().min(self.capacity - bytes.len());
        if count == 0 && !new.is_empty() {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "No space left on device"));
        }
        bytes.extend_from_slice(&new[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Store for FullDisk {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().truncate(length as usize);
        Ok(())
    }
}

fn events(count: u64) -> Vec<Event> {
    let event = |index: u64| Event {
        size: index * 2_654_435_761 % 5000,
        created: index + 1,
        ..Event::at(index * 7, Op::Malloc)
    };
    (0..count).map(event).collect()
}

/// Writes 1000 events to a disk of `capacity` bytes. Returns the result of `finish` and the bytes.
fn write_into(capacity: usize) -> (Result<Written>, Vec<u8>) {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let store = Box::new(FullDisk { bytes: Arc::clone(&bytes), capacity });
    let options = Options { rows_per_group: 100, ..Options::default() };
    let mut writer =
        Writer::start("full".into(), Place::new("full".as_ref()), store, options).unwrap();
    writer.open = false;
    let pushed = writer.push_batch(&events(1000));
    assert!(matches!(pushed, Ok(()) | Err(Error::Write { .. })), "{pushed:?}");
    writer.rows = 1000;
    let result = writer.finish(Metadata::default());
    let bytes = bytes.lock().unwrap().clone();
    (result, bytes)
}

#[test]
fn a_full_disk_leaves_a_valid_journal_of_the_rows_that_fit() {
    let (whole, bytes) = write_into(1 << 20);
    assert_eq!(whole.unwrap().rows, 1000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.parquet");
    let (mut cut, mut none) = (0, 0);
    for capacity in (0..bytes.len()).step_by(97) {
        let (result, bytes) = write_into(capacity);
        match result {
            Err(Error::CutShort { rows, lost, .. }) => {
                cut += 1;
                assert_eq!((rows % 100, rows + lost), (0, 1000));
                std::fs::write(&path, &bytes).unwrap();
                let reader = Reader::open(&path).unwrap();
                let read: Vec<Event> = reader.events().map(|event| event.unwrap()).collect();
                assert!(read == events(1000)[..rows as usize], "{capacity} bytes");
            }
            Err(Error::Write { cause, .. }) => {
                none += 1;
                assert!(cause.to_string().contains("No space left"), "{cause}");
            }
            other => panic!("{capacity} bytes: {other:?}"),
        }
    }
    assert!(cut > 10 && none > 1, "{cut} journals cut short, {none} without a row");
}
