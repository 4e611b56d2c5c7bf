//! Detects the system calls of the allocator where they are made, at a nanosecond or two each.
//!
//! Allocators reach the kernel through the C library's small functions: `mmap`, `munmap`, `madvise`
//! ... At its start the player overwrites the first bytes of each of these, in its own copy of the
//! library, with a jump to a function here. It records the kind in a word of the calling thread and
//! makes the same system call. The C library's own malloc calls the same code, and so do libraries
//! that are loaded or preloaded; symbol resolution does not matter. No privilege is needed, no
//! signal is sent, and calls without system calls cost nothing.
//!
//! ```text
//! any malloc ──▶ C library's mmap: jmp ──▶ mmap here: record · syscall · errno ──▶ back to malloc
//! ```
//!
//! Keel makes its system calls itself, in one exported function (`kl_system_call`); [`watch_keel`]
//! redirects that one in the same way.
//!
//! Not detected: a `syscall` instruction elsewhere inside the allocator ([`crate::inline_syscalls`]
//! searches for these), and the slow paths of `pthread_mutex_lock` and of condition variables
//! (context switches reveal a thread that sleeps there). If the jumps cannot be written (another
//! machine or C library, a system that forbids it), [`install`] returns false and system calls are
//! reported as unknown.

use std::cell::Cell;
use std::ffi::c_void;

/// Kinds of system calls; kind `k` is bit `1 << k` of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Call {
    /// `mmap`.
    Map = 0,
    /// `munmap`.
    Unmap = 1,
    /// `mremap`.
    Remap = 2,
    /// `madvise`.
    Advise = 3,
    /// `mprotect`.
    Protect = 4,
    /// `brk`.
    Break = 5,
    /// `futex`.
    Futex = 6,
    /// `sched_yield`.
    Yield = 7,
    /// `clock_nanosleep`.
    Sleep = 8,
    /// Any other.
    Other = 9,
}

