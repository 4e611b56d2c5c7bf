// The durations of the slow paths (heap/tail.h), summed over all heaps, as text and as JSON.
#ifndef KEEL_ALLOCATOR_API_TAIL_REPORT_H
#define KEEL_ALLOCATOR_API_TAIL_REPORT_H

#include "base/format.h"
#include "keel/keel.h"

// The durations so far are left out from now on.
void tail_report_reset(void);

void tail_report_print(kl_output* output, void* argument);

// A member `"slow_paths":{..}` of an object.
void tail_report_json(struct text* text);

#endif
