//! Calls functions in a thread of another process.
//!
//! The thread is one that waits in a system call such as `poll`, so that it holds no lock of the
//! allocator or of the loader. It is stopped, calls the functions on a stack of its own, and
//! continues with the same registers, signal mask and errno: the kernel then restarts the system
//! call. The other threads are not stopped.

use super::target::{Functions, Target};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

/// The memory that the calls use: a page with code and texts, and a stack.
const REGION_BYTES: u64 = 260 << 10;
const CODE_BYTES: u64 = 4096;
/// Code: `call *%rax; int3`.
const CALL: [u8; 3] = [0xff, 0xd0, 0xcc];
/// Where the first text begins, and the room for each.
const TEXTS_AT: u64 = 64;
/// The states of the processor's registers for numbers and vectors take no more.
const VECTORS_BYTES: usize = 16384;
/// From the request to stop to the stop.
const STOP_WITHIN: Duration = Duration::from_secs(2);
/// A call never waits for long, unless a stopped thread has a lock. It must not be left before its
/// end.
const CALL_WITHIN: Duration = Duration::from_secs(3600);

/// What a visit cost the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Visit {
    /// The thread.
    pub thread: u32,
    /// How long it did not run its own code.
    pub pause: Duration,
    /// The processor time that it took in the pause. Waits for a processor make the pause longer.
    pub work: Duration,
    /// How often it was stopped, by ptrace's count.
    pub stops: u32,
}

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
    registers: libc::user_regs_struct,
    /// The registers were read.
    is_saved: bool,
    vectors: Vec<u8>,
    mask: Option<u64>,
    errno: Option<(u64, [u8; 4])>,
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
}

