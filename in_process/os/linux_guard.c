// Linux 6.13 marks pages of a mapping as inaccessible (MADV_GUARD_INSTALL); the mapping stays one.
#include "base/atomic.h"
#include "os/call.h"
#include "os/count.h"
#include "os/memory.h"
#include <errno.h>
#include <linux/futex.h>
#include <time.h>

// Older headers lack the names.
enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 };

enum { GUARDS_UNKNOWN, GUARDS_LIGHT, GUARDS_PROTECT };
static atomic_state guard_kind; // what this system has

static bool advise(void* start, size_t bytes, int advice) {
    os_count_call(EVENT_MAP);
    return os_call(SYS_madvise, start, bytes, advice) == 0;
}

// Some emulators accept each advice and do nothing. So a page is guarded and the system asked to
// read it, which must fail. The call is one that locks make, too: a filter permits it.
static bool guards_work(void) {
    const struct timespec at_once = {0, 0};
    size_t bytes = os_page_bytes();
    char* probe = os_map(bytes, bytes);
    if (probe == NULL) return false;
    bool work = advise(probe, bytes, GUARD_INSTALL) &&
                os_call(SYS_futex, probe, FUTEX_WAIT_PRIVATE, 1, &at_once) == -EFAULT;
    os_unmap(probe, bytes);
    return work;
}

bool os_guards_are_light(void) {
    uint32_t known = atomic_get(&guard_kind);
    if (known == GUARDS_UNKNOWN) { // every thread finds the same
        known = guards_work() ? GUARDS_LIGHT : GUARDS_PROTECT;
        atomic_set(&guard_kind, known);
    }
    return known == GUARDS_LIGHT;
}

bool os_mark_guard(void* start, size_t bytes) {
    return os_guards_are_light() && advise(start, bytes, GUARD_INSTALL);
}

bool os_unmark_guard(void* start, size_t bytes) {
    return advise(start, bytes, GUARD_REMOVE);
}
