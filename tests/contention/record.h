// The cache lines that the allocator's code writes, by thread.
#ifndef KEEL_TESTS_CONTENTION_RECORD_H
#define KEEL_TESTS_CONTENTION_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#define RECORD_LINE 64u

void record_prepare(void);

// This thread is recorded from now on, by that number.
void record_thread(unsigned number);
#define RECORD_NONE (~0u) // it is no longer recorded

// Forgets all writes and records those for which `counts` is true from now on; ends recording. No
// thread may be in the allocator.
void record_start(bool (*counts)(const void* written));
void record_stop(void);

// The number of writes to lines that two threads or more have written. `visit` gets each such line;
// it may be NULL.
typedef void (*record_visit)(const void* line, uint64_t writes);
uint64_t record_shared_writes(record_visit visit);

// The number of writes by another thread than the one that wrote the line before.
uint64_t record_passes(void);

#endif
