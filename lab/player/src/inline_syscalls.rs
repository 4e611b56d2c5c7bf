//! Searches an allocator for system call instructions of its own. These bypass the C library's
//! functions, so that [`crate::kernel_calls`] does not detect them; a note informs the reader of
//! the causes.
//!
//! The code of the library that contains the allocator's `malloc` is searched for the instruction.
//! On x86-64 its two bytes also occur inside other instructions, by chance once in 64 KiB. They are
//! counted only if the call's number is loaded shortly before, or if the result is compared with
//! the lowest error shortly after.

use std::ffi::{c_int, c_void};

/// The number of system call instructions in the library that contains `function`; 0 for the C
/// library.
pub fn count(function: *const c_void) -> u64 {
    // SAFETY: a function of the C library, used as an address.
    let within_c_library =
        library_of(libc::getpid as *const c_void).is_some_and(|own| own.contains(function));
    if within_c_library {
        return 0;
    }
    library_of(function).map_or(0, |library| library.code().map(|code| count_in(code) as u64).sum())
}

/// The address ranges of a loaded library's code.
struct Library {
    ranges: [(usize, usize); MOST],
    count: usize,
}

/// The most executable segments that are searched; libraries have one or two.
const MOST: usize = 8;

impl Library {
    fn contains(&self, function: *const c_void) -> bool {
        self.ranges[..self.count].iter().any(|&(from, to)| (from..to).contains(&function.addr()))
    }

    fn code(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges[..self.count].iter().map(|&(from, to)| {
            // SAFETY: a readable and executable segment of a library that is loaded and stays so.
            unsafe {
                std::slice::from_raw_parts(std::ptr::with_exposed_provenance(from), to - from)
            }
        })
    }
}

struct Search {
    function: *const c_void,
    found: Option<Library>,
}

fn library_of(function: *const c_void) -> Option<Library> {
    let mut search = Search { function, found: None };
    // SAFETY: the callback gets what is passed here, before this returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker's own description of a loaded object, and what `library_of`
    // passed.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: as many headers as it says.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let mut library = Library { ranges: [(0, 0); MOST], count: 0 };
    let wanted = libc::PF_R | libc::PF_X;
    for header in
        headers.iter().filter(|one| one.p_type == libc::PT_LOAD && one.p_flags & wanted == wanted)
    {
        if library.count < MOST {
            let from = (info.dlpi_addr + header.p_vaddr) as usize;
            library.ranges[library.count] = (from, from + header.p_memsz as usize);
            library.count += 1;
        }
    }
    if !library.contains(search.function) {
        return 0;
    }
    search.found = Some(library);
    1
}

#[cfg(target_arch = "x86_64")]
fn count_in(code: &[u8]) -> usize {
    const BEFORE: usize = 40;
    const AFTER: usize = 12;
    let is_call = |&at: &usize| {
        let (before, after) =
            (&code[at.saturating_sub(BEFORE)..at], &code[at + 2..code.len().min(at + 2 + AFTER)]);
        // mov $number, %eax
        let numbered =
            before.windows(5).any(|five| five[0] == 0xb8 && five[2] < 3 && five[3..] == [0, 0]);
        // cmp $-4096 or $-4095, %rax
        let checked = after
            .windows(6)
            .any(|six| six[..2] == [0x48, 0x3d] && six[2] < 2 && six[3..] == [0xf0, 0xff, 0xff]);
        numbered || checked
    };
    let found = code.windows(2).enumerate().filter(|(_, two)| *two == [0x0f, 0x05]);
    found.map(|(at, _)| at).filter(is_call).count()
}

#[cfg(target_arch = "aarch64")]
fn count_in(code: &[u8]) -> usize {
    // svc #0
    code.chunks_exact(4).filter(|four| *four == [0x01, 0x00, 0x00, 0xd4]).count()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn count_in(_: &[u8]) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_not_counted_although_it_has_many() {
        assert_eq!(count(libc::malloc as *const c_void), 0);
        let library = library_of(libc::getpid as *const c_void);
        let found: usize = library.iter().flat_map(Library::code).map(count_in).sum();
        assert!(found > 100, "{found}");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_two_bytes_alone_are_not_a_system_call() {
        // mov $9, %eax; syscall -- and the same two bytes inside a displacement.
        assert_eq!(count_in(&[0xb8, 9, 0, 0, 0, 0x0f, 0x05, 0xc3]), 1);
        assert_eq!(count_in(&[0x48, 0x8b, 0x83, 0x0f, 0x05, 0x20, 0x07, 0xc3]), 0);
        // syscall; cmp $-4095, %rax
        assert_eq!(count_in(&[0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff]), 1);
    }
}
