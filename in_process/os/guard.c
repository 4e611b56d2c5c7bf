// Guards: marked where the system can do that, else protected, which divides their mapping.
#include "base/atomic.h"
#include "os/memory.h"
#include <string.h>

static atomic_state is_mixed; // the system can mark guards, but has refused it for some range

bool os_guard(void* start, size_t bytes) {
    bool light = os_mark_guard(start, bytes);
    if (!light) {
        if (os_guards_are_light()) atomic_set(&is_mixed, 1);
        // The range may be one that cannot be written.
        if (!os_discard(start, bytes) && os_allow_writing(start, bytes)) memset(start, 0, bytes);
        os_forbid_access(start, bytes);
    }
    return light;
}

bool os_unguard(void* start, size_t bytes) {
    bool light = os_guards_are_light();
    bool open = !light || os_unmark_guard(start, bytes);
    if (!light || atomic_get(&is_mixed) != 0) open &= os_allow_writing(start, bytes);
    return open;
}

void* os_map_guarded(size_t bytes) {
    size_t guard = os_page_bytes();
    if (os_guards_are_light()) {
        char* whole = os_map(bytes + 2 * guard, guard);
        if (whole == NULL) return NULL;
        (void)os_guard(whole, guard);
        (void)os_guard(whole + guard + bytes, guard);
        return whole + guard;
    }
    char* whole = os_map_closed(bytes + 2 * guard, guard);
    if (whole == NULL) return NULL;
    if (os_allow_writing(whole + guard, bytes)) return whole + guard;
    os_unmap(whole, bytes + 2 * guard);
    return NULL;
}

void os_unmap_guarded(void* start, size_t bytes) {
    size_t guard = os_page_bytes();
    os_unmap((char*)start - guard, bytes + 2 * guard);
}
