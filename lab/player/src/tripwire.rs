//! Did the processor leave this thread during the call, for however short a time? One read of a register.
//!
//! On x86-64 an `iret` to user code clears a segment register that holds one of the null selectors 1, 2 and 3. Nothing
//! in a 64-bit program uses GS, and system calls leave it alone; every interrupt and every exception (the timer's tick,
//! a page fault) returns with `iret`. So: put 1 into GS; as long as it reads 1, the processor has not left.
//!
//! This tells the calls that a hardware interrupt made slow from those that were slow by themselves: nothing else in
//! the reach of a program does. What it cannot see is a hypervisor that stops the whole virtual processor. Processors
//! that return in another way (FRED) do not clear it; [`Tripwire::works`] tries.

/// The register of the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Tripwire {
    usable: bool,
}

impl Tripwire {
    /// Stretched, if `usable`; else it never says anything.
    pub fn of_this_thread(usable: bool) -> Tripwire {
        let wire = Tripwire { usable };
        wire.stretch();
        wire
    }

    /// Makes it ready. Some ten nanoseconds, so only done when it was touched.
    #[inline(always)]
    pub fn stretch(self) {
        if self.usable {
            arch::set();
        }
    }

    /// Whether it was touched since; it stays so until it is stretched again.
    #[inline(always)]
    pub fn touched(self) -> bool {
        self.usable && !arch::holds()
    }

    /// Tries it on this machine: page faults touch it, quiet stretches do not.
    pub fn works() -> bool {
        arch::PRESENT && {
            let wire = Tripwire::of_this_thread(true);
            let quiet = (0..1000).filter(|_| {
                wire.stretch();
                std::hint::black_box(());
                !wire.touched()
            });
            let quiet = quiet.count();
            let Some(pages) = crate::own::anonymous(FAULTS * 4096, 0) else { return false };
            let seen = (0..FAULTS).filter(|page| {
                wire.stretch();
                // SAFETY: inside the fresh mapping.
                unsafe { pages.as_ptr().add(page * 4096).write_volatile(1) };
                wire.touched()
            });
            let seen = seen.count();
            // SAFETY: our own mapping. A fault may be served for its neighbours too, so not every write is one.
            unsafe { libc::munmap(pages.as_ptr().cast(), FAULTS * 4096) };
            quiet > 950 && seen > 0
        }
    }
}

const FAULTS: usize = 16;

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::asm;

    pub const PRESENT: bool = true;

    #[inline(always)]
    pub fn set() {
        // SAFETY: a null selector; nothing in a 64-bit process goes through GS.
        unsafe { asm!("mov gs, {0:e}", in(reg) 1, options(nostack, nomem, preserves_flags)) }
    }

    #[inline(always)]
    pub fn holds() -> bool {
        let selector: u32;
        // SAFETY: reads a register. Not `pure`: an interrupt changes it behind the program's back.
        unsafe { asm!("mov {0:e}, gs", out(reg) selector, options(nostack, preserves_flags)) };
        selector & 0xffff == 1
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod arch {
    pub const PRESENT: bool = false;

    pub fn set() {}

    pub fn holds() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_touches_it_and_a_system_call_does_not() {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let expected = arch::PRESENT && !cpuinfo.contains(" fred");
        assert_eq!(Tripwire::works(), expected);
        if !expected {
            return;
        }
        let wire = Tripwire::of_this_thread(true);
        let calm = (0..1000).filter(|_| {
            wire.stretch();
            crate::own::thread_usage();
            !wire.touched()
        });
        // A busy machine interrupts some of them.
        assert!(calm.count() > 900);
    }
}
