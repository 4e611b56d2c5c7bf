// The time of every call of the allocator, collected in a histogram.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// A reading of the processor's counter, or of CLOCK_MONOTONIC where there is none. Earlier work is
// complete at the reading of timing_begin, and later work has not begun at that of timing_now.
uint64_t timing_begin(void);
// Adds a call that began at `begun` and ends now. Any thread may call it; it takes about 10 ns.
void timing_end(uint64_t begun);

// Forgets all calls so far, and measures the empty pair of readings. No other thread may make
// calls.
void timing_start(void);
// From here on, the calls of this process and of its children are added to those of all processes
// that share the file, which must exist. False if the file cannot be used.
bool timing_share(const char* file);
// Writes one line of JSON to a file: calls, p50_ns, p99_ns, p999_ns, worst_ns, and pair_ns, the
// shortest empty pair of readings, which is a part of every time. Nothing if the file cannot be
// written.
void timing_write(const char* file);
