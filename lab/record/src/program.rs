//! Finds the program, and checks before its start that it can be recorded.

use crate::Error;
use object::elf;
use object::read::elf::{FileHeader as _, ProgramHeader as _, Sym as _};
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

pub type Elf = elf::FileHeader64<object::Endianness>;

/// The contents of an object file.
pub struct Mapped {
    map: memmap2::Mmap,
    identity: (u64, u64),
}

impl Mapped {
    /// # Errors
    /// [`Error::NotRecordable`] if it cannot be read.
    pub fn open(path: &Path) -> Result<Mapped, Error> {
        let open = || {
            let file = std::fs::File::open(path)?;
            let metadata = file.metadata()?;
            // SAFETY: an object file. If it shrank meanwhile, the system would refuse to run it, or
            // the programs that use it would crash as well.
            let map = unsafe { memmap2::Mmap::map(&file) }?;
            Ok(Mapped { map, identity: (metadata.dev(), metadata.ino()) })
        };
        open().map_err(|error: std::io::Error| not_recordable(path, error.to_string()))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Its device and inode.
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }
}

/// The file that `execvp` would run.
///
/// # Errors
/// [`Error::NotFound`], [`Error::NotExecutable`].
pub fn find(name: &OsStr, search_path: Option<&OsStr>) -> Result<PathBuf, Error> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        check_executable(&path)?;
        return Ok(path);
    }
    let folders = search_path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let mut refused = None;
    for path in std::env::split_paths(folders).map(|folder| folder.join(name)) {
        match check_executable(&path) {
            Ok(()) => return Ok(path),
            Err(Error::NotFound(_)) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| Error::NotFound(name.to_string_lossy().into_owned())))
}

fn check_executable(path: &Path) -> Result<(), Error> {
    let refuse = |reason: &str| {
        Err(Error::NotExecutable { path: path.to_path_buf(), reason: reason.to_owned() })
    };
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return refuse("permission denied");
        }
        Err(_) => return Err(Error::NotFound(path.display().to_string())),
    };
    if metadata.is_dir() {
        return refuse("it is a directory");
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return refuse("it is not executable; `chmod +x` it if it is a program");
    }
    Ok(())
}

/// Refuses a program into which the recorder cannot be loaded. Returns the program's file: for a
/// script, that of the interpreter.
///
/// # Errors [`Error::NotRecordable`] with the reason; [`Error::NotExecutable`] if the file is not a
/// program.
pub fn check_loadable(path: &Path) -> Result<PathBuf, Error> {
    /// The kernel follows this many interpreters.
    const INTERPRETERS_MAX: usize = 4;
    let mut path = path.to_path_buf();
    for _ in 0..INTERPRETERS_MAX {
        check_privileges(&path)?;
        match interpreter(&path)? {
            Some(interpreter) => path = interpreter,
            None => return check_elf(&path).map(|()| path),
        }
    }
    Err(Error::NotExecutable { path, reason: "its #! lines form a cycle".to_owned() })
}

/// The program named by a script's `#!` line.
fn interpreter(path: &Path) -> Result<Option<PathBuf>, Error> {
    let mut head = [0; 256];
    let refuse = |reason: String| Error::NotExecutable { path: path.to_path_buf(), reason };
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(refuse("its #! interpreter does not exist".to_owned()));
        }
        Err(error) => {
            return Err(not_recordable(
                path,
                format!("it cannot be read for this check ({error})"),
            ));
        }
    };
    let length = file.read(&mut head).map_err(|error| refuse(error.to_string()))?;
    let head = &head[..length];
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let word = line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty());
        let word = word.ok_or_else(|| refuse("its #! line names no interpreter".to_owned()))?;
        return Ok(Some(PathBuf::from(OsStr::from_bytes(word))));
    }
    if head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    Err(refuse(
        "it is neither an ELF program nor a script with a #! line; name its interpreter first"
            .to_owned(),
    ))
}

/// A program that gains privileges is started without LD_PRELOAD.
fn check_privileges(path: &Path) -> Result<(), Error> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    // SAFETY: these calls cannot fail.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    let mode = metadata.mode();
    let gains_user = mode & libc::S_ISUID != 0 && metadata.uid() != user;
    let gains_group =
        mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0 && metadata.gid() != group;
    if gains_user || gains_group || (user != 0 && has_capabilities(path)) {
        let reason = "it is setuid, setgid or has file capabilities, and the system loads no \
                      recorder into a program that gains privileges; record it as the user whose \
                      rights it gains, or record a copy of it without these privileges";
        return Err(not_recordable(path, reason.to_owned()));
    }
    Ok(())
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both names are NUL-terminated; with size 0 nothing is written.
    unsafe {
        libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0
    }
}

