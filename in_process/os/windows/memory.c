// Address space and pages with the functions of Windows.
//
// A reservation is address space that one call has reserved. It begins at a multiple of 64 KiB and
// can be released only as a whole, while the interface unmaps any range of pages, a part of a
// reservation or several. So os_unmap decommits the range, and releases a reservation once no page
// of it is committed. Memory in use is committed, with two exceptions: parts of a mapping that
// os_map_closed has made, of which no part is unmapped alone; and, for a moment, a part that is
// being discarded. The lock `unmapping` keeps other threads from counting pages in that moment.
//
//   part of a reservation    state       occupies memory    counts as committed
//   closed, unmapped         reserved    no                 no
//   readable, a guard        committed   no                 yes
//   writable                 committed   once touched       yes
//
// Windows refuses a call for a range in two reservations, so most functions go by parts: ranges of
// one reservation that have one state.
#include "os/memory.h"
#include "base/bits.h"
#include "os/count.h"
#include "os/lock.h"
#include "os/process.h"
#include "os/windows/system.h"
#include <string.h>

#define PAGE_SIZE_BYTES ((size_t)4096) // on x86-64 and arm64
#define GRANULE ((size_t)65536)        // reservations begin at multiples of it
#define COMMIT_TRIES 200u
#define COMMIT_PAUSE_MS 50u
#define COMMIT_RESERVE 4u                  // times what is discarded: others commit, too
#define DISCARD_AT_ONCE ((size_t)16 << 20) // other threads that unmap wait meanwhile

size_t os_page_bytes(void) {
    return PAGE_SIZE_BYTES;
}

static void* allocate(void* start, size_t bytes, DWORD how, DWORD protection) {
    DWORD saved = GetLastError();
    void* result = VirtualAlloc(start, bytes, how, protection);
    SetLastError(saved);
    return result;
}

static bool give_back(void* start, size_t bytes, DWORD how) {
    DWORD saved = GetLastError();
    bool done = VirtualFree(start, bytes, how) != 0;
    SetLastError(saved);
    return done;
}

static bool protect(void* start, size_t bytes, DWORD protection) {
    DWORD saved = GetLastError(), before;
    bool done = VirtualProtect(start, bytes, protection, &before) != 0;
    SetLastError(saved);
    return done;
}

// --- Parts of reservations -----------------------------------------------------------------------

struct part {
    char* start;
    size_t bytes;
    char* reservation; // NULL: nothing is mapped here
    bool committed;
    DWORD protection; // of a committed part
};

// The part that begins at `start`, up to `end`.
static struct part part_at(char* start, const char* end) {
    MEMORY_BASIC_INFORMATION info;
    struct part part = {start, (size_t)(end - start), NULL, false, 0};
    if (VirtualQuery(start, &info, sizeof info) == 0) return part;
    size_t bytes = info.RegionSize - (size_t)(start - (char*)info.BaseAddress);
    if (bytes < part.bytes) part.bytes = bytes;
    if (info.State != MEM_FREE) part.reservation = info.AllocationBase;
    part.committed = info.State == MEM_COMMIT;
    part.protection = info.Protect;
    return part;
}

// False: the change was refused for a part. Those before it are changed.
typedef bool part_change(const struct part* part, DWORD protection);
static bool each_part(void* start, size_t bytes, part_change* change, DWORD protection) {
    const char* end = (char*)start + bytes;
    for (char* at = start; at < end;) {
        struct part part = part_at(at, end);
        if (!change(&part, protection)) return false;
        at += part.bytes;
    }
    return true;
}

static bool part_open(const struct part* part, DWORD protection) {
    if (!part->committed) return allocate(part->start, part->bytes, MEM_COMMIT, protection) != NULL;
    return part->protection == protection || protect(part->start, part->bytes, protection);
}

static bool part_protect(const struct part* part, DWORD protection) {
    return !part->committed || protect(part->start, part->bytes, protection);
}

static bool part_decommit(const struct part* part, DWORD protection) {
    (void)protection;
    return !part->committed || give_back(part->start, part->bytes, MEM_DECOMMIT);
}

// --- Discarding ----------------------------------------------------------------------------------

// Held by a thread that unmaps a range, or that discards a part and has decommitted it. So a
// reservation is released once, and never while a part of it is being discarded.
static struct os_lock unmapping;

static bool may_commit(size_t bytes) {
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    DWORD saved = GetLastError();
    bool known = GlobalMemoryStatusEx(&memory) != 0;
    SetLastError(saved);
    return known && memory.ullAvailPageFile / COMMIT_RESERVE >= bytes;
}

// Commits what this process has just decommitted. Between the two, other processes may have taken
// the rest of the system's memory and page file; the page file may grow.
static void commit_again(char* start, size_t bytes, DWORD protection) {
    static const char text[] = "keel: Windows refuses to commit memory that was just returned\n";
    for (unsigned i = 0; i < COMMIT_TRIES; i++) {
        if (allocate(start, bytes, MEM_COMMIT, protection) != NULL) return;
        Sleep(COMMIT_PAUSE_MS);
    }
    os_abort(text, sizeof text - 1);
}

