//! The results of the player, and its orders beside the plan.

use crate::eviction::{CLASSES, Eviction, LEVELS, Shares};
use crate::{Header, Plain, SharedError, SharedMemory};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

const MAGIC: u64 = u64::from_le_bytes(*b"keelrun3");
/// The number of empty pairs of clock readings that are kept.
pub const EMPTY_PAIRS: usize = 1 << 15;

/// The clock that times calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum ClockChoice {
    /// The processor's counter where it can be trusted, else CLOCK_MONOTONIC.
    #[default]
    Auto = 0,
    /// The counter, or no run.
    Counter = 1,
    /// CLOCK_MONOTONIC.
    Monotonic = 2,
}

/// How the plan is to be executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// 0 none, 1 first byte, 2 a byte in every page, 3 all bytes.
    pub touch: u8,
    /// Whether touching counts as a part of the call.
    pub touch_inside: bool,
    /// Fill each block with a pattern and check it when it is freed.
    pub verify: bool,
    /// See [`ClockChoice`].
    pub clock: ClockChoice,
    /// What each thread reads between two calls, to evict caches. Only with a schedule.
    pub evict: Eviction,
    /// No clock around each call, no records, no schedule: only the time of the whole run.
    pub unclocked: bool,
    /// In an unclocked run, sum up the usable sizes of all blocks. The time of such a run means
    /// nothing.
    pub usable_sizes: bool,
}

/// The progress of the player.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum State {
    /// Preparing.
    Loading,
    /// The clock runs.
    Running,
    /// All threads have ended; the results are complete.
    Done,
    /// The run failed; [`Control::message`] is the reason.
    Failed,
}

/// The first page of the results. The fields are atomic, because both processes read and write
/// them.
#[repr(C)]
pub struct Control {
    magic: AtomicU64,
    touch: AtomicU32,
    touch_inside: AtomicU32,
    verify: AtomicU32,
    state: AtomicU32,
    /// The player's clock: 1 TSC (or the architecture's counter), 2 CLOCK_MONOTONIC.
    pub clock: AtomicU32,
    /// Whether interruptions are detected: 1 yes, 2 no.
    pub interruptions: AtomicU32,
    /// Whether the result arrays are locked in memory: 1 yes, 2 no.
    pub locked: AtomicU32,
    /// Whether system calls are recorded: 1 yes, 2 no.
    pub syscalls: AtomicU32,
    /// Whether hardware interrupts are detected: 1 yes, 2 no.
    pub interrupts: AtomicU32,
    clock_choice: AtomicU32,
    /// For each [`SelfTest`]: the number of tries and of detections.
    pub self_test: [[AtomicU32; 2]; SELF_TESTS.len()],
    unclocked: AtomicU32,
    usable_sizes: AtomicU32,
    /// [`Eviction::Bytes`]; `RECORDED`: the two fields below are valid.
    evict_bytes: AtomicU64,
    /// [`Shares`].
    level_bytes: [AtomicU64; LEVELS],
    /// See `level_bytes`.
    level_shares: [[AtomicU64; LEVELS]; CLASSES],
    /// Ticks and CLOCK_MONOTONIC (ns) at the start of the run.
    pub start_ticks: AtomicU64,
    /// See `start_ticks`.
    pub start_ns: AtomicU64,
    /// The same two at the start of the preparation, and at the end of the run: for the clock's
    /// frequency.
    pub prepare_ticks: AtomicU64,
    /// See `prepare_ticks`.
    pub prepare_ns: AtomicU64,
    /// See `prepare_ticks`.
    pub end_ticks: AtomicU64,
    /// See `prepare_ticks`.
    pub end_ns: AtomicU64,
    /// Anonymous resident bytes of the player after the preparation, before the allocator was
    /// loaded.
    pub baseline_bytes: AtomicU64,
    /// The same directly after the last thread ended.
    pub end_bytes: AtomicU64,
    /// The most anonymous resident bytes during the run, by the kernel's high-water mark; 0 if
    /// unknown.
    pub peak_bytes: AtomicU64,
    /// CPU time of the whole process when the run starts and when its last thread has ended, ns.
    pub process_cpu: [AtomicU64; 2],
    /// Calls that returned no memory, and the row of the first.
    pub refused: AtomicU64,
    /// See `refused`.
    pub first_refused: AtomicU64,
    /// Under `verify`: blocks with changed contents, and the row at which the first was detected.
    pub corrupt: AtomicU64,
    /// See `corrupt`.
    pub first_corrupt: AtomicU64,
    /// Under `usable_sizes`: requested and usable bytes of the live blocks, and both at the peak of
    /// requested bytes.
    pub live: [AtomicU64; 2],
    /// See `live`.
    pub live_at_peak: [AtomicU64; 2],
    /// Under `usable_sizes`: requested and usable bytes of all blocks of the run.
    pub total: [AtomicU64; 2],
    /// System call instructions in the allocator's own code; their calls are not recorded.
    pub inline_syscalls: AtomicU64,
    /// Ticks that the stores of a call take after the window has ended, for each of
    /// [`STORED_LINES`]; 0 if unknown.
    pub stores_in_flight: [AtomicU64; STORED_LINES.len()],
    /// See [`Control::free_functions`].
    free_functions: [AtomicU8; FREE_FUNCTIONS_BYTES],
    message: [AtomicU8; 1024],
}

