// The report. Reads the counters of the layers below; allocates nothing.
#ifndef KEEL_ALLOCATOR_API_REPORT_H
#define KEEL_ALLOCATOR_API_REPORT_H

#include "keel/statistics.h"

void report_print(kl_output* output, void* argument);
size_t report_json(char* buffer, size_t size);
// Restarts the counts at 0.
void report_reset(void);
void report_process(struct kl_process* process);

#endif