static bool discard(char* start, size_t bytes, DWORD protection) {
    if (!may_commit(bytes)) return false;
    os_lock_acquire(&unmapping);
    bool done = give_back(start, bytes, MEM_DECOMMIT);
    if (done) commit_again(start, bytes, protection);
    os_lock_release(&unmapping);
    return done;
}

static bool part_discard(const struct part* part, DWORD protection) {
    (void)protection;
    if (!part->committed) return true;
    for (size_t at = 0; at < part->bytes; at += DISCARD_AT_ONCE) {
        size_t left = part->bytes - at;
        size_t bytes = left < DISCARD_AT_ONCE ? left : DISCARD_AT_ONCE;
        if (!discard(part->start + at, bytes, part->protection)) return false;
    }
    return true;
}

// --- Mapping -------------------------------------------------------------------------------------

// What lies before and behind the aligned part stays reserved.
static char* reserve(size_t bytes, size_t alignment) {
    if (alignment <= GRANULE) return allocate(NULL, bytes, MEM_RESERVE, PAGE_NOACCESS);
    const size_t more = alignment - GRANULE;
    if (bytes > SIZE_MAX - more) return NULL;
    char* start = allocate(NULL, bytes + more, MEM_RESERVE, PAGE_NOACCESS);
    return start == NULL ? NULL : (char*)round_up((uintptr_t)start, alignment);
}

static void* map(size_t bytes, size_t alignment, DWORD protection) {
    os_count_call(EVENT_MAP);
    if (alignment <= GRANULE) return allocate(NULL, bytes, MEM_RESERVE | MEM_COMMIT, protection);
    char* start = reserve(bytes, alignment);
    if (start == NULL || allocate(start, bytes, MEM_COMMIT, protection) != NULL) return start;
    (void)os_unmap(start, bytes);
    return NULL;
}

void* os_map(size_t bytes, size_t alignment) {
    return map(bytes, alignment, PAGE_READWRITE);
}

void* os_map_readable(size_t bytes) {
    return map(bytes, 1, PAGE_READONLY);
}

void* os_map_closed(size_t bytes, size_t alignment) {
    os_count_call(EVENT_MAP);
    return reserve(bytes, alignment);
}

enum os_placing os_map_at(void* start, size_t bytes) {
    if ((uintptr_t)start % GRANULE != 0) return OS_TAKEN;
    DWORD saved = GetLastError();
    void* place = VirtualAlloc(start, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    DWORD error = place == NULL ? GetLastError() : 0;
    SetLastError(saved);
    os_count_call(EVENT_MAP);
    if (place != NULL) return OS_PLACED;
    bool refused = error == ERROR_NOT_ENOUGH_MEMORY || error == ERROR_COMMITMENT_LIMIT ||
                   error == ERROR_NOT_ENOUGH_QUOTA;
    return refused ? OS_REFUSED : OS_TAKEN;
}

void* os_find_place(size_t bytes) {
    void* place = reserve(bytes, 1);
    if (place != NULL) (void)give_back(place, 0, MEM_RELEASE);
    return place;
}

// --- Unmapping -----------------------------------------------------------------------------------

static bool is_empty(char* reservation) {
    const char* end = (const char*)UINTPTR_MAX;
    for (char* at = reservation;;) {
        struct part part = part_at(at, end);
        if (part.reservation != reservation) return true;
        if (part.committed) return false;
        at += part.bytes;
    }
}

bool os_unmap(void* start, size_t bytes) {
    bool done = true;
    const char* end = (char*)start + bytes;
    os_count_call(EVENT_UNMAP);
    os_lock_acquire(&unmapping);
    for (char* at = start; at < end;) {
        struct part part = part_at(at, end);
        bool last =
            at + part.bytes == end || part_at(at + part.bytes, end).reservation != part.reservation;
        done &= part.reservation != NULL && part_decommit(&part, 0);
        if (last && part.reservation != NULL && is_empty(part.reservation))
            done &= give_back(part.reservation, 0, MEM_RELEASE);
        at += part.bytes;
    }
    os_lock_release(&unmapping);
    return done;
}

// --- Protection ----------------------------------------------------------------------------------

bool os_allow_writing(void* start, size_t bytes) {
    os_count_call(EVENT_MAP);
    return each_part(start, bytes, part_open, PAGE_READWRITE);
}

void os_forbid_writing(void* start, size_t bytes) {
    os_count_call(EVENT_MAP);
    (void)each_part(start, bytes, part_protect, PAGE_READONLY);
}

void os_forbid_access(void* start, size_t bytes) {
    os_count_call(EVENT_MAP);
    (void)each_part(start, bytes, part_protect, PAGE_NOACCESS);
}

void os_close(void* start, size_t bytes) {
    os_count_call(EVENT_MAP);
    if (each_part(start, bytes, part_decommit, 0)) return;
    memset(start, 0, bytes);
    os_forbid_access(start, bytes);
}

// --- Memory of pages -----------------------------------------------------------------------------

// DiscardVirtualMemory and MEM_RESET leave it open what the pages contain. Memory that is
// decommitted and committed again is zero. At the limit on committed memory it is not discarded.
bool os_discard(void* start, size_t bytes) {
    count_event(EVENT_PURGE, 1);
    return each_part(start, bytes, part_discard, 0);
}
