// The report. Reads the counters of the layers below; allocates nothing.
#ifndef KEEL_ALLOCATOR_API_STATISTICS_H
#define KEEL_ALLOCATOR_API_STATISTICS_H

#include "keel/statistics.h"

void statistics_print(kl_output* output, void* argument);
size_t statistics_json(char* buffer, size_t size);
// Counts are told as since now.
void statistics_reset(void);
void statistics_process(struct kl_process* process);

#endif
