//! Loads the allocator under test and finds its functions.
//!
//! | target | meaning |
//! | --- | --- |
//! | `null` | the floor, [`crate::null`] |
//! | `system` | malloc and its family as the process resolves them: the C library's |
//! | `preload:FILE` | the same, after checking that FILE, which is in LD_PRELOAD, provides them |
//! | `peer:FILE` | a shared library that exports a [`Table`] |
//! | `keel:FILE` | a libkeel, through its `kl_` functions |
//! | `prefix:NAME_:FILE` | any library with functions `NAME_malloc` and so on |

use crate::{free_hints, preload_version};
use keel_allocators::table::{ABI, SYMBOL, Table, put_text};
use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The functions of the target `name`, or a sentence that says why they are not available.
pub fn load(name: &OsStr) -> Result<&'static Table, String> {
    let bytes = name.as_bytes();
    let after =
        |prefix: &str| bytes.strip_prefix(prefix.as_bytes()).map(OsStr::from_bytes).map(Path::new);
    if bytes == b"null" {
        Ok(&crate::null::TABLE)
    } else if bytes == b"system" {
        Ok(system(system_version))
    } else if let Some(file) = after("preload:") {
        preloaded(file)
    } else if let Some(file) = after("peer:") {
        peer(file)
    } else if let Some(file) = after("keel:") {
        keel(file)
    } else if let Some((prefix, file)) = bytes.strip_prefix(b"prefix:").and_then(split_at_colon) {
        prefixed(OsStr::from_bytes(prefix), Path::new(OsStr::from_bytes(file)))
    } else {
        Err(format!("there is no target `{}`", name.to_string_lossy()))
    }
}

/// Its version, as far as it reports one.
pub fn version(table: &Table) -> String {
    let mut buffer = [0 as c_char; 256];
    // SAFETY: the buffer's own size; `version` ends the text with a NUL.
    unsafe {
        (table.version)(buffer.as_mut_ptr(), buffer.len());
        CStr::from_ptr(buffer.as_ptr()).to_string_lossy().into_owned()
    }
}

/// The C library's functions, or those of a preloaded library, with the functions of the same
/// object that take free hints.
fn system(version: unsafe extern "C" fn(*mut c_char, usize)) -> &'static Table {
    let mut table = SYSTEM;
    table.version = version;
    free_hints::find(&mut table, &|name| beside_malloc(&CString::new(name).ok()?));
    Box::leak(Box::new(table))
}

/// A function of the object that provides malloc: another object's must not free its blocks.
fn beside_malloc(name: &CStr) -> Option<*mut c_void> {
    let object = object_of(SYSTEM.malloc as *const c_void).map(|info| info.dli_fbase);
    let function = symbol(libc::RTLD_DEFAULT, name)?;
    (object.is_some() && object_of(function).map(|info| info.dli_fbase) == object)
        .then_some(function)
}

/// The loaded object that contains an address.
fn object_of(address: *const c_void) -> Option<libc::Dl_info> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: queries an address; `info` is ours.
    (unsafe { libc::dladdr(address, &raw mut info) } != 0).then_some(info)
}

const SYSTEM: Table = Table {
    abi: ABI,
    has_hints: 0,
    version: system_version,
    malloc: libc::malloc,
    free: libc::free,
    calloc: libc::calloc,
    realloc: libc::realloc,
    aligned: libc::memalign,
    usable_size: Some(libc::malloc_usable_size),
    ..BLANK
};

/// The default of tables that are filled here.
const BLANK: Table = Table {
    abi: ABI,
    has_hints: 0,
    version: unknown_version,
    malloc: libc::malloc,
    free: libc::free,
    calloc: libc::calloc,
    realloc: libc::realloc,
    aligned: libc::memalign,
    usable_size: None,
    init: None,
    thread_init: None,
    thread_exit: None,
    teardown: None,
    free_sized: None,
    free_aligned: None,
    free_aligned_sized: None,
    hint_names: None,
};

