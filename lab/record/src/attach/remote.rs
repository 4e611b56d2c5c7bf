//! Calls functions in a thread of another process.
//!
//! The thread is one that waits in a system call such as `poll`, so that it holds no lock of the
//! allocator or of the loader. It is stopped, calls the functions on a stack of its own, and
//! continues with the same registers, signal mask and errno: the kernel then restarts the system
//! call. The other threads are not stopped.
//!
//! The thread runs without a stop from the first function to the end of the last one. It would end
//! the visit itself if keel was killed ([`super::frame`]).

use super::calls::{is_restartable, is_waiting, returns_when_stopped, system_call};
use super::frame::{self, AT_RIP, AT_SEGMENTS, Frame, Registers, data};
use super::target::{Functions, Target};
use super::urgent::Urgent;
use crate::Visit;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

/// The memory that the calls use: a page with code, a page with data and texts, and a stack.
const REGION_BYTES: u64 = 264 << 10;
const DATA_AT: u64 = 4096;
const TEXTS_AT: u64 = DATA_AT + 512;
const TEXTS_END: u64 = 2 * 4096;
/// Without keel, the thread continues this long after its calls.
const WAIT_FOR_KEEL_NS: u64 = 50_000_000;
/// The states of the processor's registers for numbers and vectors take no more.
const VECTORS_BYTES: usize = 16384;
/// From the request to stop to the stop.
const STOP_WITHIN: Duration = Duration::from_secs(2);
/// A call never waits for long, unless a stopped thread has a lock. It must not be left before its
/// end.
const CALL_WITHIN: Duration = Duration::from_secs(3600);

/// The set of registers for numbers and vectors.
const XSTATE: usize = 0x202;

/// Why a visit failed.
#[derive(Debug)]
pub enum Failure {
    /// No thread waits where it can be entered; another time may be better.
    Busy,
    /// An error of the system.
    System(io::Error),
    /// In words.
    Other(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::System(error)
    }
}

/// A stopped thread. Dropping it lets the thread continue as if nothing had happened.
pub struct Visited<'a> {
    pid: u32,
    thread: i32,
    functions: &'a Functions,
    memory: File,
    registers: Registers,
    vectors: Vec<u8>,
    mask: u64,
    /// The return address of the frame on the thread's stack. 0: there is none.
    frame: u64,
    region: u64,
    text_at: u64,
    /// Signals that arrived during a call, and are sent again.
    late: Vec<i32>,
    stopped: Instant,
    /// Processor time of the thread at the beginning and at the end.
    worked: Duration,
    working: Duration,
    stops: u32,
    gone: bool,
    urgent: Urgent,
}