fn request(request: u32, thread: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: the callers pass addresses of structures that live during the call.
    let result = unsafe { libc::ptrace(request, thread, address, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// System calls in which a thread waits for others or for time. Their numbers, and for futex the
/// operation: the locks of the allocator and of the loader use FUTEX_WAIT, condition variables,
/// semaphores and `pthread_join` FUTEX_WAIT_BITSET.
fn is_waiting(number: i64, second: u64) -> bool {
    if number == libc::SYS_futex {
        return second as i32 & 0x7f == libc::FUTEX_WAIT_BITSET;
    }
    [
        libc::SYS_read,
        libc::SYS_poll,
        libc::SYS_ppoll,
        libc::SYS_select,
        libc::SYS_pselect6,
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_wait4,
        libc::SYS_waitid,
        libc::SYS_pause,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_rt_sigsuspend,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_msgrcv,
        libc::SYS_io_getevents,
    ]
    .contains(&number)
}

/// Whether a stop made a system call return EINTR that the system does not restart, and that waits
/// without a time limit, so that it can be made again.
fn is_restartable(registers: &libc::user_regs_struct) -> bool {
    let no_limit = match registers.orig_rax as i64 {
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => registers.r10 as i32 == -1,
        libc::SYS_epoll_pwait2 | libc::SYS_semtimedop => registers.r10 == 0,
        libc::SYS_rt_sigtimedwait => registers.rdx == 0,
        libc::SYS_semop => true,
        _ => false,
    };
    no_limit && registers.rax as i64 == -i64::from(libc::EINTR)
}

/// Whether a stop makes a system call return EINTR, if it has a time limit.
fn returns_when_stopped(number: i64) -> bool {
    let calls = [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_semtimedop,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_io_getevents,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
    ];
    calls.contains(&number)
}

/// The system call of a thread that sleeps: its number, its second argument, and where it returns.
fn system_call(pid: u32, thread: i32) -> Option<(i64, u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let hex = |at: usize| u64::from_str_radix(words.get(at)?.trim_start_matches("0x"), 16).ok();
    Some((words.first()?.parse().ok()?, hex(2)?, hex(8)?))
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
            visited.prepare()?;
            return Ok(visited);
        }
    }
    Err(Failure::Busy)
}

impl<'a> Visited<'a> {
    fn stop(pid: u32, thread: i32, functions: &'a Functions) -> Result<Visited<'a>, Failure> {
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        let options = libc::PTRACE_O_TRACESYSGOOD as usize;
        request(libc::PTRACE_SEIZE, thread, 0, options)?;
        // SAFETY: a structure of numbers.
        let registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let mut visited = Visited {
            pid,
            thread,
            functions,
            memory,
            registers,
            is_saved: false,
            vectors: Vec::new(),
            mask: None,
            errno: None,
            region: 0,
            text_at: TEXTS_AT,
            late: Vec::new(),
            stopped: Instant::now(),
            worked: processor_time(pid, thread),
            working: Duration::ZERO,
            stops: 0,
            gone: false,
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
        visited.is_saved = true;
        Ok(visited)
    }

    /// Waits for the next stop.
    fn wait(&mut self, within: Duration) -> Result<i32, Failure> {
        let began = Instant::now();
        loop {
            let mut status = 0;
            // SAFETY: `status` is valid for writing.
            let found = unsafe {
                libc::waitpid(self.thread, &raw mut status, libc::__WALL | libc::WNOHANG)
            };
            if found == self.thread && libc::WIFSTOPPED(status) {
                self.stops += 1;
                return Ok(status);
            }
            if found == self.thread || (found < 0 && errno() != libc::EINTR) {
                self.gone = true;
                return Err(Failure::Other("it has ended".to_owned()));
            }
            if began.elapsed() > within {
                return Err(Failure::Busy);
            }
            // Most calls take less than a millisecond.
            if began.elapsed() > Duration::from_millis(20) {
                std::thread::sleep(Duration::from_micros(200));
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Whether the thread is in the system call in which it was seen, and in no signal handler,
    /// which could have interrupted the allocator.
    fn is_safe(&self, target: &Target) -> Result<bool, Failure> {
        let registers = &self.registers;
        let waits = is_waiting(registers.orig_rax as i64, registers.rsi);
        if !waits || !target.is_libc(registers.rip) {
            return Ok(false);
        }
        let Some(returns) = self.functions.handler_returns else { return Ok(true) };
        let mut stack = vec![0; 128 << 10];
        let length = self.memory.read_at(&mut stack, registers.rsp)?;
        let words: Vec<u64> = stack[..length].chunks_exact(8).map(word_of).collect();
        let frames = words.iter().enumerate().filter(|(_, word)| **word == returns);
        Ok(frames.map(|(at, _)| &words[at..]).all(|frame| self.is_harmless(target, frame)))
    }

    /// Whether a frame of a signal handler is none, or one that interrupted code that holds no
    /// lock. Of a handler that has returned, the frame may still be on the stack.
    fn is_harmless(&self, target: &Target, frame: &[u64]) -> bool {
        /// Where the registers of the interrupted code are, in words from the return address.
        const RIP: usize = 22;
        const SEGMENTS: usize = 24;
        const USER_CODE: u64 = 0x33;
        let Some(segments) = frame.get(SEGMENTS) else { return true };
        let is_whole = segments & 0xffff == USER_CODE;
        let waits = |at: u64| self.functions.waiting.iter().any(|range| range.contains(&at));
        !is_whole || target.is_program(frame[RIP]) || waits(frame[RIP])
    }

    fn get_registers(&self) -> Result<libc::user_regs_struct, Failure> {
        // SAFETY: a structure of numbers, which the request fills in.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETREGS, self.thread, 0, (&raw mut registers) as usize)?;
        Ok(registers)
    }

    fn set_registers(&self, registers: &libc::user_regs_struct) -> Result<(), Failure> {
        request(libc::PTRACE_SETREGS, self.thread, 0, std::ptr::from_ref(registers) as usize)?;
        Ok(())
    }

    /// Saves what calls change, blocks signals, and maps the region.
    fn prepare(&mut self) -> Result<(), Failure> {
        const XSTATE: usize = 0x202;
        self.vectors = vec![0; VECTORS_BYTES];
        let mut all =
            libc::iovec { iov_base: self.vectors.as_mut_ptr().cast(), iov_len: VECTORS_BYTES };
        request(libc::PTRACE_GETREGSET, self.thread, XSTATE, (&raw mut all) as usize)?;
        self.vectors.truncate(all.iov_len);
        let mut mask: u64 = 0;
        request(libc::PTRACE_GETSIGMASK, self.thread, 8, (&raw mut mask) as usize)?;
        self.mask = Some(mask);
        // A blocked fault would change the action of its signal.
        let faults = [libc::SIGTRAP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
        let open = faults.iter().fold(0, |open: u64, signal| open | 1 << (signal - 1));
        self.set_mask(!open)?;
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let writable = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let map = [0, REGION_BYTES, writable, private, u64::MAX, 0];
        self.region = self.system_call(libc::SYS_mmap, map)?;
        let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        self.system_call(libc::SYS_mprotect, [self.region, CODE_BYTES, code, 0, 0, 0])?;
        self.memory.write_all_at(&CALL, self.region)?;
        if let Some(location) = self.functions.errno {
            let at = self.call(location, [0, 0])?;
            let mut value = [0; 4];
            self.memory.read_exact_at(&mut value, at)?;
            self.errno = Some((at, value));
        }
        Ok(())
    }

    fn set_mask(&self, mask: u64) -> Result<(), Failure> {
        request(libc::PTRACE_SETSIGMASK, self.thread, 8, (&raw const mask) as usize)?;
        Ok(())
    }

    fn system_call(&mut self, number: i64, arguments: [u64; 6]) -> Result<u64, Failure> {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let rip = self.functions.syscall;
        let (rax, orig_rax) = (number as u64, u64::MAX);
        let call = libc::user_regs_struct {
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            rip,
            rax,
            orig_rax,
            ..self.registers
        };
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
        if self.text_at + length > CODE_BYTES {
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

    /// Calls a function. Returns its result.
    pub fn call(&mut self, function: u64, arguments: [u64; 2]) -> Result<u64, Failure> {
        let [rdi, rsi] = arguments;
        let rsp = self.region + REGION_BYTES - 64;
        let call = libc::user_regs_struct {
            rax: function,
            rdi,
            rsi,
            rsp,
            rip: self.region,
            orig_rax: u64::MAX,
            eflags: self.registers.eflags & !0x400,
            ..self.registers
        };
        self.set_registers(&call)?;
        let mut pass = 0;
        loop {
            request(libc::PTRACE_CONT, self.thread, 0, pass)?;
            let status = self.wait(CALL_WITHIN)?;
            if status >> 8 == libc::SIGTRAP {
                let registers = self.get_registers()?;
                if registers.rip == self.region + CALL.len() as u64 {
                    return Ok(registers.rax);
                }
            }
            pass = self.pass_on(status)?;
        }
    }

    /// Undoes everything, whatever of it fails; the registers last.
    fn restore(&mut self) {
        const XSTATE: usize = 0x202;
        if !self.is_saved {
            return;
        }
        if let Some((at, value)) = self.errno {
            drop(self.memory.write_all_at(&value, at));
        }
        if self.region != 0 {
            let (region, bytes) = (self.region, REGION_BYTES);
            drop(self.system_call(libc::SYS_munmap, [region, bytes, 0, 0, 0, 0]));
        }
        if let Some(mask) = self.mask {
            let all = libc::iovec {
                iov_base: self.vectors.as_mut_ptr().cast(),
                iov_len: self.vectors.len(),
            };
            drop(request(libc::PTRACE_SETREGSET, self.thread, XSTATE, (&raw const all) as usize));
            drop(self.set_mask(mask));
        }
        let mut registers = self.registers;
        if is_restartable(&registers) && !self.has_signals() {
            // Without a stop, the call would not have ended.
            registers.rax = registers.orig_rax;
            registers.rip -= 2;
        }
        drop(self.set_registers(&registers));
        for signal in std::mem::take(&mut self.late) {
            // SAFETY: a system call without pointers.
            unsafe { libc::syscall(libc::SYS_tgkill, self.pid, self.thread, signal) };
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
