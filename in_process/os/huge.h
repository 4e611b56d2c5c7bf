// Huge pages on request, and the machine's memory nodes.
#ifndef KEEL_OS_HUGE_H
#define KEEL_OS_HUGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OS_LARGE_SHIFT 21u // 2 MiB
#define OS_HUGE_SHIFT 30u  // 1 GiB

// Maps up to `pages` adjacent, populated, zero pages of 1 << shift bytes, in steps of `step`
// pages; on `node`, or on any if that is negative. Stops at the first step for which the system has
// no pages, or when the clock (os_clock_ms) has passed deadline_ms. Returns the number of pages;
// *start is the first byte. os_unmap releases them.
size_t os_map_huge(size_t pages, unsigned shift, size_t step, int node, uint64_t deadline_ms,
                   void** start);

// The machine's number of memory nodes, >= 1, and the node on which the calling thread runs now.
unsigned os_numa_nodes(void);
unsigned os_numa_node(void);

#endif
