//! The place of a journal that is being written. If its folder disappears or its disk becomes full,
//! the file moves to another folder, with everything that was written so far.

use crate::encoder::Store;
use crate::read_at::read_exact_at;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a journal is. Clones are the same place.
#[derive(Clone, Debug, Default)]
pub struct Place(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    path: PathBuf,
    refuges: Vec<PathBuf>,
    /// The open file, to copy it if its name is gone.
    file: Option<File>,
}

/// `<path>.partial`, the file until the journal is complete.
pub(crate) fn partial_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

impl Place {
    pub(crate) fn new(path: &Path) -> Place {
        Place(Arc::new(Mutex::new(Inner { path: path.to_path_buf(), ..Inner::default() })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of the complete journal.
    pub fn path(&self) -> PathBuf {
        self.inner().path.clone()
    }

    pub(crate) fn set_refuges(&self, refuges: &[PathBuf]) {
        self.inner().refuges = refuges.to_vec();
    }

    /// Gives the complete file its name.
    pub(crate) fn finish(&self) -> io::Result<()> {
        let mut inner = self.inner();
        let length =
            inner.file.as_ref().map_or(Ok(0), |file| file.metadata().map(|of| of.len()))?;
        let renamed = std::fs::rename(partial_path(&inner.path), &inner.path);
        if renamed.is_ok() || inner.refuges.is_empty() {
            return renamed;
        }
        // Somebody has removed the folder or the file, so the folder is made again.
        let own = inner.path.parent().map(Path::to_path_buf).unwrap_or_default();
        drop(std::fs::create_dir_all(&own));
        let folders: Vec<PathBuf> = std::iter::once(own).chain(inner.refuges.clone()).collect();
        if inner.move_to(&folders, length).is_err() {
            return renamed;
        }
        std::fs::rename(partial_path(&inner.path), &inner.path)
    }

    pub(crate) fn remove(&self) {
        let inner = self.inner();
        if !inner.path.as_os_str().is_empty() {
            drop(std::fs::remove_file(partial_path(&inner.path)));
        }
    }
}

impl Inner {
    /// Copies the first `length` bytes to a new file in the first of the folders that can take it.
    fn move_to(&mut self, folders: &[PathBuf], length: u64) -> io::Result<()> {
        let name = self.path.file_name().unwrap_or_default().to_owned();
        let Some(old) = self.file.take() else { return Err(io::ErrorKind::NotFound.into()) };
        let mut failure = io::ErrorKind::NotFound.into();
        for folder in folders {
            let path = folder.join(&name);
            let partial = partial_path(&path);
            if path.exists() && path != self.path {
                continue;
            }
            match create(&partial).and_then(|new| copy(&old, &new, length).map(|()| new)) {
                Ok(new) => {
                    if path != self.path {
                        drop(std::fs::remove_file(partial_path(&self.path)));
                    }
                    self.path = path;
                    self.file = Some(new);
                    return Ok(());
                }
                Err(error) => {
                    if error.kind() != io::ErrorKind::AlreadyExists {
                        drop(std::fs::remove_file(&partial));
                    }
                    failure = error;
                }
            }
        }
        self.file = Some(old);
        Err(failure)
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

fn copy(from: &File, mut to: &File, length: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < length {
        let part = buffer.len().min((length - at) as usize);
        read_exact_at(from, &mut buffer[..part], at)?;
        to.write_all(&buffer[..part])?;
        at += part as u64;
    }
    Ok(())
}

/// The file at a [`Place`].
pub(crate) struct PlacedFile {
    place: Place,
    /// Bytes written.
    length: u64,
}

impl PlacedFile {
    pub fn create(place: &Place) -> io::Result<PlacedFile> {
        let mut inner = place.inner();
        inner.file = Some(create(&partial_path(&inner.path))?);
        drop(inner);
        Ok(PlacedFile { place: place.clone(), length: 0 })
    }
}

impl Write for PlacedFile {
    /// Writes all bytes or none.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.place.inner();
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let written = inner.file.as_ref().ok_or_else(gone)?.write_all(bytes);
        if let Err(error) = written {
            let refuges = inner.refuges.clone();
            inner.move_to(&refuges, self.length).map_err(|_| error)?;
            inner.file.as_ref().ok_or_else(gone)?.write_all(bytes)?;
        }
        self.length += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Store for PlacedFile {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        let inner = self.place.inner();
        let Some(mut file) = inner.file.as_ref() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        file.set_len(length)?;
        file.seek(SeekFrom::Start(length))?;
        drop(inner);
        self.length = length;
        Ok(())
    }
}
