//! Facts about this machine.

use crate::Machine;
use std::fs::read_to_string;

/// Facts about this machine; unknown ones are empty.
pub fn machine() -> Machine {
    let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default()
    };
    let virtual_machine = field("flags").split(' ').any(|flag| flag == "hypervisor");
    Machine {
        cpu: field("model name"),
        cpus: std::thread::available_parallelism().map_or(0, |count| count.get() as u32),
        memory_bytes: memory_bytes(),
        kernel: line_of("/proc/sys/kernel/osrelease"),
        libc: libc_version(),
        huge_pages: huge_pages(&line_of("/sys/kernel/mm/transparent_hugepage/enabled")),
        governor: line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        hypervisor: if virtual_machine { hypervisor() } else { String::new() },
    }
}

/// Processor time since this machine started, ns, summed over all processors, in steps of 10 ms; 0
/// where the system does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Taken by the hypervisor.
    pub stolen_ns: u64,
    /// Spent in programs, the kernel and interrupts.
    pub busy_ns: u64,
}

impl ProcessorTime {
    /// The present values.
    pub fn now() -> ProcessorTime {
        Self::of(&read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The present values of some processors only, by their numbers.
    pub fn now_on(processors: &[usize]) -> ProcessorTime {
        Self::of_some(&read_to_string("/proc/stat").unwrap_or_default(), processors)
    }

    fn of_some(stat: &str, processors: &[usize]) -> ProcessorTime {
        let number = |line: &str| line.strip_prefix("cpu")?.split(' ').next()?.parse().ok();
        let chosen = stat
            .lines()
            .filter(|line| number(line).is_some_and(|one: usize| processors.contains(&one)));
        chosen.map(Self::of).fold(ProcessorTime::default(), |sum, one| ProcessorTime {
            stolen_ns: sum.stolen_ns + one.stolen_ns,
            busy_ns: sum.busy_ns + one.busy_ns,
        })
    }

    /// Parses the first line: user, nice, system, idle, iowait, irq, softirq, steal, in ticks of 10
    /// ms on every Linux.
    fn of(stat: &str) -> ProcessorTime {
        let words = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let ticks: Vec<u64> = words.map(|word| word.parse().unwrap_or(0)).collect();
        let sum =
            |of: &[usize]| of.iter().filter_map(|&at| ticks.get(at)).sum::<u64>() * 10_000_000;
        ProcessorTime { stolen_ns: sum(&[7]), busy_ns: sum(&[0, 1, 2, 5, 6]) }
    }
}

fn line_of(path: &str) -> String {
    read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn memory_bytes() -> u64 {
    let text = read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The word in brackets of `always [madvise] never`.
fn huge_pages(text: &str) -> String {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map(|(word, _)| word.to_owned()).unwrap_or_default()
}

fn hypervisor() -> String {
    let vendor = line_of("/sys/class/dmi/id/sys_vendor");
    let product = line_of("/sys/class/dmi/id/product_name");
    let names = format!("{vendor} {product}");
    if names.trim().is_empty() { "unknown".to_owned() } else { names.trim().to_owned() }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn libc_version() -> String {
    // SAFETY: returns a constant string.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", version.to_string_lossy())
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn libc_version() -> String {
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_processors_memory_and_a_kernel() {
        let machine = machine();
        assert!(machine.cpus > 0 && machine.memory_bytes > 1 << 20 && !machine.kernel.is_empty());
    }

    #[test]
    fn stolen_time_is_the_eighth_number_and_idle_time_is_not_busy() {
        let time = ProcessorTime::of("cpu  1 2 3 400 500 6 7 8 9 10\ncpu0 1 2\n");
        assert_eq!(time, ProcessorTime { stolen_ns: 80_000_000, busy_ns: 190_000_000 });
        assert_eq!(ProcessorTime::of(""), ProcessorTime::default());
        let stat = "cpu  9 9 9 9\ncpu0 1 2 3 400 500 6 7 8\ncpu1 1 0 0 5\ncpu10 7 0 0 0\nintr 5\n";
        let time = ProcessorTime::of_some(stat, &[0, 1]);
        assert_eq!(time, ProcessorTime { stolen_ns: 80_000_000, busy_ns: 200_000_000 });
    }

    #[test]
    fn the_setting_of_huge_pages_is_the_word_in_brackets() {
        assert_eq!(huge_pages("always [madvise] never"), "madvise");
        assert_eq!(huge_pages(""), "");
    }
}
