// Huge pages that are asked for by name, and the nodes of the machine's memory.
#ifndef KEEL_OS_HUGE_H
#define KEEL_OS_HUGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OS_LARGE_SHIFT 21u // 2 MiB
#define OS_HUGE_SHIFT 30u  // 1 GiB

// Maps up to `pages` pages of 1 << shift bytes side by side, in steps of `step` pages, zero and
// with their memory there; on `node`, or wherever if that is negative. Ends at the first step that
// the system has no pages for, or when the clock (os_clock_ms) has passed deadline_ms. The number
// mapped, whose first byte is *start; 0: none. To be given back by os_unmap.
size_t os_map_huge(size_t pages, unsigned shift, size_t step, int node, uint64_t deadline_ms,
                   void** start);

// Nodes of memory that the machine has, >= 1; and the one that the calling thread runs on just now.
unsigned os_numa_nodes(void);
unsigned os_numa_node(void);

#endif
