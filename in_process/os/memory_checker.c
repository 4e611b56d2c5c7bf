// valgrind: client requests, as valgrind's manual describes them: a sequence of instructions that
// does nothing on a processor, with the address of the request's words in one register and the
// result in another. AddressSanitizer: functions of its runtime, if the program contains it.
#include "os/memory_checker.h"
#include <stdint.h>

bool os_checker_runs;

// --- valgrind ------------------------------------------------------------------------------------

enum {
    RUNNING = 0x1001, // the depth of valgrinds
    BLOCK_BEGINS = 0x1301,
    BLOCK_ENDS = 0x1302,
    BLOCK_RESIZED = 0x130b,
    CHANGE_PAUSES = 0x1801,
    FORBID = 'M' << 24 | 'C' << 16, // of memcheck
    ALLOW_DEFINED = FORBID + 2,
};

static uintptr_t request(uintptr_t code, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d) {
    const volatile uintptr_t words[6] = {code, a, b, c, d, 0};
    uintptr_t result = 0;
#if defined(__x86_64__)
    __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(result)
                     : "a"(words)
                     : "cc", "memory");
#elif defined(__aarch64__)
    register uintptr_t answer __asm__("x3") = 0;
    register const volatile uintptr_t* at __asm__("x4") = words;
    __asm__ volatile("ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61\n\t"
                     "orr x10, x10, x10"
                     : "+r"(answer)
                     : "r"(at)
                     : "cc", "memory", "x12");
    result = answer;
#else
    (void)words;
#endif
    return result;
}

static bool valgrind_runs;

bool os_valgrind_runs(void) {
    return request(RUNNING, 0, 0, 0, 0) != 0;
}

// --- AddressSanitizer ----------------------------------------------------------------------------

#if defined(__SANITIZE_ADDRESS__)
#define SELF_CHECKED 1 // Keel's own accesses would be faults
#else
#define SELF_CHECKED 0
#endif

extern void __asan_poison_memory_region(const void* start, size_t bytes) __attribute__((weak));
extern void __asan_unpoison_memory_region(const void* start, size_t bytes) __attribute__((weak));

extern uintptr_t __asan_shadow_memory_dynamic_address __attribute__((weak)); // 0 before it starts

static bool asan_is_there(void) {
    return !SELF_CHECKED && __asan_poison_memory_region != NULL &&
           __asan_unpoison_memory_region != NULL;
}

// Behind Keel in the order of loading, it starts after Keel.
static bool asan_runs(void) {
    return asan_is_there() && (&__asan_shadow_memory_dynamic_address == NULL ||
                               *(volatile uintptr_t*)&__asan_shadow_memory_dynamic_address != 0);
}

// --- Both ----------------------------------------------------------------------------------------

void os_checker_prepare(void) {
    valgrind_runs = os_valgrind_runs();
    os_checker_runs = valgrind_runs || asan_is_there();
}

void os_checker_block_begins(const void* block, size_t bytes, bool zeroed) {
    if (valgrind_runs) (void)request(BLOCK_BEGINS, (uintptr_t)block, bytes, 0, zeroed);
    if (asan_runs()) __asan_unpoison_memory_region(block, bytes);
}

void os_checker_block_resized(const void* block, size_t before, size_t bytes) {
    if (valgrind_runs) (void)request(BLOCK_RESIZED, (uintptr_t)block, before, bytes, 0);
    if (asan_runs()) __asan_unpoison_memory_region(block, bytes);
}

void os_checker_block_ends(const void* block, size_t bytes) {
    if (valgrind_runs) (void)request(BLOCK_ENDS, (uintptr_t)block, 0, 0, 0);
    if (asan_runs()) __asan_poison_memory_region(block, bytes);
}

void os_checker_forbid(const void* start, size_t bytes) {
    if (valgrind_runs) (void)request(FORBID, (uintptr_t)start, bytes, 0, 0);
    if (asan_runs()) __asan_poison_memory_region(start, bytes);
}

void os_checker_allow(const void* start, size_t bytes) {
    if (valgrind_runs) (void)request(ALLOW_DEFINED, (uintptr_t)start, bytes, 0, 0);
    if (asan_runs()) __asan_unpoison_memory_region(start, bytes);
}

void os_checker_pause(void) {
    if (valgrind_runs) (void)request(CHANGE_PAUSES, 1, 0, 0, 0);
}

void os_checker_resume(void) {
    if (valgrind_runs) (void)request(CHANGE_PAUSES, (uintptr_t)-1, 0, 0, 0);
}
