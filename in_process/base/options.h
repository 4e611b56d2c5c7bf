// The options: one number each, from its default, the environment, or a call.
//
// keel/runtime.h documents them. The numbers up to OPTION_MAX_ERRORS are those of mimalloc 1.6.3;
// the numbers without a name here belong to options of mimalloc that have no effect in Keel. Their
// values are kept for keel/mimalloc-options.h, but the environment does not set them. Any thread
// may read and set options at any time; a reader sees the old or the new value.
#ifndef KEEL_BASE_OPTIONS_H
#define KEEL_BASE_OPTIONS_H

#include "base/atomic.h"

enum option {
    OPTION_SHOW_ERRORS = 0,
    OPTION_SHOW_STATS = 1,
    OPTION_VERBOSE = 2,
    OPTION_LARGE_OS_PAGES = 6,
    OPTION_RESERVE_HUGE_OS_PAGES = 7,
    OPTION_RESET_DELAY = 13, // milliseconds until unused memory is returned
    OPTION_USE_NUMA_NODES = 14,
    OPTION_MAX_ERRORS = 16,
    OPTION_KEEPER = 17,        // enum keeper_choice
    OPTION_FOREIGN_FREE = 18,  // 1: free of another allocator's pointer ends the process
    OPTION_LIMIT = 19,         // bytes that may be held, 0: no limit
    OPTION_ZERO_ON_FREE = 20,  // 1: the secure flavour zeroes freed blocks; read once
    OPTION_GUARD_RATE = 21,    // one allocation in this many is guarded, 0: none; read once
    OPTION_GUARD_SEED = 22,    // of the choice of these, 0: a random one; read once
    OPTION_GUARD_HANDLER = 23, // 1: faults at guarded blocks are reported; read once
    OPTION_SIZED_FREE = 24,    // enum sized_free_choice
    OPTION_COUNT
};

enum keeper_choice {
    KEEPER_NEVER,
    KEEPER_ALWAYS, // also when the process of one thread has grown
    KEEPER_AUTO,   // once a second thread allocates
};

// What happens at a free with a size that is not the block's. The plain flavour never verifies it.
enum sized_free_choice {
    SIZED_FREE_ANY,    // the size is not verified
    SIZED_FREE_ABORT,  // the process ends
    SIZED_FREE_REPORT, // a message; then the block is freed
};

extern atomic_signed option_values[OPTION_COUNT];

KEEL_INLINE int64_t option_get(enum option option) {
    return atomic_get(&option_values[option]);
}

void option_set(enum option option, int64_t value);

// Only if neither the environment nor a call has set it.
void option_set_default(enum option option, int64_t value);

// In lower case: the name in the environment after KEEL_ or MIMALLOC_. NULL: an option of mimalloc
// that has no effect.
const char* option_name(enum option option);

// `environment` is a NULL-terminated list of NAME=VALUE, or NULL. KEEL_* overrides MIMALLOC_*.
// Unknown names are ignored. An entry with an invalid value is passed to `invalid` and changes
// nothing.
typedef void options_invalid_entry(const char* entry);
void options_parse(char* const* environment, options_invalid_entry* invalid);

#endif
