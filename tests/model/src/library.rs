//! An allocator in a shared library, loaded beside the test's own.

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Why an allocator library could not be used.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// Neither named nor built.
    #[error("no libkeel.so at {0}: run `make build`, or name an allocator library in KEEL_LIBRARY")]
    Missing(PathBuf),
    /// The loader refused the file; holds its words.
    #[error("cannot load {path}: {reason}")]
    Unloadable {
        /// The file.
        path: PathBuf,
        /// What the loader says.
        reason: String,
    },
    /// A function of the malloc family is not in it.
    #[error("{path} has no function `{name}` of its own")]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// The function.
        name: &'static str,
    },
}

/// The malloc family of one library. It stays loaded for the life of the process.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    pub(crate) malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    pub(crate) calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    pub(crate) realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    pub(crate) free: unsafe extern "C" fn(*mut c_void),
    pub(crate) posix_memalign: unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int,
    pub(crate) aligned_alloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    pub(crate) usable_size: unsafe extern "C" fn(*mut c_void) -> usize,
}

impl Library {
    /// Loads the library that `KEEL_LIBRARY` names, else `lib/libkeel.so` under `KEEL_PREFIX`, else
    /// the one in this repository's `build/`.
    pub fn under_test() -> Result<Self, LibraryError> {
        if let Some(named) = std::env::var_os("KEEL_LIBRARY") {
            return Self::load(Path::new(&named));
        }
        let prefix = std::env::var_os("KEEL_PREFIX").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../build")),
            PathBuf::from,
        );
        let path = prefix.join("lib/libkeel.so");
        if path.exists() { Self::load(&path) } else { Err(LibraryError::Missing(path)) }
    }

    /// Loads an allocator from a shared library.
    pub fn load(path: &Path) -> Result<Self, LibraryError> {
        let unloadable =
            |reason: String| LibraryError::Unloadable { path: path.to_owned(), reason };
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|error| unloadable(error.to_string()))?;
        // SAFETY: the name is a C string; loading runs the library's constructors, which is what is
        // wanted.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: after a failed dlopen, dlerror returns a C string that lives until the next
            // call.
            let reason = unsafe { CStr::from_ptr(libc::dlerror()) };
            return Err(unloadable(reason.to_string_lossy().into_owned()));
        }
        let find = |name: &'static CStr| find(handle, path, name);
        // SAFETY: these are the C functions of these names, whose types the C standard and POSIX
        // fix.
        unsafe {
            Ok(Self {
                malloc: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(usize) -> *mut c_void,
                >(find(c"malloc")?),
                calloc: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(usize, usize) -> *mut c_void,
                >(find(c"calloc")?),
                realloc: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
                >(find(c"realloc")?),
                free: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(find(
                    c"free",
                )?),
                posix_memalign: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int,
                >(find(c"posix_memalign")?),
                aligned_alloc: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(usize, usize) -> *mut c_void,
                >(find(c"aligned_alloc")?),
                usable_size: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut c_void) -> usize,
                >(find(c"malloc_usable_size")?),
            })
        }
    }
}

/// The function of this name in the library itself: dlsym would also find it in what the library
/// depends on, libc above all, and then the test would be of the wrong allocator.
fn find(
    handle: *mut c_void,
    path: &Path,
    name: &'static CStr,
) -> Result<*mut c_void, LibraryError> {
    let missing = || LibraryError::Incomplete {
        path: path.to_owned(),
        name: name.to_str().unwrap_or("a function"),
    };
    // SAFETY: the handle is of a library that is never closed, the name a C string.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr takes any address and fills the record when it knows it.
    if address.is_null() || unsafe { libc::dladdr(address, info.as_mut_ptr()) } == 0 {
        return Err(missing());
    }
    // SAFETY: dladdr succeeded, so the record is filled and its file name is a C string.
    let file = unsafe { CStr::from_ptr(info.assume_init().dli_fname) };
    let is_there = |path: &Path| path.canonicalize().ok();
    let found = is_there(Path::new(std::ffi::OsStr::from_bytes(file.to_bytes())));
    // A bare name (`libc.so.6`) is looked up by the loader: compare the last part only.
    let same = if path.components().count() > 1 {
        found.is_some() && found == is_there(path)
    } else {
        found.as_deref().and_then(Path::file_name) == path.file_name()
    };
    if same { Ok(address) } else { Err(missing()) }
}
