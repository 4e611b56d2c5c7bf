/* memory.h: filling blocks with what can be recognised, and asking the system what the process
 * uses. Never allocates. */
#ifndef KEEL_TESTS_MEMORY_H
#define KEEL_TESTS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KIB = 1024, MIB = 1024 * 1024 };

// A small generator with a good spread; the same seed gives the same numbers everywhere
// (splitmix64).
struct random {
    uint64_t state;
};
uint64_t random_next(struct random* random);
// Evenly from [0, below); `below` must not be 0.
uint64_t random_below(struct random* random, uint64_t below);
// A size such as programs ask for: mostly small, sometimes large; at most `most` bytes, and at
// least 1.
size_t random_size(struct random* random, size_t most);

// Fills a block with bytes that depend on `seed` and on their place. Up to 64 KiB every byte is
// written; above that the first and last KiB and eight bytes of each page, which touches every
// page.
void pattern_fill(void* block, size_t size, uint64_t seed);
// True when the first `size` bytes still hold what pattern_fill(block, filled, seed) has put there;
// size <= filled.
bool pattern_holds(const void* block, size_t size, size_t filled, uint64_t seed);

bool is_zero(const void* block, size_t size);
bool is_aligned(const void* block, size_t alignment);

// Of this process, in bytes; counted by walking the page tables, so exact. Without what ThreadSanitizer keeps about it.
size_t resident_bytes(void);
// Lines of /proc/self/maps.
size_t map_count(void);
// The machine's memory in bytes.
size_t physical_bytes(void);
void sleep_ms(unsigned milliseconds);

#ifdef __cplusplus
}
#endif

#endif
