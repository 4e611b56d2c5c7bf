// What the synthetic workloads share: their description, random numbers, threads.
//
// A workload does a fixed amount of work, which depends only on the scale and on the number of
// threads, with calls of the C library's names: malloc, free, calloc, realloc. Its own tables,
// which must not be counted as the allocator's, are few and are allocated before the first step.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KIB = 1024, MIB = 1024 * 1024, MOST_THREADS = 64 };

// The size of a run.
struct extent {
    double scale;     // 1 is the full run
    unsigned threads; // of the workloads with several threads, at least 2
};

// Returns a value that depends on all work done, so that nothing is left out: the checksum.
typedef uint64_t workload_run(const struct extent* extent);

struct workload {
    const char* name;
    const char* about;     // what it does
    const char* stresses;  // the parts of an allocator that determine its time
    const char* source;    // whose idea it is
    const char* not_shown; // what must not be concluded from it
    workload_run* run;
};

// The workloads, each in the file of its name.
extern const struct workload alloc_test, alloc_test_threads, ast_pass, barnes_hut, bignum, boolean,
    broker, cache_scratch, cache_thrash, ecs_frames, json, larson, larson_sized, lru_cache,
    malloc_large, mleak, mstress, red_black, rptest, sh6, sh8, simple, simple_threads, xmalloc;

// `count` at this scale, at least 1.
size_t scaled(const struct extent* extent, size_t count);

// xorshift; the state must not be 0.
uint64_t draw(uint64_t* state);
// A number from low to high, both included.
size_t between(uint64_t* state, size_t low, size_t high);
// As between, but each power of two is equally frequent. low must not be 0.
size_t between_log(uint64_t* state, size_t low, size_t high);

// The blocks of a workload. They end the program with a message if there is no memory.
void* take(size_t bytes);                     // first byte written, and one in each 4 KiB
void* take_zeroed(size_t count, size_t size); // calloc
void* resize(void* block, size_t bytes);      // realloc
// Writes all bytes of a block in words, and returns the sum of these; the work of a program.
uint64_t fill(void* block, size_t bytes);
uint64_t sum_words(const void* block, size_t bytes);

// Runs body(argument of index) in `count` threads and waits for them.
void in_threads(unsigned count, void (*body)(void*), void* arguments, size_t stride);
// Ends the program with a message.
_Noreturn void fail(const char* message);