/// See `Control::evict_bytes`.
const RECORDED: u64 = u64::MAX;

/// The numbers of cache lines of [`Control::stores_in_flight`].
pub const STORED_LINES: [usize; 2] = [1, 16];

/// Room for the names of three functions.
const FREE_FUNCTIONS_BYTES: usize = 256;

/// The state and the counters of a thread.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct ThreadState {
    /// The row of its next step, `u32::MAX` at its end. It has its own cache line, because other
    /// threads read it.
    pub next_row: AtomicU32,
    reserved: [AtomicU32; 31],
    /// Ticks since the run's start: start of its first call, end of its last.
    pub first_ticks: AtomicU64,
    /// See `first_ticks`.
    pub last_ticks: AtomicU64,
    /// Ticks spent waiting for objects of other threads.
    pub waited_ticks: AtomicU64,
    /// How often the thread had to wait for an object of another thread.
    pub waits: AtomicU64,
    /// Ticks spent waiting because it was too far ahead.
    pub held_ticks: AtomicU64,
    /// CPU time, ns.
    pub cpu_ns: AtomicU64,
    /// Page faults while replaying.
    pub minor_faults: AtomicU64,
    /// See `minor_faults`.
    pub major_faults: AtomicU64,
    /// Context switches while replaying.
    pub voluntary_switches: AtomicU64,
    /// See `voluntary_switches`.
    pub involuntary_switches: AtomicU64,
    /// The sum of the minima of empty pairs that are measured between calls, ticks.
    pub pair_ticks: AtomicU64,
    /// The number of these measurements.
    pub pair_count: AtomicU64,
    /// Bytes that were read between calls: see [`Orders::evict`].
    pub evicted_bytes: AtomicU64,
    /// The sum of the durations of loops that are measured with the empty pairs, ticks.
    pub loop_ticks: AtomicU64,
    reserved_end: [AtomicU64; 2],
}

/// One call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Ticks since the run's start.
    pub start: u64,
    /// Ticks inside, capped at `u32::MAX`.
    pub ticks: u32,
    /// The lowest byte holds the `CAUSE_*` bits of the result format, the next the number of page
    /// faults (255 for more), and the upper half the kinds of system calls, one bit each.
    pub cause: u32,
}

impl Record {
    const FAULTS_SHIFT: u32 = 8;
    /// The lowest bit of the kinds of system calls.
    pub const CALLS_SHIFT: u32 = 16;

    /// The part of a cause word for a number of page faults.
    pub fn with_faults(faults: u64) -> u32 {
        (faults.min(255) as u32) << Self::FAULTS_SHIFT
    }

    /// Whether the thread was preempted, and the kernel did nothing for the call: no page fault, no
    /// system call, no wait. Only then is the operating system alone responsible for the time.
    pub const fn only_preempted(cause: u32) -> bool {
        const WORK: u32 = CAUSE_FAULT | CAUSE_SYSCALL | CAUSE_SLEPT;
        cause & CAUSE_INTERRUPTED != 0 && cause & WORK == 0
    }

    /// The part of a cause word for a set of kinds of system calls.
    pub fn with_calls(kinds: u32) -> u32 {
        kinds << Self::CALLS_SHIFT
    }

    /// The `CAUSE_*` bits.
    pub fn bits(&self) -> u8 {
        self.cause as u8
    }

    /// Page faults during the call; 255 for as many or more. Counted for slow calls only.
    pub fn faults(&self) -> u32 {
        self.cause >> Self::FAULTS_SHIFT & 255
    }

    /// Kinds of system calls made, a bit each.
    pub fn calls(&self) -> u32 {
        self.cause >> Self::CALLS_SHIFT
    }
}

// SAFETY: atomics without padding (pairs of u32 fill their words; see the size below).
unsafe impl Plain for Control {}
// SAFETY: atomics without padding.
unsafe impl Plain for ThreadState {}
// SAFETY: integers without padding.
unsafe impl Plain for Record {}
const _: () = assert!(size_of::<ThreadState>() == 256 && size_of::<Record>() == 16);
const _: () = assert!(
    size_of::<Control>()
        == 8 + 10 * 4
            + (SELF_TESTS.len() + 1) * 8
            + (25 + LEVELS + LEVELS * CLASSES) * 8
            + FREE_FUNCTIONS_BYTES
            + 1024
);