unsafe extern "C" fn system_version(buffer: *mut c_char, bytes: usize) {
    // Only glibc has this function; other C libraries do not report a version.
    // SAFETY: a name that ends in NUL.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"gnu_get_libc_version".as_ptr()) };
    let text = if function.is_null() {
        "C library of unknown version".to_owned()
    } else {
        // SAFETY: glibc's function of this type, which returns a constant string.
        let version = unsafe {
            let function: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(function);
            CStr::from_ptr(function())
        };
        format!("glibc {}", version.to_string_lossy())
    };
    // SAFETY: the caller's buffer.
    unsafe { put_text(&text, buffer, bytes) }
}

unsafe extern "C" fn library_version(buffer: *mut c_char, bytes: usize) {
    // SAFETY: the caller's buffer.
    unsafe { put_text(&preload_version::of(&beside_malloc), buffer, bytes) }
}

fn preloaded(file: &Path) -> Result<&'static Table, String> {
    let name =
        object_of(SYSTEM.malloc as *const c_void).map_or(std::ptr::null(), |info| info.dli_fname);
    let provider = if name.is_null() {
        Path::new("")
    } else {
        // SAFETY: the dynamic linker's own string, valid as long as the library is loaded.
        Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()))
    };
    let same = |one: &Path, other: &Path| match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    if same(provider, file) {
        return Ok(system(library_version));
    }
    Err(format!(
        "{} provides no malloc to the process (that comes from {}): it is not an allocator for \
         LD_PRELOAD",
        file.display(),
        provider.display()
    ))
}

fn peer(file: &Path) -> Result<&'static Table, String> {
    let library = open(file)?;
    let table = symbol(library, SYMBOL).ok_or_else(|| {
        format!("{} exports no table `{}`", file.display(), SYMBOL.to_string_lossy())
    })?;
    // SAFETY: the symbol is by definition a Table, whose first field is its version; it is static
    // data of a library that is never closed.
    let (abi, has_hints) = unsafe {
        let table = table.cast::<Table>();
        ((*table).abi, (*table).has_hints)
    };
    if abi != ABI {
        return Err(format!(
            "{} was built for another version of Keel: rebuild it",
            file.display()
        ));
    }
    if has_hints == 1 {
        // SAFETY: as above; it has all fields.
        return Ok(unsafe { &*table.cast::<Table>() });
    }
    let mut older = BLANK;
    let length = std::mem::offset_of!(Table, free_sized);
    // SAFETY: an older table has the same layout up to this field.
    unsafe {
        std::ptr::copy_nonoverlapping(table.cast::<u8>(), (&raw mut older).cast::<u8>(), length)
    }
    Ok(Box::leak(Box::new(older)))
}

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Pair = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Usable = unsafe extern "C" fn(*mut c_void) -> usize;

fn keel(file: &Path) -> Result<&'static Table, String> {
    let library = open(file)?;
    let find = |names: &[&str]| match names {
        // Keel's function takes any size.
        ALIGNED => named(library, file, "kl_", &["aligned_alloc"]),
        names => named(library, file, "kl_", names),
    };
    table(find, keel_version, symbol(library, c"kl_usable_size"), &|name| {
        prefixed_symbol(library, "kl_", name)
    })
}

fn split_at_colon(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == b':')?;
    Some((&text[..at], &text[at + 1..]))
}

fn prefixed(prefix: &OsStr, file: &Path) -> Result<&'static Table, String> {
    let prefix = prefix.to_str().ok_or("a prefix that is not text")?;
    let library = open(file)?;
    let find = |names: &[&str]| named(library, file, prefix, names);
    let usable = ["malloc_usable_size", "usable_size", "malloc_size"];
    let usable = usable.iter().find_map(|name| find(&[name]).ok());
    table(find, unknown_version, usable, &|name| prefixed_symbol(library, prefix, name))
}

