//! Detects hardware interrupts and exceptions during a call, by one read of a register.
//!
//! On x86-64 an `iret` to user code clears a segment register that holds one of the null selectors
//! 1, 2 and 3. 64-bit programs do not use GS, and system calls do not change it, but every
//! interrupt and every exception (the timer's tick, a page fault) returns with `iret`. Therefore
//! the probe writes 1 into GS; as long as GS reads 1, there was neither.
//!
//! An unprivileged program has no other way to detect that a hardware interrupt made a call slow.
//! The probe does not detect a hypervisor that stops the whole virtual processor. Processors that
//! return in another way (FRED) do not clear GS; [`InterruptProbe::works`] checks this.

/// The probe of the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct InterruptProbe {
    usable: bool,
}

impl InterruptProbe {
    /// Armed if `usable`; otherwise it never detects anything.
    pub fn of_this_thread(usable: bool) -> InterruptProbe {
        let probe = InterruptProbe { usable };
        probe.arm();
        probe
    }

    /// Arms the probe. This takes about ten nanoseconds, so it is done only after the probe was
    /// cleared.
    #[inline(always)]
    pub fn arm(self) {
        if self.usable {
            arch::set();
        }
    }

    /// Whether there was an interrupt or exception since [`arm`](Self::arm).
    #[inline(always)]
    pub fn is_cleared(self) -> bool {
        self.usable && !arch::holds()
    }

    /// Tests it on this machine: page faults must clear it, empty windows must not.
    pub fn works() -> bool {
        arch::PRESENT && {
            let probe = InterruptProbe::of_this_thread(true);
            let quiet = (0..1000).filter(|_| {
                probe.arm();
                std::hint::black_box(());
                !probe.is_cleared()
            });
            let quiet = quiet.count();
            let Some(pages) = crate::system::anonymous(FAULTS * 4096, 0) else { return false };
            let seen = (0..FAULTS).filter(|page| {
                probe.arm();
                // SAFETY: inside the fresh mapping.
                unsafe { pages.as_ptr().add(page * 4096).write_volatile(1) };
                probe.is_cleared()
            });
            let seen = seen.count();
            // SAFETY: our own mapping. A fault may serve neighbouring pages too, so not every write
            // faults.
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
        // SAFETY: a null selector; a 64-bit process does not use GS.
        unsafe { asm!("mov gs, {0:e}", in(reg) 1, options(nostack, nomem, preserves_flags)) }
    }

    #[inline(always)]
    pub fn holds() -> bool {
        let selector: u32;
        // SAFETY: reads a register. Not `pure`: an interrupt changes it asynchronously.
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
    fn a_fault_clears_it_and_a_system_call_does_not() {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let expected = arch::PRESENT && !cpuinfo.contains(" fred");
        assert_eq!(InterruptProbe::works(), expected);
        if !expected {
            return;
        }
        let probe = InterruptProbe::of_this_thread(true);
        let calm = (0..1000).filter(|_| {
            probe.arm();
            crate::system::thread_usage();
            !probe.is_cleared()
        });
        // A busy machine interrupts some of them.
        assert!(calm.count() > 900);
    }
}
