//! Reads and decompresses the inputs on a separate thread, as blocks of whole lines. Binary files
//! are divided anywhere.

use crate::text::{BYTE_ORDER_MARK, without_byte_order_marks};
use crate::{Error, Result, memray, zip};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Bytes read at a time, and the longest line.
const BLOCK_BYTES: usize = 1 << 20;

/// How much an input may grow when it is decompressed. A file of a few kilobytes can hold petabytes
/// of text, and a decoder needs memory for its window.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of text of one compressed input.
    pub unpacked_bytes: u64,
    /// log2 of the largest zstd window, 10 to 31. zstd itself accepts 27 by default.
    pub zstd_window_log: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { unpacked_bytes: 64 << 30, zstd_window_log: 27 }
    }
}

impl Limits {
    /// Bytes of a frames file, which is kept in memory.
    fn frames_bytes(self) -> u64 {
        self.unpacked_bytes / 256
    }
}

/// Fails when the text of a compressed input is longer than its limit.
struct Limited<'a> {
    inner: &'a mut dyn Read,
    limit: u64,
    left: u64,
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer).map_err(explained)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::other(format!(
                "decompressed, it has more than {} bytes; if it may, raise the limit with \
                 --max-unpacked",
                self.limit
            ))
        })?;
        Ok(count)
    }
}

/// Reads compressed data that may end early or be damaged: if that is to be repaired, it then ends
/// where the fault is.
struct Salvaging<'a> {
    decoder: &'a mut dyn Read,
    salvage: &'a Salvage,
    /// Bytes decompressed so far.
    count: u64,
}

impl Read for Salvaging<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.decoder.read(buffer) {
            Ok(count) => {
                self.count += count as u64;
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            // The device failed, or nothing of the data can be read.
            Err(error) if self.salvage.unreadable.load(Ordering::Relaxed) || self.count == 0 => {
                Err(error)
            }
            Err(_) if self.salvage.repair => {
                self.salvage.is_cut.store(true, Ordering::Relaxed);
                Ok(0)
            }
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!(
                    "its compressed data end early or are damaged ({error}); --repair imports \
                     what is before"
                ),
            )),
        }
    }
}

/// What is known about the faults of an input's compressed data.
#[derive(Clone, Default)]
struct Salvage {
    repair: bool,
    /// The compressed data ended early or were damaged.
    is_cut: Arc<AtomicBool>,
    /// The input itself could not be read.
    unreadable: Arc<AtomicBool>,
}

/// Some whole lines of one input; of a binary file, some of its bytes.
pub(crate) struct Block {
    /// Index of the input.
    pub input: usize,
    /// The lines; the bytes after `length` are left from an earlier use.
    bytes: Vec<u8>,
    length: usize,
    /// Bytes of all inputs read so far, before decompression.
    pub consumed: u64,
    /// The input's compressed data end early or are damaged after this block.
    pub is_cut: bool,
}

impl Block {
    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The blocks of several inputs in order.
pub(crate) struct Source {
    blocks: Receiver<Result<Block>>,
    used: SyncSender<Vec<u8>>,
}

impl Source {
    /// Starts to read. `-` is standard input. With `repair`, compressed data that are cut off or
    /// damaged end before the fault.
    pub fn start(inputs: &[PathBuf], limits: Limits, repair: bool) -> Result<Source> {
        let inputs = inputs.to_vec();
        let place = inputs.first().cloned().unwrap_or_default();
        let (sender, blocks) = sync_channel(4);
        let (used, empty) = sync_channel(8);
        std::thread::Builder::new()
            .name("input".to_owned())
            .spawn(move || {
                let output =
                    Output { blocks: sender, empty, consumed: Arc::default(), limits, repair };
                for (index, path) in inputs.iter().enumerate() {
                    match output.read_input(index, path) {
                        Ok(true) => {}
                        Ok(false) => return,
                        Err(error) => {
                            // If the receiver is gone, the import has failed already.
                            drop(output.blocks.send(Err(error)));
                            return;
                        }
                    }
                }
            })
            .map_err(|cause| Error::Read { path: place, cause })?;
        Ok(Source { blocks, used })
    }

    /// The next block; `None` at the end of the last input.
    pub fn next(&self) -> Option<Result<Block>> {
        self.blocks.recv().ok()
    }