/// The thread was preempted, migrated or signalled during the call.
pub const CAUSE_INTERRUPTED: u32 = 1;
/// The call took page faults.
pub const CAUSE_FAULT: u32 = 2;
/// The call made system calls.
pub const CAUSE_SYSCALL: u32 = 4;
/// It is unknown whether the call was interrupted.
pub const CAUSE_INTERRUPTED_UNKNOWN: u32 = 8;
/// The thread gave up its processor: it slept, or waited for a lock or a page.
pub const CAUSE_SLEPT: u32 = 16;
/// The processor served a hardware interrupt during the call.
pub const CAUSE_INTERRUPT: u32 = 32;
/// It is unknown whether the call made system calls.
pub const CAUSE_SYSCALL_UNKNOWN: u32 = 64;
/// A short call directly after a system call of the detectors.
pub const CAUSE_FOLLOWS_DETECTOR: u32 = 128;

/// The actions of the self-test before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum SelfTest {
    /// Empty windows; a fault, system call or sleep detected in one is a false alarm.
    Quiet = 0,
    /// Sleeps.
    Sleep = 1,
    /// Signals to itself.
    Signal = 2,
    /// Page faults.
    Fault = 3,
    /// `mmap` and `munmap`.
    Map = 4,
}

/// Their names in results.
pub const SELF_TESTS: [&str; 5] = ["quiet", "sleep", "signal", "fault", "mmap"];

/// Mapped results.
#[derive(Debug)]
pub struct Results {
    memory: SharedMemory,
    threads: usize,
    rows: usize,
}

impl Results {
    fn states_at() -> usize {
        4096
    }

    fn pairs_at(threads: usize) -> usize {
        (Self::states_at() + threads * size_of::<ThreadState>()).next_multiple_of(4096)
    }

    fn records_at(threads: usize) -> usize {
        Self::pairs_at(threads) + EMPTY_PAIRS * 4
    }

    fn bytes(threads: usize, rows: usize) -> usize {
        Self::records_at(threads) + rows * size_of::<Record>()
    }

    /// Room for the results of a plan.
    pub fn create(header: &Header) -> Result<Results, SharedError> {
        let (threads, rows) = (header.threads as usize, header.rows as usize);
        let memory = SharedMemory::create("the results", Self::bytes(threads, rows))?;
        Ok(Results { memory, threads, rows })
    }

    /// Maps results that were passed with their plan.
    pub fn open(descriptor: OwnedFd, header: &Header) -> Result<Results, SharedError> {
        let (threads, rows) = (header.threads as usize, header.rows as usize);
        let memory = SharedMemory::open("the results", descriptor)?;
        let results = Results { memory, threads, rows };
        if results.memory.bytes() < Self::bytes(threads, rows)
            || results.control().magic.load(Relaxed) != MAGIC
        {
            return Err(SharedError::Foreign { what: "result memory" });
        }
        Ok(results)
    }

    /// Prepares for the next run. Records need no clearing: a successful run writes all of them.
    pub fn reset(&self, orders: Orders) {
        let bytes = Self::pairs_at(self.threads);
        if let Some(start) = self.memory.part::<u64>(0, bytes / 8) {
            // SAFETY: inside the mapping; no player runs now.
            unsafe { std::ptr::write_bytes(start, 0, bytes / 8) }
        }
        let control = self.control();
        control.touch.store(u32::from(orders.touch), Relaxed);
        control.touch_inside.store(u32::from(orders.touch_inside), Relaxed);
        control.verify.store(u32::from(orders.verify), Relaxed);
        control.usable_sizes.store(u32::from(orders.usable_sizes), Relaxed);
        control.set_eviction(&orders.evict);
        control.unclocked.store(u32::from(orders.unclocked), Relaxed);
        control.clock_choice.store(orders.clock as u32, Relaxed);
        control.magic.store(MAGIC, Relaxed);
    }

    /// The memory, to be passed to a player.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// The first page.
    ///
    /// # Panics
    /// Never: both constructors make the memory large enough for it.
    pub fn control(&self) -> &Control {
        let control = self.memory.slice::<Control>(0, 1);
        &control.expect("the first page exists")[0]
    }

    /// One state for each thread of the plan.
    pub fn states(&self) -> &[ThreadState] {
        self.memory.slice(Self::states_at(), self.threads).unwrap_or_default()
    }