fn request(request: u32, thread: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: the callers pass addresses of structures that live during the call.
    let result = unsafe { libc::ptrace(request, thread, address, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Stops a thread that can be entered; preferably in a call that the system makes again, and the
/// main thread.
pub fn visit<'a>(target: &Target, functions: &'a Functions) -> Result<Visited<'a>, Failure> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", target.pid))?;
    let id = |task: io::Result<std::fs::DirEntry>| task.ok()?.file_name().to_str()?.parse().ok();
    let threads = tasks.filter_map(id).filter_map(|thread: i32| {
        let (number, second, at) = system_call(target.pid, thread)?;
        let waits = is_waiting(number, second) && target.is_libc(at);
        waits.then_some((returns_when_stopped(number), thread as u32 != target.pid, thread))
    });
    let mut threads: Vec<_> = threads.collect();
    threads.sort_unstable();
    for (.., thread) in threads {
        let mut visited = Visited::stop(target.pid, thread, functions)?;
        if visited.is_safe(target)? {
            match visited.prepare() {
                Err(Failure::Busy) => {}
                result => return result.map(|()| visited),
            }
        }
    }
    Err(Failure::Busy)
}

impl<'a> Visited<'a> {
    fn stop(pid: u32, thread: i32, functions: &'a Functions) -> Result<Visited<'a>, Failure> {
        let urgent = Urgent::new(thread);
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        let options = libc::PTRACE_O_TRACESYSGOOD as usize;
        request(libc::PTRACE_SEIZE, thread, 0, options)?;
        // SAFETY: a structure of numbers.
        let registers: Registers = unsafe { std::mem::zeroed() };
        let mut visited = Visited {
            pid,
            thread,
            functions,
            memory,
            registers,
            vectors: Vec::new(),
            mask: 0,
            frame: 0,
            region: 0,
            text_at: TEXTS_AT,
            late: Vec::new(),
            stopped: Instant::now(),
            worked: processor_time(pid, thread),
            working: Duration::ZERO,
            stops: 0,
            gone: false,
            urgent,
        };
        request(libc::PTRACE_INTERRUPT, thread, 0, 0)?;
        loop {
            let status = visited.wait(STOP_WITHIN)?;
            if status >> 16 == libc::PTRACE_EVENT_STOP {
                // The whole process is stopped: another thread may have a lock.
                if libc::WSTOPSIG(status) != libc::SIGTRAP {
                    return Err(Failure::Busy);
                }
                break;
            }
            // A signal that arrived at the same time.
            request(libc::PTRACE_CONT, thread, 0, libc::WSTOPSIG(status) as usize)?;
        }
        visited.registers = visited.get_registers()?;
        Ok(visited)
    }

    /// Waits for the next stop.
    fn wait(&mut self, within: Duration) -> Result<i32, Failure> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.stopped()? {
                return Ok(status);
            }
            if began.elapsed() > within {
                return Err(Failure::Busy);
            }
            pause(began);
        }
    }

    /// The next stop, if there is one.
    fn stopped(&mut self) -> Result<Option<i32>, Failure> {
        let mut status = 0;
        let how = libc::__WALL | libc::WNOHANG;
        // SAFETY: `status` is valid for writing.
        let found = unsafe { libc::waitpid(self.thread, &raw mut status, how) };
        if found == self.thread && libc::WIFSTOPPED(status) {
            self.stops += 1;
            return Ok(Some(status));
        }
        if found == self.thread || (found < 0 && errno() != libc::EINTR) {
            self.gone = true;
            return Err(Failure::Other("it has ended".to_owned()));
        }
        Ok(None)
    }

    /// Whether the thread is in the system call in which it was seen, and in no signal handler,
    /// which could have interrupted the allocator.
    fn is_safe(&self, target: &Target) -> Result<bool, Failure> {
        let registers = &self.registers;
        let waits = is_waiting(registers.orig_rax as i64, registers.rsi);
        if !waits || !target.is_libc(registers.rip) {
            return Ok(false);
        }
        let mut stack = vec![0; 128 << 10];
        let length = self.memory.read_at(&mut stack, registers.rsp)?;
        let words: Vec<u64> = stack[..length].chunks_exact(8).map(word_of).collect();
        let frames =
            words.iter().enumerate().filter(|(_, word)| **word == self.functions.handler_returns);
        Ok(frames.map(|(at, _)| &words[at..]).all(|frame| self.is_harmless(target, frame)))
    }

    /// Whether a frame of a signal handler is none, or one that interrupted code that holds no
    /// lock. Of a handler that has returned, the frame may still be on the stack.
    fn is_harmless(&self, target: &Target, frame: &[u64]) -> bool {
        const USER_CODE: u64 = 0x33;
        let Some(segments) = frame.get(AT_SEGMENTS) else { return true };
        let is_whole = segments & 0xffff == USER_CODE;
        let waits = |at: u64| self.functions.waiting.iter().any(|range| range.contains(&at));
        !is_whole || target.is_program(frame[AT_RIP]) || waits(frame[AT_RIP])
    }

    fn get_registers(&self) -> Result<Registers, Failure> {
        // SAFETY: a structure of numbers, which the request fills in.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETREGS, self.thread, 0, (&raw mut registers) as usize)?;
        Ok(registers)
    }

    fn set_registers(&self, registers: &Registers) -> Result<(), Failure> {
        request(libc::PTRACE_SETREGS, self.thread, 0, std::ptr::from_ref(registers) as usize)?;
        Ok(())
    }

    /// Maps the region.
    fn prepare(&mut self) -> Result<(), Failure> {
        // Where a process may not have such memory, it can never make memory executable.
        let access = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        self.take()?;
        let map = [0, REGION_BYTES, access, private, u64::MAX, 0];
        self.region = self.system_call(libc::SYS_mmap, map)?;
        Ok(())
    }

    /// Saves what calls change, and lets the thread continue from the frame. Blocks signals.
    fn take(&mut self) -> Result<(), Failure> {
        self.frame = 0;
        self.registers = self.get_registers()?;
        self.vectors = vec![0; VECTORS_BYTES];
        let mut all =
            libc::iovec { iov_base: self.vectors.as_mut_ptr().cast(), iov_len: VECTORS_BYTES };
        request(libc::PTRACE_GETREGSET, self.thread, XSTATE, (&raw mut all) as usize)?;
        self.vectors.truncate(all.iov_len);
        request(libc::PTRACE_GETSIGMASK, self.thread, 8, (&raw mut self.mask) as usize)?;
        let (again, returns) = (self.restarted(), self.functions.handler_returns);
        let frame = Frame::new(&again, &self.vectors, self.mask, returns);
        write_as_process(self.pid, &frame.bytes, frame.at)?;
        self.frame = frame.at;
        let (rip, rsp, orig_rax) = (returns, frame.at + 8, u64::MAX);
        self.set_registers(&Registers { rip, rsp, orig_rax, ..self.registers })?;
        // A blocked fault would change the action of its signal.
        let faults = [libc::SIGTRAP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
        let open = faults.iter().fold(0, |open: u64, signal| open | 1 << (signal - 1));
        self.set_mask(!open)
    }

    /// The registers with which the system call is made again.
    fn restarted(&self) -> Registers {
        let mut registers = frame::restarted(&self.registers);
        if is_restartable(&registers) {
            // Without a stop, the call would not have ended.
            registers.rax = registers.orig_rax;
            registers.rip -= 2;
        }
        registers
    }

    fn set_mask(&self, mask: u64) -> Result<(), Failure> {
        request(libc::PTRACE_SETSIGMASK, self.thread, 8, (&raw const mask) as usize)?;
        Ok(())
    }

    fn system_call(&mut self, number: i64, arguments: [u64; 6]) -> Result<u64, Failure> {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let (rip, rsp) = (self.functions.syscall, self.frame);
        let (rax, orig_rax) = (number as u64, u64::MAX);
        let call =
            Registers { rdi, rsi, rdx, r10, r8, r9, rip, rsp, rax, orig_rax, ..self.registers };
        self.set_registers(&call)?;
        // The stops before and after the call.
        let (mut seen, mut pass) = (0, 0);
        while seen < 2 {
            request(libc::PTRACE_SYSCALL, self.thread, 0, pass)?;
            let status = self.wait(CALL_WITHIN)?;
            pass = 0;
            if status >> 8 == libc::SIGTRAP | 0x80 {
                seen += 1;
            } else {
                pass = self.pass_on(status)?;
            }
        }
        let result = self.get_registers()?.rax;
        if result > u64::MAX - 4096 {
            return Err(io::Error::from_raw_os_error(result.wrapping_neg() as i32).into());
        }
        Ok(result)
    }

    /// What to do at a stop that is not the end of a call. Returns the signal that the thread gets
    /// when it continues.
    fn pass_on(&mut self, status: i32) -> Result<usize, Failure> {
        let signal = libc::WSTOPSIG(status);
        // The whole process stops or continues. This thread must run to the end of the call.
        if status >> 16 == libc::PTRACE_EVENT_STOP {
            return Ok(0);
        }
        // The system notes that the process is stopped, and stops this thread when it is left.
        if signal == libc::SIGSTOP {
            return Ok(signal as usize);
        }
        // SAFETY: a structure of numbers, which the request fills in.
        let mut information: libc::siginfo_t = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETSIGINFO, self.thread, 0, (&raw mut information) as usize)?;
        if information.si_code > 0 {
            return Err(Failure::Other(format!(
                "signal {signal} occurred in it while keel called its functions"
            )));
        }
        // Sent by a process.
        self.late.push(signal);
        Ok(0)
    }

    /// Stores a text for a call. Returns its address.
    pub fn text(&mut self, text: &[u8]) -> Result<u64, Failure> {
        let length = text.len() as u64 + 1;
        if self.text_at + length > TEXTS_END {
            return Err(Failure::Other("the paths of keel's files are too long".to_owned()));
        }
        let at = self.region + self.text_at;
        self.memory.write_all_at(&[text, b"\0"].concat(), at)?;
        self.text_at += length;
        Ok(at)
    }

    /// Reads a text of the process.
    pub fn read_text(&self, at: u64) -> String {
        let mut bytes = [0; 512];
        let length = self.memory.read_at(&mut bytes, at).unwrap_or(0);
        let text = bytes[..length].split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    /// Calls functions with two arguments, one after another, until one returns 0. Returns their
    /// results, and that of `if_zero`, which is called then.
    pub fn call(&mut self, calls: &[[u64; 3]], if_zero: u64) -> Result<(Vec<u64>, u64), Failure> {
        let rsp = self.region + REGION_BYTES - 64;
        let rbx = self.region + DATA_AT;
        let mut words = [0; data::WORDS];
        words[data::ERRNO] = self.functions.errno;
        words[data::WAIT + 1] = WAIT_FOR_KEEL_NS;
        words[data::FRAME] = self.frame + 8;
        words[data::IF_ZERO] = if_zero;
        for (call, at) in calls.iter().zip((data::CALLS..).step_by(data::CALL_WORDS)) {
            words[at..at + call.len()].copy_from_slice(call);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        self.memory.write_all_at(&bytes, rbx)?;
        self.memory.write_all_at(frame::code(), self.region)?;
        let (rip, orig_rax) = (self.region, u64::MAX);
        self.set_registers(&Registers { rip, rsp, rbx, orig_rax, ..self.registers })?;
        request(libc::PTRACE_CONT, self.thread, 0, 0)?;
        self.wait_for_calls()?;
        let mut bytes = [0; data::WORDS * 8];
        self.memory.read_exact_at(&mut bytes, rbx)?;
        let words: Vec<u64> = bytes.chunks_exact(8).map(word_of).collect();
        let results = words[data::CALLS..].chunks_exact(data::CALL_WORDS).map(|call| call[3]);
        let results = (results.take(calls.len()).collect(), words[data::REASON]);
        let now = self.get_registers()?;
        if !(self.region..self.region + DATA_AT).contains(&now.rip) {
            // keel was late, so the thread has continued.
            self.urgent.raise();
            self.take()?;
        }
        Ok(results)
    }

    /// Waits until the thread has made its calls, and stops it.
    fn wait_for_calls(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        let mut asked = false;
        loop {
            if let Some(status) = self.stopped()? {
                if asked && status >> 16 == libc::PTRACE_EVENT_STOP {
                    return Ok(());
                }
                let pass = self.pass_on(status)?;
                request(libc::PTRACE_CONT, self.thread, 0, pass)?;
            }
            if !asked && self.word(data::DONE)? != 0 {
                request(libc::PTRACE_INTERRUPT, self.thread, 0, 0)?;
                asked = true;
            }
            if began.elapsed() > CALL_WITHIN {
                return Err(Failure::Busy);
            }
            pause(began);
        }
    }

    /// A word of the data of the thread's code.
    fn word(&self, at: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, self.region + DATA_AT + at as u64 * 8)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Undoes everything, whatever of it fails; the registers last.
    fn restore(&mut self) {
        if self.frame == 0 {
            return;
        }
        if self.region != 0 {
            self.end_calls();
            let (region, bytes) = (self.region, REGION_BYTES);
            drop(self.system_call(libc::SYS_munmap, [region, bytes, 0, 0, 0, 0]));
        }
        let all =
            libc::iovec { iov_base: self.vectors.as_mut_ptr().cast(), iov_len: self.vectors.len() };
        drop(request(libc::PTRACE_SETREGSET, self.thread, XSTATE, (&raw const all) as usize));
        drop(self.set_mask(self.mask));
        // The system makes other calls again itself, and knows the rest of their time limits.
        let again = is_restartable(&self.registers) && !self.has_signals();
        let registers = if again { self.restarted() } else { self.registers };
        drop(self.set_registers(&registers));
        // A later visit must not find the frame.
        drop(self.memory.write_all_at(&[0; 8], self.frame));
        for signal in std::mem::take(&mut self.late) {
            // SAFETY: a system call without pointers.
            unsafe { libc::syscall(libc::SYS_tgkill, self.pid, self.thread, signal) };
        }
    }

    /// What the thread's code does after the calls, if it was interrupted before.
    fn end_calls(&self) {
        let word = |at| self.word(at).unwrap_or_default();
        let at = word(data::ERRNO_AT);
        if at != 0 && word(data::DONE) == 0 {
            let value = word(data::ERRNO_VALUE) as u32;
            drop(self.memory.write_all_at(&value.to_le_bytes(), at));
        }
    }

    /// Whether a signal that is not blocked waits for the thread.
    fn has_signals(&self) -> bool {
        let path = format!("/proc/{}/task/{}/status", self.pid, self.thread);
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let set = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap_or(u64::MAX)
        };
        !self.late.is_empty() || (set("SigPnd") | set("ShdPnd")) & !set("SigBlk") != 0
    }

    /// Lets the thread continue.
    pub fn leave(mut self) -> Visit {
        self.end();
        let (thread, stops) = (self.thread as u32, self.stops);
        let work = self.working.saturating_sub(self.worked);
        Visit { thread, pause: self.stopped.elapsed(), work, stops }
    }

    fn end(&mut self) {
        if !self.gone {
            self.gone = true;
            self.restore();
            self.urgent.lower();
            self.working = processor_time(self.pid, self.thread);
            drop(request(libc::PTRACE_DETACH, self.thread, 0, 0));
        }
    }
}

impl Drop for Visited<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Stores what the process could store itself: a thread's stack may have no room.
fn write_as_process(pid: u32, bytes: &[u8], at: u64) -> Result<(), Failure> {
    let length = bytes.len();
    let from = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: length };
    let to = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: length };
    // SAFETY: `from` is valid for reading, and `to` is of another process.
    let stored =
        unsafe { libc::process_vm_writev(pid as i32, &raw const from, 1, &raw const to, 1, 0) };
    if stored == length as isize { Ok(()) } else { Err(Failure::Busy) }
}

/// Between two looks at the thread. Most calls take less than a millisecond.
fn pause(began: Instant) {
    if began.elapsed() < Duration::from_millis(20) {
        std::thread::sleep(Duration::from_micros(20));
    } else {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The processor time of a thread so far; 0 if the kernel does not count it.
fn processor_time(pid: u32, thread: i32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat"));
    let text = text.unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
