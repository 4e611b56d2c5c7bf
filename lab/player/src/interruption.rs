//! Detects interruptions of this thread during a call, by a flag that costs less than a nanosecond.
//!
//! The kernel keeps a `struct rseq` for each thread. Before the call, the player points its
//! `rseq_cs` at the descriptor of a critical section that the thread is not in. When the kernel
//! preempts or migrates the thread, puts it to sleep or delivers a signal, it checks the pointer on
//! the return, finds that the thread is outside the section, and clears it. After the call, an
//! unchanged pointer means no interruption and null means an interruption. Any other value means
//! that the allocator uses rseq itself, and then the answer is unknown. System calls and page
//! faults that do not sleep do not change the pointer.

use std::ptr::null_mut;

/// The state of the flag after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The call was not interrupted.
    Nothing,
    /// The thread was preempted, migrated, signalled, or slept.
    Interrupted,
    /// The allocator uses rseq itself, or the kernel does not have it.
    Unknown,
}

/// The calling thread's flag. Not to be passed to another thread.
#[derive(Clone, Copy)]
pub struct Flag {
    /// `rseq_cs` of the thread, or null if there is none.
    place: *mut u64,
    armed: u64,
}

impl Flag {
    /// The flag of the calling thread. It is always [`Seen::Unknown`] if `usable` is false or the
    /// thread has none.
    pub fn of_this_thread(usable: bool) -> Flag {
        let place = if usable { arch::place().unwrap_or(null_mut()) } else { null_mut() };
        Flag { place, armed: arch::descriptor() }
    }

    /// Arms the flag before a call.
    #[inline(always)]
    pub fn arm(self) {
        if !self.place.is_null() {
            // SAFETY: the calling thread's own rseq area, which lives as long as the thread.
            unsafe { self.place.write_volatile(self.armed) }
        }
    }

    /// Reads the flag after the call.
    #[inline(always)]
    pub fn look(self) -> Seen {
        if self.place.is_null() {
            return Seen::Unknown;
        }
        // SAFETY: as above.
        match unsafe { self.place.read_volatile() } {
            0 => Seen::Interrupted,
            value if value == self.armed => Seen::Nothing,
            _ => Seen::Unknown,
        }
    }

    /// Restores the area.
    pub fn disarm(self) {
        if !self.place.is_null() {
            // SAFETY: as above.
            unsafe { self.place.write_volatile(0) }
        }
    }
}

/// Tests the flag on this kernel: empty windows must not be interrupted (except a few real
/// interruptions), and every sleep must be detected.
pub fn self_test() -> bool {
    let flag = Flag::of_this_thread(true);
    let mut false_alarms = 0;
    for _ in 0..1000 {
        flag.arm();
        std::hint::black_box(());
        false_alarms += u32::from(flag.look() != Seen::Nothing);
    }
    let mut missed = 0;
    for _ in 0..20 {
        let before = crate::system::thread_usage().voluntary_switches;
        flag.arm();
        crate::system::sleep_ns(50_000);
        let seen = flag.look();
        // If a virtual processor is stopped, the timer may be due before the thread has slept. Then
        // there was no sleep.
        let slept = crate::system::thread_usage().voluntary_switches != before;
        missed += u32::from(slept && seen != Seen::Interrupted);
    }
    flag.disarm();
    false_alarms < 50 && missed == 0
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod arch {
    // The section is two instructions that are never executed. The kernel checks the signature in
    // front of the abort handler: it is the one that glibc registers (0x53053053, in the encoding
    // of an undefined instruction).
    std::arch::global_asm!(
        ".pushsection .text",
        ".hidden keel_rseq_start, keel_rseq_end, keel_rseq_abort, keel_rseq_descriptor",
        "keel_rseq_start: nop",
        "keel_rseq_end: nop",
        ".byte 0x0f, 0xb9, 0x3d",
        ".long 0x53053053",
        "keel_rseq_abort: ud2",
        ".popsection",
        ".pushsection .data.rel.ro.keel_rseq, \"aw\"",
        ".balign 32",
        ".globl keel_rseq_descriptor",
        "keel_rseq_descriptor:",
        ".long 0, 0",
        ".quad keel_rseq_start",
        ".quad keel_rseq_end - keel_rseq_start",
        ".quad keel_rseq_abort",
        ".popsection",
    );

    unsafe extern "C" {
        static keel_rseq_descriptor: u8;
    }

    /// Offset of `rseq_cs` in `struct rseq`.
    const FIELD: usize = 8;

    pub fn descriptor() -> u64 {
        (&raw const keel_rseq_descriptor).addr() as u64
    }

    /// The address of the thread's area, if glibc registered one (2.35 and later; a tunable can
    /// forbid it).
    pub fn place() -> Option<*mut u64> {
        let size = symbol(c"__rseq_size")?.cast::<u32>();
        let offset = symbol(c"__rseq_offset")?.cast::<isize>();
        // SAFETY: both are constant variables of glibc of these types.
        let (size, offset) = unsafe { (size.read(), offset.read()) };
        if size == 0 {
            return None;
        }
        let thread: *mut u8;
        // SAFETY: on x86-64 the first word of the thread control block is its own address.
        unsafe {
            std::arch::asm!("mov {}, \
                fs:0", out(reg) thread, options(nostack, readonly, preserves_flags))
        };
        Some(thread.wrapping_offset(offset).wrapping_add(FIELD).cast())
    }

    fn symbol(name: &std::ffi::CStr) -> Option<*const u8> {
        // SAFETY: a name that ends in NUL; the result is checked.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!address.is_null()).then(|| address.cast_const().cast())
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod arch {
    pub fn descriptor() -> u64 {
        1
    }

    pub fn place() -> Option<*mut u64> {
        None
    }
}