    /// Ticks of empty pairs of clock readings; written before the run.
    pub fn empty_pairs(&self) -> &[AtomicU32] {
        self.memory.slice(Self::pairs_at(self.threads), EMPTY_PAIRS).unwrap_or_default()
    }

    /// The records `first..first + count`, to be read after the player has ended.
    pub fn records(&self, first: u64, count: u64) -> &[Record] {
        let at = Self::records_at(self.threads) + first as usize * size_of::<Record>();
        self.memory.slice(at, count as usize).unwrap_or_default()
    }

    /// The same, to be written by the thread that owns them; None if they are out of range.
    pub fn records_mut(&self, first: u64, count: u64) -> Option<*mut Record> {
        let at = Self::records_at(self.threads) + first as usize * size_of::<Record>();
        let end = first.checked_add(count)?;
        (end <= self.rows as u64).then(|| self.memory.part(at, count as usize)).flatten()
    }
}

// SAFETY: an atomic integer.
unsafe impl Plain for AtomicU32 {}

impl Control {
    /// How the plan is to be executed.
    pub fn orders(&self) -> Orders {
        Orders {
            touch: self.touch.load(Relaxed) as u8,
            touch_inside: self.touch_inside.load(Relaxed) != 0,
            verify: self.verify.load(Relaxed) != 0,
            clock: match self.clock_choice.load(Relaxed) {
                1 => ClockChoice::Counter,
                2 => ClockChoice::Monotonic,
                _ => ClockChoice::Auto,
            },
            evict: self.eviction(),
            unclocked: self.unclocked.load(Relaxed) != 0,
            usable_sizes: self.usable_sizes.load(Relaxed) != 0,
        }
    }

    fn set_eviction(&self, eviction: &Eviction) {
        let bytes = match eviction {
            Eviction::None => 0,
            Eviction::Bytes(bytes) => *bytes,
            Eviction::Recorded(_) => RECORDED,
        };
        self.evict_bytes.store(bytes, Relaxed);
        let Eviction::Recorded(shares) = eviction else { return };
        for (place, bytes) in self.level_bytes.iter().zip(shares.bytes) {
            place.store(bytes, Relaxed);
        }
        let all = shares.of_65536.iter().flatten();
        for (place, share) in self.level_shares.iter().flatten().zip(all) {
            place.store(u64::from(*share), Relaxed);
        }
    }

    fn eviction(&self) -> Eviction {
        match self.evict_bytes.load(Relaxed) {
            0 => Eviction::None,
            RECORDED => Eviction::Recorded(Shares {
                bytes: std::array::from_fn(|level| self.level_bytes[level].load(Relaxed)),
                of_65536: std::array::from_fn(|class| {
                    let shares = &self.level_shares[class];
                    std::array::from_fn(|level| shares[level].load(Relaxed) as u32)
                }),
            }),
            bytes => Eviction::Bytes(bytes),
        }
    }

    /// The progress of the player.
    pub fn state(&self) -> State {
        match self.state.load(std::sync::atomic::Ordering::Acquire) {
            0 => State::Loading,
            1 => State::Running,
            2 => State::Done,
            _ => State::Failed,
        }
    }

    /// Stores the progress, with release order.
    pub fn set_state(&self, state: State) {
        self.state.store(state as u32, std::sync::atomic::Ordering::Release);
    }

    /// Reports failure, with a sentence.
    pub fn fail(&self, message: &str) {
        self.remark(message);
        self.set_state(State::Failed);
    }

    /// Stores why the processor's counter is not used; a clause.
    pub fn remark(&self, message: &str) {
        put_text(&self.message, message);
    }

    /// Stores the functions that the [`crate::Kind::HINTED`] frees call: three words.
    pub fn set_free_functions(&self, names: &str) {
        put_text(&self.free_functions, names);
    }

    /// The functions that the [`crate::Kind::HINTED`] frees call, in that order; `free` if the
    /// allocator has no such function. Empty before the allocator is loaded.
    pub fn free_functions(&self) -> Vec<String> {
        text(&self.free_functions).split_whitespace().map(str::to_owned).collect()
    }

    /// The reason of a failure; of a successful run, why it did not use the processor's counter.
    pub fn message(&self) -> String {
        text(&self.message)
    }
}

fn put_text(places: &[AtomicU8], text: &str) {
    let bytes = text.bytes().take(places.len() - 1).chain([0]);
    for (place, byte) in places.iter().zip(bytes) {
        place.store(byte, Relaxed);
    }
}

fn text(places: &[AtomicU8]) -> String {
    let bytes: Vec<u8> =
        places.iter().map(|byte| byte.load(Relaxed)).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl std::fmt::Debug for Control {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Control").field("state", &self.state()).finish_non_exhaustive()
    }
}
