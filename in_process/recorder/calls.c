#include "calls.h"

#include "objects.h"
#include "origin.h"
#include "thread.h"
#include <errno.h>
#include <string.h>

static atomic_word own_start, own_end; // of this library's segments

// Before other libraries are initialised, and so before there are threads.
__attribute__((constructor)) static void own_prepare(void) {
    struct object own;
    if (!object_find(&own, (uintptr_t)own_prepare)) return;
    atomic_set(&own_start, own.start);
    atomic_set_release(&own_end, own.end);
}

uint64_t kl_record_call_begin(const void* caller) {
    uintptr_t end = atomic_get_acquire(&own_end);
    bool is_own = (uintptr_t)caller >= atomic_get(&own_start) && (uintptr_t)caller < end;
    return end == 0 || is_own || !recording() ? 0 : ticks();
}

void kl_record_call_end(const char* name, uint64_t began, const void* caller) {
    if (began == 0 || !recording()) return;
    int saved_errno = errno;
    uint64_t now = ticks();
    uint64_t from = origin(caller);
    uint64_t halves[2] = {0, 0};
    memcpy(halves, name, strnlen(name, sizeof halves));
    record(KL_RING_TOOK, now, (const void*)(now - began), 0, 0);
    record(KL_RING_CALL, now, (const void*)halves[0], halves[1], from);
    errno = saved_errno;
}
