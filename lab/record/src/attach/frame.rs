//! What lets a visited thread continue without keel, which may be killed at any moment.
//!
//! A visit stores a signal frame on the thread's stack, as the system does before it calls a signal
//! handler: all registers, and the signal mask. The thread then gets other registers only together
//! with a stack pointer from which it arrives at the end of the frame's handler (`rt_sigreturn`).
//!
//! ```text
//!   thread's stack    ... | red zone | vector registers | registers, mask | handler's return
//!                         ^ its stack pointer                             ^ of the first calls
//!   region            code | data, texts | stack
//! ```

use std::arch::x86_64::__cpuid_count;

/// Below its stack pointer a function may use this much.
const RED_ZONE: u64 = 128;
/// Where a signal frame has its values, in words from the return address of the handler.
pub const AT_RIP: usize = 22;
pub const AT_SEGMENTS: usize = 24;
const AT_STACK_FLAGS: usize = 4;
const AT_REGISTERS: usize = 6;
const AT_VECTORS: usize = 29;
const AT_MASK: usize = 38;
const FRAME_WORDS: usize = 39;
/// In the state of the vector registers: a note of the system, and what is in use.
const NOTE: usize = 464;
const IN_USE: usize = 512;
/// Of `x87`, SSE and the header, which it always has.
const VECTORS_LEAST: usize = 576;

/// A signal frame.
pub struct Frame {
    /// Where it belongs.
    pub at: u64,
    pub bytes: Vec<u8>,
}

