// The end of a program whose heap cannot be trusted any more.
//
// The registered output function prints one documented sentence per fault, listed in
// docs/reference/faults.md, and the pointer, and aborts. `base` makes no system call, so a higher
// layer registers that function at process start. Before that, and in programs that never start the
// allocator, a trap instruction ends the process.
#ifndef KEEL_BASE_PANIC_H
#define KEEL_BASE_PANIC_H

#include "base/attributes.h"
#include <stddef.h>
#include <stdint.h>

enum fault {
    FAULT_FREE_NOT_ALLOCATED, // free of an address in Keel's memory without a live block
    FAULT_FREE_MISALIGNED,    // free of an address inside a block
    FAULT_CORRUPT,            // an invariant of Keel's own data does not hold
    FAULT_DOUBLE_FREE,        // free of a block that is free
    FAULT_OVERFLOW,           // a write over the end of a block
    FAULT_UNDERFLOW,          // a write before the start of a block
    FAULT_AFTER_FREE,         // a write to a free block
    FAULT_LIVE_IN_LIST,       // a live block is in a list of free blocks
    FAULT_FREE_SIZE,          // free with a size that the block cannot have
    FAULT_FREE_KIND,          // free by a function for blocks of another kind
    FAULT_COPY_END,           // memcpy, memmove or memset beyond the end of a block
    FAULT_COPY_FREE,          // the same in a block that is not allocated
    FAULT_FREE_FOREIGN,       // free of an address that is not Keel's: only a warning
    FAULT_COUNT
};

typedef void (*panic_output)(enum fault fault, const char* text, size_t length);

// Called once, at process start. `output` writes the text and does not return into the heap.
void panic_set_output(panic_output output);

// The number of the calling thread, for the messages of `panic`. Without it they have none.
void panic_set_thread(uint32_t (*thread)(void));

// The same for faults that do no harm: `output` returns. Without it, `warn` has no effect.
void warn_set_output(panic_output output);
KEEL_COLD void warn(enum fault fault, const void* about);

// The sentence for `fault`, as it is printed.
const char* panic_sentence(enum fault fault);

KEEL_COLD KEEL_NORETURN void panic(enum fault fault, const void* about);

// The same for a fault of a block of known size. What is 0 is not printed.
struct fault_block {
    size_t bytes;      // that the program can use
    uint32_t freed_by; // the thread that freed it before
    uint32_t thread;   // the calling thread
};
KEEL_COLD KEEL_NORETURN void panic_block(enum fault fault, const void* about,
                                         struct fault_block block);

// The same for a fault after which the process goes on, because the program asked for that:
// `output` returns. Without it, they have no effect.
void report_set_output(panic_output output);
KEEL_COLD void report_block(enum fault fault, const void* about, struct fault_block block);
KEEL_COLD void report_text(enum fault fault, const char* text, size_t length);

// Passes a whole text to the output: of the debug flavour, which prints more than one line.
KEEL_COLD KEEL_NORETURN void panic_text(enum fault fault, const char* text, size_t length);

// Invariants of Keel's own data. KEEL_ASSERT is compiled into the debug flavour and into
// KEEL_CHECKED builds (the tests run on one), KEEL_REQUIRE into every build.
// The message of KEEL_ASSERT ends with the function and the condition.
#define KEEL_CHECKS (KEEL_CHECKED || KEEL_DEBUG) // a *_check function of a module looks, too
#if KEEL_CHECKED || KEEL_DEBUG
KEEL_COLD KEEL_NORETURN void panic_assert(const char* function, const char* condition);
#define KEEL_ASSERT_FAILS(condition) panic_assert(__func__, condition)
#else
#define KEEL_ASSERT_FAILS(condition) panic(FAULT_CORRUPT, NULL)
#endif
#define KEEL_ASSERT(condition)                                                                     \
    do {                                                                                           \
        if (KEEL_CHECKS && KEEL_UNLIKELY(!(condition))) KEEL_ASSERT_FAILS(#condition);             \
    } while (0)
#define KEEL_REQUIRE(condition, about)                                                             \
    do {                                                                                           \
        if (KEEL_UNLIKELY(!(condition))) panic(FAULT_CORRUPT, (about));                            \
    } while (0)

#endif
