//! The threads of the run. They are started before the clock and parked; they receive the allocator
//! and allocate the blocks of their prologues; they are parked again and released together; each
//! ends when its part is done.
//!
//! Creating a thread while the clock runs would cost a `calloc` of the C library, which under
//! `system` and `preload` is the allocator under test. Therefore the threads exist beforehand, up
//! to the larger of [`AT_ONCE`] and the number that were ever alive at the same time. If a journal
//! has more, the others are created as earlier ones end.

use crate::clock::Clock;
use crate::part::Part;
use crate::perform::perform;
use crate::{prologue, system};
use keel_allocators::table::Table;
use keel_plan::Control;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Threads that may exist at once, if the plan does not need more.
pub const AT_ONCE: usize = 128;
/// Stack bytes that are touched beforehand, so that they do not fault inside a timed call.
const WARM_STACK: usize = 64 << 10;

/// Shared by all threads of a run.
pub struct Gate {
    loaded: AtomicU32,
    open: AtomicU32,
    parked: AtomicU32,
    ready: AtomicU32,
    ended: AtomicU32,
    origin: AtomicU64,
    table: AtomicPtr<Table>,
}

struct ThreadStart<C> {
    part: Part<'static>,
    gate: &'static Gate,
    clock: std::marker::PhantomData<C>,
}

impl Gate {
    /// A closed gate.
    pub const fn new() -> Gate {
        Gate {
            loaded: AtomicU32::new(0),
            open: AtomicU32::new(0),
            parked: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            origin: AtomicU64::new(0),
            table: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Waits until `count` threads are parked.
    pub fn wait_for_parked(&self, count: usize) {
        wait_for(&self.parked, count);
    }

    /// Passes the loaded allocator to all threads, and waits until `count` of them have executed
    /// their prologues.
    pub fn prepare(&self, table: &'static Table, count: usize) {
        self.table.store(std::ptr::from_ref(table).cast_mut(), Ordering::Relaxed);
        self.loaded.store(1, Ordering::Release);
        futex_wake(&self.loaded);
        wait_for(&self.ready, count);
    }

    /// Releases all threads: the run starts at `origin` ticks.
    pub fn open(&self, origin: u64) {
        self.origin.store(origin, Ordering::Relaxed);
        self.open.store(1, Ordering::Release);
        futex_wake(&self.open);
    }

    fn table(&self) -> &'static Table {
        self.parked.fetch_add(1, Ordering::AcqRel);
        while self.loaded.load(Ordering::Acquire) == 0 {
            futex_wait(&self.loaded, 0);
        }
        // SAFETY: stored before `loaded`, from a static reference.
        unsafe { &*self.table.load(Ordering::Relaxed) }
    }

    fn pass(&self) -> u64 {
        self.ready.fetch_add(1, Ordering::AcqRel);
        while self.open.load(Ordering::Acquire) == 0 {
            futex_wait(&self.open, 0);
        }
        self.origin.load(Ordering::Relaxed)
    }

    /// Waits until fewer than `limit` of the `created` threads are still running.
    pub fn wait_for_room(&self, created: usize, limit: usize) {
        loop {
            let ended = self.ended.load(Ordering::Acquire);
            if created - (ended as usize) < limit {
                return;
            }
            futex_wait(&self.ended, ended);
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// Starts a thread that parks at the gate and then executes its part. Returns its id, to be joined.
pub fn start<C: Clock + 'static>(
    part: Part<'static>,
    gate: &'static Gate,
) -> Result<libc::pthread_t, String> {
    let start =
        Box::leak(Box::new(ThreadStart::<C> { part, gate, clock: std::marker::PhantomData }));
    let mut id = 0;
    // SAFETY: the value is leaked, so it outlives the thread; the default attributes are fine.
    let code = unsafe {
        libc::pthread_create(
            &raw mut id,
            std::ptr::null(),
            run::<C>,
            std::ptr::from_mut(start).cast::<c_void>(),
        )
    };
    if code != 0 {
        let reason = std::io::Error::from_raw_os_error(code);
        return Err(format!("thread {} of the journal cannot be started: {reason}", part.index));
    }
    Ok(id)
}

/// The parts of threads that are created as earlier ones end.
struct Late(Vec<Part<'static>>);

// SAFETY: one thread owns the parts, and passes each to a thread that it starts.
unsafe impl Send for Late {}

/// Starts a thread that creates the threads of these parts while the run lasts, at most `limit` at
/// a time, of which `created` exist already. A thread that cannot be created ends the process,
/// because others may wait for it. None if there are no parts.
pub fn start_late<C: Clock + 'static>(
    parts: Vec<Part<'static>>,
    created: usize,
    limit: usize,
    gate: &'static Gate,
    control: &'static Control,
) -> Result<Option<std::thread::JoinHandle<()>>, String> {
    if parts.is_empty() {
        return Ok(None);
    }
    let late = Late(parts);
    let create = move || {
        let Late(parts) = { late };
        while gate.open.load(Ordering::Acquire) == 0 {
            futex_wait(&gate.open, 0);
        }
        let mut started = Vec::with_capacity(parts.len());
        for part in parts {
            gate.wait_for_room(created + started.len(), limit);
            match start::<C>(part, gate) {
                Ok(id) => started.push(id),
                Err(message) => {
                    control.fail(&message);
                    std::process::abort();
                }
            }
        }
        started.into_iter().for_each(join);
    };
    let thread = std::thread::Builder::new().name("starts threads".to_owned()).spawn(create);
    thread.map(Some).map_err(|error| format!("a thread cannot be started: {error}"))
}

/// Prepares a thread for its part: the allocator's initialisation, and the prologue.
///
/// # Safety
/// As for [`perform`]; `part.table` is initialised.
pub unsafe fn begin(part: &Part<'static>) {
    // SAFETY: passed on.
    unsafe {
        if let Some(thread_init) = part.table.thread_init {
            thread_init();
        }
        prologue::perform(part);
    }
}

/// Waits for a thread to end.
pub fn join(id: libc::pthread_t) {
    // SAFETY: a thread that `start` created, joined once.
    unsafe { libc::pthread_join(id, std::ptr::null_mut()) };
}

extern "C" fn run<C: Clock>(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start` passed a leaked ThreadStart of this type.
    let start = unsafe { &*argument.cast::<ThreadStart<C>>() };
    warm_stack();
    let table = start.gate.table();
    let part = Part { table, ..start.part };
    // SAFETY: these calls enclose all uses of the table, as it requires. Replay compiled the plan.
    unsafe {
        begin(&part);
        let origin = start.gate.pass();
        perform::<C>(Part { origin, ..part });
        if let Some(thread_exit) = table.thread_exit {
            thread_exit();
        }
    }
    start.gate.ended.fetch_add(1, Ordering::AcqRel);
    futex_wake(&start.gate.ended);
    std::ptr::null_mut()
}

/// Touches the part of this thread's stack that a run may need.
#[inline(never)]
pub fn warm_stack() {
    let mut room = [0u8; WARM_STACK];
    for page in room.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&mut room);
}

fn wait_for(counter: &AtomicU32, count: usize) {
    while (counter.load(Ordering::Acquire) as usize) < count {
        system::sleep_ns(50_000);
    }
}

fn futex_wait(word: &AtomicU32, value: u32) {
    // SAFETY: waits on a word that outlives the call, if it still holds `value`.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        )
    };
}

fn futex_wake(word: &AtomicU32) {
    // SAFETY: wakes the threads that wait on the word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        )
    };
}