fn prefixed_symbol(library: *mut c_void, prefix: &str, name: &str) -> Option<*mut c_void> {
    symbol(library, &CString::new(format!("{prefix}{name}")).ok()?)
}

/// The first function of these names that the library has.
fn named(
    library: *mut c_void,
    file: &Path,
    prefix: &str,
    names: &[&str],
) -> Result<*mut c_void, String> {
    let found = names.iter().find_map(|name| prefixed_symbol(library, prefix, name));
    found.ok_or_else(|| {
        format!(
            "{} has no function `{prefix}{}`",
            file.display(),
            names.join(&format!("` or `{prefix}"))
        )
    })
}

/// Functions that take the alignment first. `aligned_alloc` is last: some implementations refuse
/// sizes that are not a multiple of the alignment.
const ALIGNED: &[&str] = &["memalign", "aligned_alloc"];

fn table(
    find: impl Fn(&[&str]) -> Result<*mut c_void, String>,
    version: unsafe extern "C" fn(*mut c_char, usize),
    usable: Option<*mut c_void>,
    find_hinted: &dyn Fn(&str) -> Option<*mut c_void>,
) -> Result<&'static Table, String> {
    // SAFETY: functions of these names have these types: C's, with or without a prefix.
    let mut table = unsafe {
        Table {
            version,
            malloc: std::mem::transmute::<*mut c_void, Malloc>(find(&["malloc"])?),
            free: std::mem::transmute::<*mut c_void, Free>(find(&["free"])?),
            calloc: std::mem::transmute::<*mut c_void, Pair>(find(&["calloc"])?),
            realloc: std::mem::transmute::<*mut c_void, Realloc>(find(&["realloc"])?),
            aligned: std::mem::transmute::<*mut c_void, Pair>(find(ALIGNED)?),
            usable_size: usable
                .map(|function| std::mem::transmute::<*mut c_void, Usable>(function)),
            ..BLANK
        }
    };
    free_hints::find(&mut table, find_hinted);
    Ok(Box::leak(Box::new(table)))
}

unsafe extern "C" fn unknown_version(buffer: *mut c_char, bytes: usize) {
    // SAFETY: the caller's buffer.
    unsafe { put_text("unknown version, called by name", buffer, bytes) }
}

unsafe extern "C" fn keel_version(buffer: *mut c_char, bytes: usize) {
    let library = KEEL.load(std::sync::atomic::Ordering::Relaxed);
    let text = match symbol(library, c"kl_version") {
        None => "unknown version".to_owned(),
        Some(function) => {
            // SAFETY: libkeel's function of this type: major * 10000 + minor * 100 + patch.
            let number = unsafe {
                let function: unsafe extern "C" fn() -> std::ffi::c_int =
                    std::mem::transmute(function);
                function()
            };
            format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
        }
    };
    // SAFETY: the caller's buffer.
    unsafe { put_text(&text, buffer, bytes) }
}

/// The library that [`keel`] opened, for its version.
static KEEL: std::sync::atomic::AtomicPtr<c_void> =
    std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());

fn open(file: &Path) -> Result<*mut c_void, String> {
    let name = CString::new(file.as_os_str().as_bytes())
        .map_err(|_| "a file name with a NUL".to_owned())?;
    // SAFETY: loads a library and runs its constructors. RTLD_LOCAL separates two versions of one
    // allocator; RTLD_NOW avoids symbol lookups inside a timed call.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: after a failure dlerror returns a string.
        let reason = unsafe {
            let text = libc::dlerror();
            if text.is_null() {
                "unknown".into()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        return Err(format!("it cannot be loaded: {reason}"));
    }
    KEEL.store(library, std::sync::atomic::Ordering::Relaxed);
    if let Some(function) = symbol(library, c"kl_system_call") {
        crate::kernel_calls::watch_keel(function);
    }
    Ok(library)
}

fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: an open library and a name that ends in NUL.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}