    /// Returns a block's memory for reuse.
    pub fn recycle(&self, block: Block) {
        drop(self.used.try_send(block.bytes));
    }
}

/// Reads a small input whole, decompressed: a frames file.
pub(crate) fn read_whole(path: &Path, limits: Limits) -> Result<Vec<u8>> {
    let read_error = |cause| Error::Read { path: path.to_path_buf(), cause };
    let mut bytes = Vec::new();
    let limit = limits.frames_bytes();
    with_text(path, Arc::default(), limits, &Salvage::default(), |text| {
        let mut limited = Limited { inner: text, limit, left: limit };
        limited.read_to_end(&mut bytes).map_err(read_error)
    })?;
    Ok(bytes)
}

struct Output {
    blocks: SyncSender<Result<Block>>,
    empty: Receiver<Vec<u8>>,
    consumed: Arc<AtomicU64>,
    limits: Limits,
    repair: bool,
}

impl Output {
    /// Sends one input's blocks; false if the receiver is gone.
    fn read_input(&self, input: usize, path: &Path) -> Result<bool> {
        let consumed = Arc::clone(&self.consumed);
        let salvage = Salvage { repair: self.repair, ..Salvage::default() };
        with_text(path, consumed, self.limits, &salvage, |text| {
            self.send_blocks(input, path, text, &salvage.is_cut)
        })
    }

    fn send_blocks(
        &self,
        input: usize,
        path: &Path,
        text: &mut dyn Read,
        is_cut: &AtomicBool,
    ) -> Result<bool> {
        let mut rest = Vec::new();
        let (mut is_first, mut is_binary) = (true, false);
        loop {
            // The length stays, so that the bytes are not zeroed again.
            let mut bytes = self.empty.try_recv().unwrap_or_default();
            let start = rest.len();
            bytes.resize(bytes.len().max(start + BLOCK_BYTES), 0);
            bytes[..start].copy_from_slice(&rest);
            let read = fill(text, &mut bytes[start..start + BLOCK_BYTES]);
            let read = read.map_err(|cause| Error::Read { path: path.to_path_buf(), cause })?;
            let at_end = read < BLOCK_BYTES;
            let mut length = start + read;
            is_binary |= is_first && memray::recognises(&bytes[..length]);
            is_first = false;
            let is_cut = is_cut.load(Ordering::Relaxed);
            // The last line of cut data may be the beginning of a longer one.
            if (!at_end || is_cut) && !is_binary {
                let end = memchr::memrchr(b'\n', &bytes[..length]).map_or(0, |newline| newline + 1);
                if end == 0 && !at_end {
                    return Err(Error::Unsupported {
                        path: path.to_path_buf(),
                        found: format!("it has no line break in {length} bytes"),
                        advice: "give a text journal, plain or compressed with zstd",
                    });
                }
                rest.clear();
                rest.extend_from_slice(&bytes[end..length]);
                length = end;
            }
            let consumed = self.consumed.load(Ordering::Relaxed);
            if self.blocks.send(Ok(Block { input, bytes, length, consumed, is_cut })).is_err() {
                return Ok(false);
            }
            if at_end {
                return Ok(true);
            }
        }
    }
}

/// Reads until the buffer is full or the input ends; returns the number of bytes.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Counts the bytes read from an input.
struct Counted<R> {
    inner: R,
    consumed: Arc<AtomicU64>,
    unreadable: Arc<AtomicBool>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer).inspect_err(|_| {
            self.unreadable.store(true, Ordering::Relaxed);
        })?;
        self.consumed.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Opens an input and calls `then` with its decompressed text. The first bytes of the input
/// determine its kind.
fn with_text<T>(
    path: &Path,
    consumed: Arc<AtomicU64>,
    limits: Limits,
    salvage: &Salvage,
    then: impl FnOnce(&mut dyn Read) -> Result<T>,
) -> Result<T> {
    let read_error = |cause| Error::Read { path: path.to_path_buf(), cause };
    let (raw, is_file): (Box<dyn Read>, bool) = if path == Path::new("-") {
        (Box::new(io::stdin()), false)
    } else {
        let file = File::open(path).map_err(read_error)?;
        let metadata = file.metadata().map_err(read_error)?;
        if metadata.is_dir() {
            return Err(read_error(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a directory",
            )));
        }
        (Box::new(file), metadata.is_file())
    };
    let unreadable = || Arc::clone(&salvage.unreadable);
    let mut raw = Counted { inner: raw, consumed: Arc::clone(&consumed), unreadable: unreadable() };
    let mut head = Vec::new();
    raw.by_ref().take(8).read_to_end(&mut head).map_err(read_error)?;
    if let Some((found, advice)) = recognise_other(&head) {
        return Err(Error::Unsupported {
            path: path.to_path_buf(),
            found: found.to_owned(),
            advice,
        });
    }
    let mut whole = io::Cursor::new(head.clone()).chain(raw);
    // A plain text has its own length.
    let limit = if is_packed(&head) { limits.unpacked_bytes } else { u64::MAX };
    let decoded = |decoder: &mut dyn Read| {
        let inner = &mut Salvaging { decoder, salvage, count: 0 };
        let mut text = Limited { inner, limit, left: limit };
        let mut start = Vec::new();
        let length = BYTE_ORDER_MARK.len() as u64;
        text.by_ref().take(length).read_to_end(&mut start).map_err(read_error)?;
        then(&mut without_byte_order_marks(&start).chain(text))
    };
    match head.as_slice() {
        head if head.starts_with(&ZSTD_MAGIC) => {
            let mut decoder = zstd::Decoder::new(whole).map_err(read_error)?;
            decoder.window_log_max(limits.zstd_window_log).map_err(read_error)?;
            decoded(&mut decoder)
        }
        head if head.starts_with(&LZ4_MAGIC) => {
            decoded(&mut lz4_flex::frame::FrameDecoder::new(whole))
        }
        head if head.starts_with(&GZIP_MAGIC) => {
            decoded(&mut flate2::read::MultiGzDecoder::new(whole))
        }
        // The directory of an archive is at its end, so an archive must be seekable.
        head if head.starts_with(zip::MAGIC) && is_file => {
            let file = File::open(path).map_err(read_error)?;
            let archive = Counted { inner: file, consumed, unreadable: unreadable() };
            zip::with_file(BufReader::new(archive), salvage.repair, decoded).map_err(read_error)?
        }
        head if head.starts_with(zip::MAGIC) => {
            let archive = stored(&mut whole).map_err(read_error)?;
            zip::with_file(BufReader::new(archive), salvage.repair, decoded).map_err(read_error)?
        }
        _ => decoded(&mut whole),
    }
}