thread_local! {
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

/// The kinds recorded on this thread since [`forget`].
#[inline(always)]
pub fn seen() -> u32 {
    SEEN.get()
}

/// Clears the record of this thread.
#[inline(always)]
pub fn forget() {
    SEEN.set(0);
}

/// Writes the jumps. To be called once, while there is one thread. Returns whether system calls are
/// recorded from now on.
pub fn install() -> bool {
    patch::install()
}

/// Records the system calls of Keel, too: `function` is the one in which it makes all of them. To
/// be called before a thread uses Keel. Has no effect before [`install`]. Returns whether they are
/// recorded from now on.
pub fn watch_keel(function: *mut c_void) -> bool {
    patch::watch_keel(function)
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
mod patch {
    pub fn install() -> bool {
        false
    }
    pub fn watch_keel(_: *mut std::ffi::c_void) -> bool {
        false
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
mod patch {
    use super::{Call, SEEN};
    use std::ffi::{CStr, c_int, c_long, c_void};
    use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

    /// Bytes of `jmp *0(%rip)` and the address behind it.
    const JUMP: usize = 14;
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    const PAGE: usize = 4096;

    /// The address of the C library's `__curbrk`, which its `sbrk` reads; 0 before [`install`].
    static CURRENT_BREAK: AtomicUsize = AtomicUsize::new(0);

    fn record(call: Call) {
        SEEN.set(SEEN.get() | 1 << call as u32);
    }

    /// Makes the system call and returns the kernel's result.
    unsafe fn raw(
        number: c_long,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
    ) -> isize {
        let result: isize;
        // SAFETY: the caller guarantees number and arguments; the kernel keeps all registers but
        // these.
        unsafe {
            std::arch::asm!(
                "syscall",
                inlateout("rax") number as isize => result,
                in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
                lateout("rcx") _, lateout("r11") _,
                options(nostack)
            );
        }
        result
    }

    /// Converts to the result of a C function: -1, with the error in errno.
    fn returned(result: isize) -> isize {
        if (-4095..0).contains(&result) {
            // SAFETY: the calling thread's errno.
            unsafe { *libc::__errno_location() = -result as c_int };
            return -1;
        }
        result
    }

    macro_rules! recorded {
        ($name:ident, $call:expr, $number:expr, $($argument:ident),*) => {
            unsafe extern "C" fn $name($($argument: usize),*) -> isize {
                record($call);
                let [a, b, c, d, e, f] = padded(&[$($argument),*]);
                // SAFETY: the arguments of the C library's function of this name.
                returned(unsafe { raw($number, a, b, c, d, e, f) })
            }
        };
    }

    #[inline(always)]
    fn padded<const COUNT: usize>(arguments: &[usize; COUNT]) -> [usize; 6] {
        let mut all = [0; 6];
        all[..COUNT].copy_from_slice(arguments);
        all
    }

    recorded!(mmap, Call::Map, libc::SYS_mmap, a, b, c, d, e, f);
    recorded!(munmap, Call::Unmap, libc::SYS_munmap, a, b);
    recorded!(mremap, Call::Remap, libc::SYS_mremap, a, b, c, d, e);
    recorded!(madvise, Call::Advise, libc::SYS_madvise, a, b, c);
    recorded!(mprotect, Call::Protect, libc::SYS_mprotect, a, b, c);
    recorded!(prctl, Call::Other, libc::SYS_prctl, a, b, c, d, e);
    recorded!(sched_yield, Call::Yield, libc::SYS_sched_yield,);

    fn kind_of(number: c_long) -> Call {
        match number {
            libc::SYS_futex => Call::Futex,
            libc::SYS_madvise => Call::Advise,
            libc::SYS_mmap => Call::Map,
            libc::SYS_mprotect => Call::Protect,
            libc::SYS_mremap => Call::Remap,
            libc::SYS_munmap => Call::Unmap,
            libc::SYS_sched_yield => Call::Yield,
            _ => Call::Other,
        }
    }

    /// Keel's function for system calls. Returns the kernel's result and sets no errno.
    unsafe extern "C" fn keel_call(
        number: c_long,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
    ) -> isize {
        record(kind_of(number));
        // SAFETY: passed on.
        unsafe { raw(number, a, b, c, d, e, f) }
    }

    /// The C library's function: the same call, with the error in errno.
    unsafe extern "C" fn syscall(
        number: c_long,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
    ) -> isize {
        // SAFETY: passed on.
        returned(unsafe { keel_call(number, a, b, c, d, e, f) })
    }

    pub fn watch_keel(function: *mut c_void) -> bool {
        if CURRENT_BREAK.load(Ordering::Relaxed) == 0 {
            return false;
        }
        // SAFETY: Keel's function, with room for the jump, and one here of the same kind.
        room(function).is_some_and(|place| unsafe { redirect(place, keel_call as *const c_void) })
    }

    unsafe extern "C" fn brk(end: usize) -> c_int {
        record(Call::Break);
        // SAFETY: requests a new end of the heap; the kernel returns the actual end.
        let now = unsafe { raw(libc::SYS_brk, end, 0, 0, 0, 0, 0) } as usize;
        let current = CURRENT_BREAK.load(Ordering::Relaxed) as *mut usize;
        // SAFETY: the C library's own variable; its users hold a lock around `brk`.
        unsafe { current.write(now) };
        if now < end {
            // SAFETY: the calling thread's errno.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            return -1;
        }
        0
    }

    /// Returns the error number and does not change errno.
    unsafe extern "C" fn clock_nanosleep(
        clock: usize,
        flags: usize,
        time: usize,
        rest: usize,
    ) -> c_int {
        record(Call::Sleep);
        // SAFETY: passed on.
        -unsafe { raw(libc::SYS_clock_nanosleep, clock, flags, time, rest, 0, 0) } as c_int
    }

    const FUTEX_WAIT: usize = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    const FUTEX_WAKE: usize = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;

    /// The C library's internal lock (its malloc's arenas have one each): 0 free, 1 held, 2 held
    /// and waited for.
    unsafe extern "C" fn lock_wait(word: *const AtomicI32) {
        // SAFETY: the caller's lock.
        let lock = unsafe { &*word };
        if lock.load(Ordering::Relaxed) == 2 {
            wait(lock);
        }
        while lock.swap(2, Ordering::Acquire) != 0 {
            wait(lock);
        }
    }

    fn wait(lock: &AtomicI32) {
        record(Call::Futex);
        // SAFETY: waits while the word holds 2.
        unsafe { raw(libc::SYS_futex, lock.as_ptr().addr(), FUTEX_WAIT, 2, 0, 0, 0) };
    }

    unsafe extern "C" fn lock_wake(word: usize) {
        record(Call::Futex);
        // SAFETY: wakes one waiter, as the C library's function of this name.
        unsafe { raw(libc::SYS_futex, word, FUTEX_WAKE, 1, 0, 0, 0) };
    }

    pub fn install() -> bool {
        // SAFETY: the C library is loaded; this takes a handle of it.
        let library =
            unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return false;
        }
        // SAFETY: an open library and names that end in NUL.
        let find = |name: &CStr| unsafe { libc::dlsym(library, name.as_ptr()) };
        let current = find(c"__curbrk");
        if current.is_null() {
            return false;
        }
        CURRENT_BREAK.store(current.addr(), Ordering::Relaxed);
        let wanted: [(&CStr, *const c_void); 10] = [
            (c"mmap", mmap as *const c_void),
            (c"munmap", munmap as *const c_void),
            (c"mremap", mremap as *const c_void),
            (c"madvise", madvise as *const c_void),
            (c"mprotect", mprotect as *const c_void),
            (c"brk", brk as *const c_void),
            (c"syscall", syscall as *const c_void),
            (c"sched_yield", sched_yield as *const c_void),
            (c"clock_nanosleep", clock_nanosleep as *const c_void),
            (c"prctl", prctl as *const c_void),
        ];
        let places = wanted.map(|(name, _)| room(find(name)));
        if places.iter().any(Option::is_none) {
            return false;
        }
        for (place, (_, replacement)) in places.into_iter().flatten().zip(wanted) {
            // SAFETY: a function of the C library with room for the jump, and one here of the same
            // kind.
            if !unsafe { redirect(place, replacement) } {
                return false;
            }
        }
        // These two are private to the C library and may disappear. Without them only context
        // switches reveal its waits.
        for (name, replacement) in [
            (c"__lll_lock_wait_private", lock_wait as *const c_void),
            (c"__lll_lock_wake_private", lock_wake as *const c_void),
        ] {
            // SAFETY: an open library, a name and a version.
            let found = unsafe { libc::dlvsym(library, name.as_ptr(), c"GLIBC_PRIVATE".as_ptr()) };
            if let Some(place) = room(found) {
                // SAFETY: as above.
                unsafe { redirect(place, replacement) };
            }
        }
        true
    }

    /// `RTLD_DL_SYMENT`: return the symbol's entry.
    const SYMBOL_ENTRY: c_int = 1;

    /// The address for the jump in a function (after its ENDBR64, if it has one); None if there is
    /// no room for it.
    fn room(function: *mut c_void) -> Option<*mut u8> {
        if function.is_null() {
            return None;
        }
        let mut entry: *mut libc::Elf64_Sym = std::ptr::null_mut();
        // SAFETY: queries an address; all zeroes is a valid Dl_info, and both results are ours.
        let found = unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            libc::dladdr1(function, &raw mut info, (&raw mut entry).cast(), SYMBOL_ENTRY)
        };
        if found == 0 || entry.is_null() {
            return None;
        }
        let start = function.cast::<u8>();
        // SAFETY: the symbol table's entry, and code of the function, both mapped as long as the
        // library is.
        let (bytes, marked) =
            unsafe { ((*entry).st_size as usize, start.cast::<[u8; 4]>().read() == ENDBR64) };
        let skipped = if marked { ENDBR64.len() } else { 0 };
        (bytes >= skipped + JUMP).then(|| start.wrapping_add(skipped))
    }

    /// Writes a jump to `replacement` at `place`.
    unsafe fn redirect(place: *mut u8, replacement: *const c_void) -> bool {
        let first = place.addr() & !(PAGE - 1);
        let bytes = (place.addr() + JUMP).next_multiple_of(PAGE) - first;
        let protect = |protection: c_int| {
            // SAFETY: pages of the C library's code; the kernel makes copies of those that are
            // written. Not by mprotect, which may just have been redirected.
            unsafe { raw(libc::SYS_mprotect, first, bytes, protection as usize, 0, 0, 0) == 0 }
        };
        if !protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) {
            return false;
        }
        let mut jump = [0u8; JUMP];
        jump[..2].copy_from_slice(&[0xff, 0x25]);
        jump[6..].copy_from_slice(&replacement.addr().to_le_bytes());
        // SAFETY: inside the function, now writable; there is no other thread.
        unsafe { std::ptr::copy_nonoverlapping(jump.as_ptr(), place, JUMP) };
        protect(libc::PROT_READ | libc::PROT_EXEC)
    }
}
