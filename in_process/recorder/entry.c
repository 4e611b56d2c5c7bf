#include "entry.h"

#include "base/attributes.h"

#if defined(__x86_64__)
#include <cpuid.h>

// The code below uses these.
enum save { SAVE_NONE, SAVE_OLD, SAVE_ALL, SAVE_COMPACT }; // -, fxsave, xsave, xsavec
#define USED_BELOW KEEL_HIDDEN __attribute__((used))
USED_BELOW entry_function keel_entry_function;
USED_BELOW uint64_t keel_entry_bytes; // for the state of the vectors
USED_BELOW uint32_t keel_entry_state; // which parts of it, as XCR0 numbers them
static enum save possible;
static entry_test is_simple;

uint32_t keel_entry_save(size_t index, const struct entry_registers* registers);
USED_BELOW uint32_t keel_entry_save(size_t index, const struct entry_registers* registers) {
    return is_simple(index, registers) ? SAVE_NONE : possible;
}

// From the higher address: the return address, the caller's rbp (where rbp points), the registers
// in the reverse order of struct entry_registers, the index, enum save, and the state. The unwind
// tables describe it, so call stacks and exceptions pass.
__asm__(".pushsection .text\n"
        ".p2align 4\n"
        ".hidden keel_entry\n"
        ".globl keel_entry\n"
        ".type keel_entry, @function\n"
        "keel_entry:\n"
        ".cfi_startproc\n"
        ".cfi_def_cfa_offset 16\n"
        "endbr64\n"
        "pushq %rax\n"
        ".cfi_adjust_cfa_offset 8\n"
        "movq 8(%rsp), %rax\n" // the index
        "movq %rbp, 8(%rsp)\n"
        ".cfi_offset %rbp, -16\n"
        "leaq 8(%rsp), %rbp\n"
        ".cfi_def_cfa %rbp, 16\n"
        "pushq %r11\n"
        "pushq %r10\n"
        "pushq %r9\n"
        "pushq %r8\n"
        "pushq %rcx\n"
        "pushq %rdx\n"
        "pushq %rsi\n"
        "pushq %rdi\n"
        "movq %rax, %rdi\n"
        "movq %rsp, %rsi\n"
        "pushq %rax\n"
        "andq $-16, %rsp\n"
        "call keel_entry_save\n"
        "leaq -80(%rbp), %rsp\n"
        "pushq %rax\n"
        "movl %eax, %ecx\n"
        "testl %ecx, %ecx\n"
        "je 3f\n"
        "subq keel_entry_bytes(%rip), %rsp\n"
        "andq $-64, %rsp\n"
        "cmpl $2, %ecx\n"
        "jb 1f\n"
        "movl keel_entry_state(%rip), %eax\n"
        "movl $0, %edx\n"        // keeps the flags of cmpl
        "movq %rdx, 512(%rsp)\n" // xrstor refuses other bits in the header
        "movq %rdx, 520(%rsp)\n"
        "movq %rdx, 528(%rsp)\n"
        "movq %rdx, 536(%rsp)\n"
        "movq %rdx, 544(%rsp)\n"
        "movq %rdx, 552(%rsp)\n"
        "movq %rdx, 560(%rsp)\n"
        "movq %rdx, 568(%rsp)\n"
        "je 2f\n"
        "xsavec (%rsp)\n"
        "jmp 3f\n"
        "1: fxsave (%rsp)\n"
        "jmp 3f\n"
        "2: xsave (%rsp)\n"
        "3: andq $-16, %rsp\n"
        "movq -80(%rbp), %rdi\n"
        "leaq -72(%rbp), %rsi\n"
        "movq 8(%rbp), %rdx\n"
        "call *keel_entry_function(%rip)\n"
        "movq %rax, -8(%rbp)\n"
        "movl -88(%rbp), %ecx\n"
        "testl %ecx, %ecx\n"
        "je 5f\n"
        "cmpl $2, %ecx\n"
        "jb 4f\n"
        "movl keel_entry_state(%rip), %eax\n"
        "xorl %edx, %edx\n"
        "xrstor (%rsp)\n"
        "jmp 5f\n"
        "4: fxrstor (%rsp)\n"
        "5: leaq -72(%rbp), %rsp\n"
        "popq %rdi\n"
        "popq %rsi\n"
        "popq %rdx\n"
        "popq %rcx\n"
        "popq %r8\n"
        "popq %r9\n"
        "popq %r10\n"
        "popq %r11\n"
        "popq %rax\n"
        "popq %rbp\n"
        ".cfi_def_cfa %rsp, 8\n"
        ".cfi_restore %rbp\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size keel_entry, . - keel_entry\n"
        ".popsection\n");
extern KEEL_HIDDEN const char keel_entry[];

enum { STATE_LEAF = 13, LEGACY_BYTES = 512, HEADER_BYTES = 64, FIRST_EXTENDED = 2 };

// x87 and MMX, SSE, AVX, the three parts of AVX-512, and the registers of APX. Not the tiles: no
// compiler keeps values in them across a call.
static const uint32_t caller_saved = 0xe7 | 1u << 19;

static uint32_t enabled_state(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

// The size of a saved part, and where it is in the format that is not compact.
static void part_read(unsigned part, uint32_t* bytes, uint32_t* offset) {
    uint32_t flags, unused;
    __cpuid_count(STATE_LEAF, part, *bytes, *offset, flags, unused);
    (void)flags;
    (void)unused;
}

static void save_choose(void) {
    uint32_t a, b, features, d;
    __cpuid(1, a, b, features, d);
    possible = SAVE_OLD;
    keel_entry_bytes = LEGACY_BYTES;
    if ((features & bit_OSXSAVE) == 0) return;
    __cpuid_count(STATE_LEAF, 1, a, b, features, d);
    bool is_compact = (a & bit_XSAVEC) != 0;
    possible = is_compact ? SAVE_COMPACT : SAVE_ALL;
    keel_entry_state = enabled_state() & caller_saved;
    keel_entry_bytes = LEGACY_BYTES + HEADER_BYTES;
    for (unsigned part = FIRST_EXTENDED; part < 32; part++) {
        uint32_t bytes, offset;
        if ((keel_entry_state >> part & 1) == 0) continue;
        part_read(part, &bytes, &offset);
        // A part may begin at the next multiple of 64.
        if (is_compact) offset = (uint32_t)((keel_entry_bytes + 63) & ~UINT64_C(63));
        if (offset + bytes > keel_entry_bytes) keel_entry_bytes = offset + bytes;
    }
}

uintptr_t entry_prepare(entry_function function, entry_test test) {
    save_choose();
    keel_entry_function = function;
    is_simple = test;
    return (uintptr_t)keel_entry;
}
#else
uintptr_t entry_prepare(entry_function function, entry_test test) {
    (void)function;
    (void)test;
    return 0;
}
#endif