/// Adds what to do to the error of a zstd window that is too large.
fn explained(error: io::Error) -> io::Error {
    if error.to_string().contains("too much memory") {
        return io::Error::other(
            "its zstd window is too large to be decoded by default; if the decoder may use up to \
             2 GiB for it, give --zstd-window 31",
        );
    }
    error
}

/// A pipe's contents as an unnamed temporary file.
fn stored(pipe: &mut dyn Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(pipe, &mut file)?;
    file.rewind()?;
    Ok(file)
}

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn is_packed(head: &[u8]) -> bool {
    let magics = [&ZSTD_MAGIC[..], &LZ4_MAGIC, &GZIP_MAGIC, zip::MAGIC];
    magics.iter().any(|magic| head.starts_with(magic))
}

fn recognise_other(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const UTF_16: (&str, &str) = (
        "it is UTF-16 text",
        "convert it: iconv -f UTF-16 -t UTF-8 FILE | keel import - -o OUTPUT",
    );
    let kinds: [(&[u8], &str, &str); 5] = [
        (b"PAR1", "it is a Parquet file, perhaps a journal already", "look at it with `keel info`"),
        (
            b"BZh",
            "it is compressed with bzip2",
            "pipe it: bzip2 -dc FILE | keel import - -o OUTPUT",
        ),
        (
            &[0xfd, b'7', b'z', b'X', b'Z'],
            "it is compressed with xz",
            "pipe it: xz -dc FILE | keel import - -o OUTPUT",
        ),
        (&[0xff, 0xfe], UTF_16.0, UTF_16.1),
        (&[0xfe, 0xff], UTF_16.0, UTF_16.1),
    ];
    kinds
        .into_iter()
        .find(|(magic, ..)| head.starts_with(magic))
        .map(|(_, found, advice)| (found, advice))
}