pub fn not_recordable(path: &Path, reason: String) -> Error {
    Error::NotRecordable { path: path.to_path_buf(), reason }
}

const MACHINE: u16 = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };

/// Refuses an ELF file that cannot load the recorder.
fn check_elf(path: &Path) -> Result<(), Error> {
    let fail = |reason: &str| Err(not_recordable(path, reason.to_owned()));
    let broken = |error: object::Error| broken(path, error);
    let file = Mapped::open(path)?;
    let data = file.bytes();
    if data.get(4) == Some(&elf::ELFCLASS32) {
        return fail(
            "it is a 32-bit program, and the recorder is 64-bit; build or install its 64-bit \
                version",
        );
    }
    let header = Elf::parse(data).map_err(broken)?;
    let endian = header.endian().map_err(broken)?;
    if header.e_machine(endian) != MACHINE {
        return fail("it was built for another type of processor");
    }
    let segments = header.program_headers(endian, data).map_err(broken)?;
    if !segments.iter().any(|segment| segment.p_type(endian) == elf::PT_INTERP) {
        return fail(
            "it is statically linked, so nothing can be loaded into it and its malloc cannot be \
                seen. Link it \
             dynamically to record it, or let it report its allocations itself (keel/recorder.h) \
             and record it with --embedded",
        );
    }
    header.sections(endian, data).map_err(broken)?;
    Ok(())
}

/// The recorder for the program's C library: `library`, which is for that of `keel`, or, for musl,
/// `keel/musl/libkeel_recorder.so` beside it.
///
/// # Errors
/// [`Error::NotRecordable`] if there is none for musl, or the program's file is damaged.
pub fn recorder(library: &Path, program: &Path) -> Result<PathBuf, Error> {
    let file = Mapped::open(program)?;
    let (data, broken) = (file.bytes(), |error: object::Error| broken(program, error));
    let header = Elf::parse(data).map_err(broken)?;
    let endian = header.endian().map_err(broken)?;
    let mut segments = header.program_headers(endian, data).map_err(broken)?.iter();
    let loader = segments.find_map(|segment| segment.interpreter(endian, data).transpose());
    let loader = loader.transpose().map_err(broken)?;
    let is_musl = |loader: &[u8]| loader.windows(8).any(|part| part == b"ld-musl-");
    if cfg!(target_env = "musl") || !loader.is_some_and(is_musl) {
        return Ok(library.to_path_buf());
    }
    let name = library.file_name().unwrap_or_default();
    let found = library.with_file_name("keel/musl").join(name);
    if !found.exists() {
        let reason = format!(
            "it uses musl, and {} is missing: build Keel where musl-gcc is installed (Debian: \
             apt-get install musl-tools, then make build)",
            found.display()
        );
        return Err(not_recordable(program, reason));
    }
    Ok(found)
}

fn broken(path: &Path, error: object::Error) -> Error {
    let reason = format!("its ELF headers are damaged ({error})");
    Error::NotExecutable { path: path.to_path_buf(), reason }
}

/// Refuses a program whose malloc the recorder does not see, unless it changes the program
/// (`contained`). As [`check_loadable`].
pub fn check_recordable(path: &Path) -> Result<(), Error> {
    let path = check_loadable(path)?;
    let file = Mapped::open(&path)?;
    let (data, broken) = (file.bytes(), |error: object::Error| broken(&path, error));
    let header = Elf::parse(data).map_err(broken)?;
    let endian = header.endian().map_err(broken)?;
    let sections = header.sections(endian, data).map_err(broken)?;
    let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM).map_err(broken)?;
    let defines_malloc = symbols.iter().any(|symbol| {
        !symbol.is_undefined(endian)
            && symbol.name(endian, symbols.strings()).is_ok_and(|name| name == b"malloc")
    });
    if !defines_malloc {
        return Ok(());
    }
    let reason = if cfg!(target_arch = "x86_64") {
        "it exports its own malloc, which is found before the recorder's. keel can record it only \
         if it starts it itself (keel record -- PROGRAM)"
    } else {
        "it exports its own malloc, which is found before the recorder's, so nothing could be \
         recorded. Build it without that allocator to record it, or let it report its allocations \
         itself (keel/recorder.h) and record it with --embedded"
    };
    Err(not_recordable(&path, reason.to_owned()))
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
