// Coroutines with their own stacks. x86-64: six registers and the stack pointer.
#include "engine.h"

#define STACK_BYTES ((size_t)64 * 1024)

static _Alignas(64) char stacks[THREADS_MAX + 2][STACK_BYTES]; // the explorer's own is unused
static void* stack_pointers[THREADS_MAX + 2];

void switch_stacks(void** save, void* load);
__asm__(".text\n"
        ".type switch_stacks, @function\n"
        "switch_stacks:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size switch_stacks, .-switch_stacks\n");

void switch_prepare(unsigned slot, void (*run)(void)) {
    // As if `run` had been called: the stack pointer is 8 below a multiple of 16 at its first
    // instruction.
    void** top = (void**)(stacks[slot] + STACK_BYTES - 16);
    *--top = NULL; // the return address: `run` never returns
    *--top = *(void**)&run;
    for (unsigned i = 0; i < 6; i++) *--top = NULL;
    stack_pointers[slot] = top;
}

void switch_to(unsigned from, unsigned to) {
    switch_stacks(&stack_pointers[from], stack_pointers[to]);
}

bool switch_is_stack(const void* p) {
    return (const char*)p >= stacks[0] && (const char*)p < stacks[0] + sizeof stacks;
}
