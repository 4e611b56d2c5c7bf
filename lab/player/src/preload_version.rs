//! The version of a preloaded library, as far as it has one of the functions by which allocators
//! report theirs.

use std::ffi::{CStr, c_char, c_int, c_void};

/// A function of the library by its name, if it has one.
pub type Find<'a> = &'a dyn Fn(&CStr) -> Option<*mut c_void>;

/// The version; empty if the library has none of these functions.
pub fn of(find: Find) -> String {
    let found = keel(find).or_else(|| mimalloc(find)).or_else(|| jemalloc(find));
    found.or_else(|| gperftools(find)).unwrap_or_default()
}

fn number(find: Find, name: &CStr) -> Option<c_int> {
    let function = find(name)?;
    // SAFETY: a function of this type, of Keel or of mimalloc.
    Some(unsafe {
        let function: unsafe extern "C" fn() -> c_int = std::mem::transmute(function);
        function()
    })
}

fn keel(find: Find) -> Option<String> {
    let number = number(find, c"kl_version")?;
    Some(format!("keel {}.{}.{}", number / 10_000, number / 100 % 100, number % 100))
}

/// 20401 is 2.4.1; older versions have one digit for each part: 212 is 2.1.2.
fn mimalloc(find: Find) -> Option<String> {
    let number = number(find, c"mi_version")?;
    let base = if number < 10_000 { 10 } else { 100 };
    let major = number / (base * base);
    Some(format!("mimalloc {major}.{}.{}", number / base % base, number % base))
}

type Mallctl =
    unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

fn jemalloc(find: Find) -> Option<String> {
    let function = find(c"mallctl")?;
    let mut text: *const c_char = std::ptr::null();
    let mut bytes = size_of::<*const c_char>();
    // SAFETY: jemalloc's function of this type; `version` is a constant string, whose address it
    // writes to `text`.
    let text = unsafe {
        let function: Mallctl = std::mem::transmute(function);
        let place = (&raw mut text).cast::<c_void>();
        let error = function(c"version".as_ptr(), place, &raw mut bytes, std::ptr::null_mut(), 0);
        if error != 0 || text.is_null() {
            return None;
        }
        CStr::from_ptr(text)
    };
    let text = text.to_string_lossy().into_owned();
    // 5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c
    Some(format!("jemalloc {}", text.split("-g").next().unwrap_or_default()))
}

fn gperftools(find: Find) -> Option<String> {
    let function = find(c"tc_version")?;
    type Version =
        unsafe extern "C" fn(*mut c_int, *mut c_int, *mut *const c_char) -> *const c_char;
    // SAFETY: gperftools' function of this type, which takes NULL for what is not wanted, and
    // returns a constant string.
    let text = unsafe {
        let function: Version = std::mem::transmute(function);
        let none = std::ptr::null_mut::<c_int>();
        CStr::from_ptr(function(none, none, std::ptr::null_mut()))
    };
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_mimalloc_are_decoded() {
        extern "C" fn old() -> c_int {
            212
        }
        extern "C" fn new() -> c_int {
            30403
        }
        let version = |function: extern "C" fn() -> c_int| {
            of(&|name| (name == c"mi_version").then_some(function as *mut c_void))
        };
        assert_eq!(version(old), "mimalloc 2.1.2");
        assert_eq!(version(new), "mimalloc 3.4.3");
    }

    #[test]
    fn a_library_without_such_a_function_has_no_version() {
        assert_eq!(of(&|_| None), "");
    }
}
