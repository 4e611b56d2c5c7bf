/* load.h: the load of the soak test. Threads allocate, resize, exchange and free blocks, and verify
 * the contents of each. The state of a worker outlives its thread: the next thread inherits its
 * blocks. */
#ifndef KEEL_TESTS_SOAK_LOAD_H
#define KEEL_TESTS_SOAK_LOAD_H

#include "memory.h"

#include <stdatomic.h>

enum { WORKERS = 3, SHORT_WORKERS = 4, OWN = 8192, TINY = 4096, SHARED = 512 };

// A phase of the cycle: the sizes of its blocks, and the number of operations of each worker.
struct phase {
    const char* name;
    size_t least, most; // sizes of the contents; least 0: random_size up to `most`
    unsigned operations;
    size_t budget; // live bytes, over which an operation frees instead of allocating
    // The long-lived blocks that this phase allocates: their sizes are fixed, so that the same
    // number of bytes is live at every point of rest.
    unsigned kept;
    size_t kept_least, kept_most;
    bool limited; // runs under a limit: allocations may fail
};

struct tiny { // a block of 0 to 15 bytes, too small for a header
    unsigned char* block;
    size_t size;
};

struct worker {
    struct random random;
    struct parcel* own[OWN];
    struct tiny tiny[TINY];
    unsigned index;
};

// What the load has done, for the printed lines.
struct load_counts {
    atomic_ullong operations, threads, forks, refused, heaps;
};
extern struct load_counts load_counts;

// The bytes of all live parcels.
extern atomic_size_t load_live;

__attribute__((noreturn, format(printf, 1, 2))) void load_fail(const char* format, ...);

// Runs the workers' threads, short-lived threads and children of one phase until all have ended.
// `index` is the phase's index in the cycle.
void load_run(const struct phase* phase, unsigned index);

// Frees every block but the long-lived ones.
void load_free_transient(void);

#endif