impl Frame {
    /// A frame below the stack pointer. `vectors` is the state as ptrace returns it, `returns` the
    /// code to which signal handlers return.
    pub fn new(registers: &Registers, vectors: &[u8], mask: u64, returns: u64) -> Frame {
        const FIRST_MARK: u64 = 0x4650_5853;
        const LAST_MARK: [u8; 4] = 0x4650_5845_u32.to_le_bytes();
        /// The size and flags of signal stacks are not changed by a frame whose flags are invalid.
        const NO_STACK: u64 = 0xff;
        /// Vector registers are saved, and SS is to be restored.
        const FLAGS: u64 = 7;
        let mut vectors = vectors[..vectors_bytes(vectors)].to_vec();
        let bytes = vectors.len() as u64;
        let mut used = vectors[IN_USE..IN_USE + 8].to_vec();
        // The control word of SSE is restored with its registers.
        used[0] |= 3;
        let note = [FIRST_MARK | (bytes + 4) << 32, 0, bytes];
        for (word, at) in note.iter().zip((NOTE..).step_by(8)) {
            vectors[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        vectors[NOTE + 8..NOTE + 16].copy_from_slice(&used);
        vectors.extend(LAST_MARK);
        let vectors_at = (registers.rsp - RED_ZONE - vectors.len() as u64) & !63;
        // As after a call.
        let at = ((vectors_at - FRAME_WORDS as u64 * 8) & !15) - 8;
        let r = registers;
        let mut words = [0; FRAME_WORDS];
        words[..2].copy_from_slice(&[returns, FLAGS]);
        words[AT_STACK_FLAGS] = NO_STACK;
        words[AT_REGISTERS..=AT_SEGMENTS].copy_from_slice(&[
            r.r8,
            r.r9,
            r.r10,
            r.r11,
            r.r12,
            r.r13,
            r.r14,
            r.r15,
            r.rdi,
            r.rsi,
            r.rbp,
            r.rbx,
            r.rdx,
            r.rax,
            r.rcx,
            r.rsp,
            r.rip,
            r.eflags,
            r.cs & 0xffff | r.ss << 48,
        ]);
        words[AT_VECTORS] = vectors_at;
        words[AT_MASK] = mask;
        let mut frame: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        frame.resize((vectors_at - at) as usize, 0);
        frame.extend(vectors);
        Frame { at, bytes: frame }
    }
}

pub type Registers = libc::user_regs_struct;

/// How much of the state of the vector registers is in use. A process may have less room for it
/// than the processor needs for all.
fn vectors_bytes(vectors: &[u8]) -> usize {
    const STATE: u32 = 13;
    let in_use = u64::from_le_bytes(vectors[IN_USE..IN_USE + 8].try_into().unwrap_or_default());
    let used = (2..63).filter(|part| in_use & 1 << part != 0);
    let ends = used.map(|part| {
        let found = __cpuid_count(STATE, part);
        (found.eax + found.ebx) as usize
    });
    ends.max().unwrap_or(0).clamp(VECTORS_LEAST, vectors.len())
}

/// The registers with which a system call that a stop has interrupted is made again. A wait with a
/// time limit begins again.
pub fn restarted(registers: &Registers) -> Registers {
    /// `ERESTARTSYS`, `ERESTARTNOINTR`, `ERESTARTNOHAND`, `ERESTART_RESTARTBLOCK`.
    const RESTARTS: [i64; 4] = [-512, -513, -514, -516];
    let mut again = *registers;
    if again.orig_rax as i64 >= 0 && RESTARTS.contains(&(again.rax as i64)) {
        again.rax = again.orig_rax;
        again.rip -= 2;
    }
    again
}

/// The data of the code that a thread executes in a visit, in words.
pub mod data {
    pub const ERRNO: usize = 0;
    pub const DONE: usize = 1;
    pub const WAIT: usize = 2;
    pub const FRAME: usize = 4;
    pub const IF_ZERO: usize = 5;
    pub const REASON: usize = 6;
    pub const ERRNO_AT: usize = 7;
    pub const ERRNO_VALUE: usize = 8;
    pub const CALLS: usize = 9;
    pub const CALLS_MAX: usize = 3;
    /// A call's function, two arguments and result.
    pub const CALL_WORDS: usize = 4;
    /// In place of the function or the first argument.
    pub const RESULT_BEFORE: u64 = 1;
    /// The calls end with a function of 0.
    pub const WORDS: usize = CALLS + CALLS_MAX * CALL_WORDS + 1;
}

// `rbx` is the address of the data. Functions keep it and r12. The code makes the calls until one
// returns 0, restores errno, marks the end, and gives keel time to restore the thread. Without keel
// it then does so itself.
std::arch::global_asm!(
    ".pushsection .rodata.keel_visit,\"a\",@progbits",
    // The function that reads the code may be in another unit of compilation.
    ".globl keel_visit_code, keel_visit_code_end",
    ".hidden keel_visit_code, keel_visit_code_end",
    "keel_visit_code:",
    "cld",
    "call *0(%rbx)", // errno's address
    "mov %rax, 56(%rbx)",
    "mov (%rax), %ecx",
    "mov %rcx, 64(%rbx)",
    "lea 72(%rbx), %r12",
    "xor %eax, %eax",
    "2:",
    "mov (%r12), %rcx",
    "test %rcx, %rcx",
    "jz 3f",
    "mov 8(%r12), %rdi",
    "mov 16(%r12), %rsi",
    "cmp $1, %rcx",
    "cmove %rax, %rcx",
    "cmp $1, %rdi",
    "cmove %rax, %rdi",
    "call *%rcx",
    "mov %rax, 24(%r12)",
    "add $32, %r12",
    "test %rax, %rax",
    "jnz 2b",
    "mov 40(%rbx), %rcx",
    "test %rcx, %rcx",
    "jz 3f",
    "call *%rcx",
    "mov %rax, 48(%rbx)",
    "3:",
    "mov 56(%rbx), %rcx",
    "mov 64(%rbx), %rdx",
    "mov %edx, (%rcx)",
    "movq $1, 8(%rbx)", // the end
    "xor %edi, %edi",   // ppoll(NULL, 0, &wait, NULL, 8)
    "xor %esi, %esi",
    "lea 16(%rbx), %rdx",
    "xor %r10d, %r10d",
    "mov $8, %r8d",
    "mov $271, %eax",
    "syscall",
    "mov 32(%rbx), %rsp",
    "mov $15, %eax", // rt_sigreturn
    "syscall",
    "keel_visit_code_end:",
    ".popsection",
    options(att_syntax)
);

/// The code.
pub fn code() -> &'static [u8] {
    unsafe extern "C" {
        static keel_visit_code: u8;
        static keel_visit_code_end: u8;
    }
    let (start, end) = (&raw const keel_visit_code, &raw const keel_visit_code_end);
    // SAFETY: both are in the same section, whose bytes are never written.
    unsafe { std::slice::from_raw_parts(start, end as usize - start as usize) }
}
