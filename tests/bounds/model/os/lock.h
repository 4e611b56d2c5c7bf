// os/lock.h, with calls of count.c: for the build of the allocator whose steps are counted.
#ifndef KEEL_TESTS_BOUNDS_LOCK_H
#define KEEL_TESTS_BOUNDS_LOCK_H

#define os_lock_try plain_lock_try
#define os_lock_acquire plain_lock_acquire
#define os_lock_release plain_lock_release
#include "in_process/os/lock.h"
#undef os_lock_try
#undef os_lock_acquire
#undef os_lock_release

void count_lock_taken(const struct os_lock* lock);
void count_lock_released(const struct os_lock* lock);

static inline bool os_lock_try(struct os_lock* lock) {
    bool taken = plain_lock_try(lock);
    if (taken) count_lock_taken(lock);
    return taken;
}
static inline void os_lock_acquire(struct os_lock* lock) {
    plain_lock_acquire(lock);
    count_lock_taken(lock);
}
static inline void os_lock_release(struct os_lock* lock) {
    count_lock_released(lock);
    plain_lock_release(lock);
}

#endif
