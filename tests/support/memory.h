/* memory.h: fills blocks with patterns that can be verified, and reads the memory use of the
 * process. Never allocates. */
#ifndef KEEL_TESTS_MEMORY_H
#define KEEL_TESTS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KIB = 1024, MIB = 1024 * 1024 };

// A small random number generator (splitmix64): the same seed gives the same numbers everywhere.
struct random {
    uint64_t state;
};
uint64_t random_next(struct random* random);
// Uniform in [0, below); `below` must not be 0.
uint64_t random_below(struct random* random, uint64_t below);
// A typical request size: mostly small, sometimes large; between 1 and `most` bytes.
size_t random_size(struct random* random, size_t most);

// Fills a block with bytes that depend on `seed` and on their position. Blocks of up to 64 KiB are
// filled completely; in larger ones the first and last KiB and eight bytes of each page.
void pattern_fill(void* block, size_t size, uint64_t seed);
// Returns true if the first `size` bytes are still those of pattern_fill(block, filled, seed);
// size <= filled.
bool pattern_holds(const void* block, size_t size, size_t filled, uint64_t seed);

bool is_zero(const void* block, size_t size);
// True if the bytes from offset `from` up to but excluding `to` are zero.
bool is_zero_between(const void* block, size_t from, size_t to);
bool is_aligned(const void* block, size_t alignment);

// The resident memory of this process in bytes: exact, since it is counted from the page tables.
// Excludes ThreadSanitizer's own data.
size_t resident_bytes(void);
// The number of lines in /proc/self/maps.
size_t map_count(void);
// The memory of the machine in bytes.
size_t physical_bytes(void);
void sleep_ms(unsigned milliseconds);

#ifdef __cplusplus
}
#endif

#endif
