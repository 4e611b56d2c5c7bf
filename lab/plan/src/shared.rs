//! Memory that two processes share.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Types that may be read from memory which another process wrote.
///
/// # Safety
/// Any bytes must form a valid value, and there must be no padding. Types with interior mutability
/// must be atomics.
pub unsafe trait Plain {}

// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}

/// An error of shared memory.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// The kernel refused memory.
    #[error("cannot get {bytes} bytes of shared memory for {what}: {cause}")]
    Refused {
        /// The purpose of the memory.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The system's error.
        cause: io::Error,
    },
    /// The memory has other contents: two versions of Keel are mixed.
    #[error("the {what} was written by another version of Keel: rebuild all of Keel")]
    Foreign {
        /// Plan or results.
        what: &'static str,
    },
}

/// A mapped memory file. Dropping the value unmaps it; the memory exists until the last process
/// closes its descriptor.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<u8>,
    bytes: usize,
    descriptor: OwnedFd,
}

// SAFETY: a mapping belongs to no thread; shared parts are accessed by atomics or have one owner.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// A zeroed memory file of `bytes` bytes, not yet backed by pages.
    pub fn create(what: &'static str, bytes: usize) -> Result<SharedMemory, SharedError> {
        let refused = |cause| SharedError::Refused { what, bytes, cause };
        // SAFETY: a constant name; the result is checked.
        let descriptor = unsafe { libc::memfd_create(c"keel".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(refused(io::Error::last_os_error()));
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let file = File::from(descriptor);
        file.set_len(bytes as u64).map_err(refused)?;
        Self::map(what, OwnedFd::from(file), bytes, 0)
    }

    /// Maps a memory file that was passed as a descriptor, with all of its pages present for
    /// writing.
    pub fn open(what: &'static str, descriptor: OwnedFd) -> Result<SharedMemory, SharedError> {
        let file = File::from(descriptor);
        let length =
            file.metadata().map_err(|cause| SharedError::Refused { what, bytes: 0, cause })?.len();
        Self::map(what, OwnedFd::from(file), length as usize, libc::MAP_POPULATE)
    }

    fn map(
        what: &'static str,
        descriptor: OwnedFd,
        bytes: usize,
        flags: i32,
    ) -> Result<SharedMemory, SharedError> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | flags;
        // SAFETY: a fresh mapping of a file that we hold; the result is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes.max(1),
                protection,
                flags,
                descriptor.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(SharedMemory { base, bytes, descriptor })
            }
            _ => Err(SharedError::Refused { what, bytes, cause: io::Error::last_os_error() }),
        }
    }

    /// Locks the pages in memory. Returns false if the process may not lock that much.
    pub fn lock(&self) -> bool {
        // SAFETY: our own mapping.
        unsafe { libc::mlock(self.base.as_ptr().cast(), self.bytes) == 0 }
    }

    /// The descriptor, to be passed to a child.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Bytes mapped.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// `count` values at `offset`; None if they are out of range or not aligned.
    pub fn slice<T: Plain>(&self, offset: usize, count: usize) -> Option<&[T]> {
        let pointer = self.part::<T>(offset, count)?;
        // SAFETY: in bounds and aligned (checked by `part`), valid for any bytes by `Plain`.
        Some(unsafe { std::slice::from_raw_parts(pointer, count) })
    }

    /// The same as a pointer. The caller must be the only one that writes to that part.
    pub fn part<T: Plain>(&self, offset: usize, count: usize) -> Option<*mut T> {
        let end = count.checked_mul(size_of::<T>())?.checked_add(offset)?;
        if end > self.bytes {
            return None;
        }
        // SAFETY: `offset <= end <= bytes`, the size of the mapping.
        let pointer = unsafe { self.base.as_ptr().add(offset) };
        (pointer.addr() % align_of::<T>() == 0).then_some(pointer.cast::<T>())
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and every borrow of it has ended.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes.max(1)) };
    }
}
