// What the user may choose: one number an option, from its default, the environment, or a call.
//
// The names and their order up to OPTION_MAX_ERRORS are those of mimalloc 1.6.3; what each means here is in
// keel/runtime.h. Any thread may read and set them at any time; a reader sees a value that was set, old or new.
#ifndef KEEL_BASE_OPTIONS_H
#define KEEL_BASE_OPTIONS_H

#include "base/atomic.h"

enum option {
    OPTION_SHOW_ERRORS,
    OPTION_SHOW_STATS,
    OPTION_VERBOSE,
    OPTION_EAGER_COMMIT,
    OPTION_EAGER_REGION_COMMIT,
    OPTION_RESET_DECOMMITS,
    OPTION_LARGE_OS_PAGES,
    OPTION_RESERVE_HUGE_OS_PAGES,
    OPTION_SEGMENT_CACHE,
    OPTION_PAGE_RESET,
    OPTION_ABANDONED_PAGE_RESET,
    OPTION_SEGMENT_RESET,
    OPTION_EAGER_COMMIT_DELAY,
    OPTION_RESET_DELAY, // milliseconds until unused memory is given back
    OPTION_USE_NUMA_NODES,
    OPTION_OS_TAG,
    OPTION_MAX_ERRORS,
    // Keel's own
    OPTION_KEEPER,       // enum keeper_choice
    OPTION_FOREIGN_FREE, // 1: free of another allocator's pointer ends the process
    OPTION_LIMIT,        // bytes that may be held, 0: no limit
    OPTION_COUNT
};

enum keeper_choice {
    KEEPER_NEVER,
    KEEPER_ALWAYS, // also once the process has grown
    KEEPER_AUTO,   // once a second thread allocates
};

extern atomic_signed option_values[OPTION_COUNT];

KEEL_INLINE int64_t option_get(enum option option) {
    return atomic_get(&option_values[option]);
}

void option_set(enum option option, int64_t value);

// Only if neither the environment nor a call has set it.
void option_set_default(enum option option, int64_t value);

// In lower case, as it stands in the environment after KEEL_ or MIMALLOC_.
const char* option_name(enum option option);

// `environment` is a NULL-terminated list of NAME=VALUE, or NULL. KEEL_* goes before MIMALLOC_*. Unknown names are
// nobody's business here; an entry with a malformed value is given to `refused` and leaves what was.
typedef void options_refuser(const char* entry);
void options_parse(char* const* environment, options_refuser* refused);

#endif
