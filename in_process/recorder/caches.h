// Finds out which levels of the processor's caches the program's own work evicts between two calls.
// `keel compare --between evict=auto` evicts the same ones when it replays the calls.
//
// A chain of lines in one system page is read, which brings it into the first level. At the
// thread's next event the chain is read again, with a clock around it: the time shows the level in
// which the lines are now. Sixteen lines in different cache sets are one sample of what has
// happened in between.
#ifndef KEEL_RECORDER_CACHES_H
#define KEEL_RECORDER_CACHES_H

#include <stdint.h>

// Reads the chain. Returns the time, in ticks of KL_CLOCK_TSC.
uint64_t caches_read(void);

#endif
