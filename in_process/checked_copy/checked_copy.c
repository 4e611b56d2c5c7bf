// memcpy, memmove, memset and mempcpy, as the libraries of the secure and the debug flavour export
// them: before they read or write, they verify that the bytes are within one live block, if they
// are in the heap at all. Only a program that is loaded with the library uses them. The C library
// calls its own functions.
//
// A check reads Keel's data and the block's state. It takes no lock, writes nothing, and works
// before the start of the allocator and in a signal handler. Not checked: the end of a copy that
// begins behind the first slice of a large block; and in the secure flavour the source of a short
// copy, where the check takes longer than the copy, and whether that of a longer one is live.
#include "allocator/debug/debug.h"
#include "allocator/large/large.h"
#include "allocator/space/window.h"
#include "os/thread.h"
#include <stddef.h>

void* mempcpy(void* restrict to, const void* restrict from, size_t bytes);
void* checked_memcpy(void* restrict, const void* restrict, size_t) __asm__("memcpy");
void* checked_memmove(void*, const void*, size_t) __asm__("memmove");
void* checked_memset(void*, int, size_t) __asm__("memset");
void* __memcpy_chk(void* restrict to, const void* restrict from, size_t bytes, size_t room);
void* __mempcpy_chk(void* restrict to, const void* restrict from, size_t bytes, size_t room);
void* __memmove_chk(void* to, const void* from, size_t bytes, size_t room);
void* __memset_chk(void* to, int value, size_t bytes, size_t room);
__attribute__((weak, noreturn)) void __chk_fail(void); // of the C library

static KEEL_COLD KEEL_NORETURN void fault(enum fault kind, const void* address, size_t usable) {
    panic_block(kind, address, (struct fault_block){.bytes = usable, .thread = os_thread_id()});
}

#define SOURCE_BYTES_MIN (KEEL_DEBUG ? 1u : 256u)
// The state of a block is in another cache line, for which only a longer copy waits.
#define SOURCE_LIVE_BYTES_MIN 4096u

// `live`: the block must be live.
static KEEL_NOINLINE void require_within(const struct page* page, const char* address, size_t bytes,
                                         bool live) {
    uintptr_t owner = atomic_get(&page->owner);
    if ((owner & PAGE_INTERIOR) != 0) page -= page->distance;
    if ((owner & PAGE_GUARDED) != 0 || address < page->start) return;
    size_t inside = (size_t)(address - page->start); // the block
    size_t usable = page->usable;
    if (page->block_bytes != 0) {
        inside -= block_index(page, inside) * page->block_bytes;
        usable = page->block_bytes - BLOCK_STATE_BYTES - block_tail(page, address - inside);
        if (live && !block_is_live(page, address - inside))
            fault(FAULT_COPY_FREE, address, block_may_have_tail(page->block_bytes) ? 0 : usable);
    }
    if (inside > usable || bytes > usable - inside) fault(FAULT_COPY_END, address, usable);
}

// In a window, but not in a page of small blocks, nor in the first slice of a large one.
static KEEL_NOINLINE void require_taken(const void* address) {
    if (address_is_possible(address) && window_is_free(address_untagged(address)))
        fault(FAULT_COPY_FREE, address, 0);
}

KEEL_INLINE void require(const void* address, size_t bytes, bool live) {
    const struct page* page = page_of_low(address);
    if (bytes == 0) return;
    if (KEEL_LIKELY(atomic_get(&page->owner) == 0)) {
        bool in_window = page < page_map.dummy || page >= page_map.dummy + WINDOW_SLICES;
        if (live && KEEL_UNLIKELY(in_window)) require_taken(address);
        return;
    }
    if (KEEL_DEBUG)
        debug_require_within(address, bytes);
    else
        require_within(page, address, bytes, live);
}
KEEL_INLINE void require_source(const void* address, size_t bytes) {
    if (bytes >= SOURCE_BYTES_MIN) require(address, bytes, bytes >= SOURCE_LIVE_BYTES_MIN);
}

KEEL_EXPORT void* checked_memcpy(void* restrict to, const void* restrict from, size_t bytes) {
    require(to, bytes, true);
    require_source(from, bytes);
    return memcpy(to, from, bytes);
}
KEEL_EXPORT void* checked_memmove(void* to, const void* from, size_t bytes) {
    require(to, bytes, true);
    require_source(from, bytes);
    return memmove(to, from, bytes);
}
KEEL_EXPORT void* checked_memset(void* to, int value, size_t bytes) {
    require(to, bytes, true);
    return memset(to, value, bytes);
}
KEEL_EXPORT void* mempcpy(void* restrict to, const void* restrict from, size_t bytes) {
    return (char*)checked_memcpy(to, from, bytes) + bytes;
}

// `room`: what the compiler knows about the target.
KEEL_INLINE void require_room(size_t bytes, size_t room) {
    if (KEEL_LIKELY(bytes <= room)) return;
    if (__chk_fail != NULL) __chk_fail();
    __builtin_trap();
}
KEEL_EXPORT void* __memcpy_chk(void* restrict to, const void* restrict from, size_t bytes,
                               size_t room) {
    require_room(bytes, room);
    return checked_memcpy(to, from, bytes);
}
KEEL_EXPORT void* __mempcpy_chk(void* restrict to, const void* restrict from, size_t bytes,
                                size_t room) {
    require_room(bytes, room);
    return mempcpy(to, from, bytes);
}
KEEL_EXPORT void* __memmove_chk(void* to, const void* from, size_t bytes, size_t room) {
    require_room(bytes, room);
    return checked_memmove(to, from, bytes);
}
KEEL_EXPORT void* __memset_chk(void* to, int value, size_t bytes, size_t room) {
    require_room(bytes, room);
    return checked_memset(to, value, bytes);
}
