// Partitions: secure flavour. Blocks of different partitions are never in the same page, and pages
// of different partitions are never at the same address: each partition has windows of its own
// (window.h). So an object of one partition cannot take the place of a freed object of another one,
// not even after the page of the freed object has ended.
//
//   0  blocks without a type: malloc and operator new
//   1  blocks of types without pointers
//   2  blocks of types with pointers
//   3  blocks of other types with pointers
//
// Mappings, that is blocks of 4 MiB and more, have no windows of their own; the system chooses
// their addresses.
//
// Slow paths learn the partition from the thread (thread_partition) and not from an argument: only
// few callers ask for another one than 0.
#ifndef KEEL_ALLOCATOR_SPACE_PARTITION_H
#define KEEL_ALLOCATOR_SPACE_PARTITION_H

#include "base/attributes.h"

#define PARTITIONS 4u // in the secure flavour
#define PARTITION_COUNT (KEEL_SECURE ? PARTITIONS : 1u)

// The partition of the allocation that this thread is doing; 0 at all other times.
extern KEEL_HIDDEN KEEL_TLS unsigned thread_partition;

KEEL_INLINE unsigned partition_now(void) {
    return KEEL_SECURE ? thread_partition : 0;
}

// Begins allocations in a partition, and returns what partition_leave needs. Nothing in between may
// call the program.
KEEL_INLINE unsigned partition_enter(unsigned partition) {
    unsigned before = partition_now();
    if (KEEL_SECURE) thread_partition = partition;
    return before;
}
KEEL_INLINE void partition_leave(unsigned before) {
    if (KEEL_SECURE) thread_partition = before;
}

#endif
