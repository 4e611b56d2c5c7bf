// The tables of the statistics, as text and as members of a JSON object.
#ifndef KEEL_ALLOCATOR_API_TABLES_H
#define KEEL_ALLOCATOR_API_TABLES_H

#include "allocator/alloc/usage.h"
#include "base/format.h"
#include "keel/keel.h"

// By size, with the sum: `"sizes":[..],"total":{..}`.
void tables_sizes(const struct usage* usage, kl_output* output, void* argument);
void tables_sizes_json(const struct usage* usage, struct text* text);

// The heaps of threads: `"threads":[..]`.
void tables_threads(kl_output* output, void* argument);
void tables_threads_json(struct text* text);

// User heaps: `"heaps":[..]`.
void tables_heaps(kl_output* output, void* argument);
void tables_heaps_json(struct text* text);

#endif
