// Guards: marked where the system can do that, else protected, which divides their mapping.
#include "base/atomic.h"
#include "os/memory.h"
#include <string.h>

static atomic_state is_mixed; // the system can mark guards, but has refused it for some range

static void protect(void* start, size_t bytes) {
    if (os_guards_are_light()) atomic_set(&is_mixed, 1);
    os_forbid_access(start, bytes);
}

bool os_guard(void* start, size_t bytes) {
    if (os_mark_guard(start, bytes)) return true;
    if (!os_discard(start, bytes)) {
        (void)os_allow_writing(start, bytes); // the program may have forbidden it
        memset(start, 0, bytes);
    }
    protect(start, bytes);
    return false;
}

void os_guard_unused(void* start, size_t bytes) {
    if (!os_mark_guard(start, bytes)) protect(start, bytes);
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
        os_guard_unused(whole, guard);
        os_guard_unused(whole + guard + bytes, guard);
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
