// The layer of Windows: what is reserved, committed and released; locks at the end of a process.
#include "check.h"
#include "memory.h"
#include "os/lock.h"
#include "os/memory.h"

#include <io.h>
#include <string.h>

enum { PAGE = 4096, GRANULE = 65536 };

static DWORD state_of(const void* address) {
    MEMORY_BASIC_INFORMATION info;
    CHECK(VirtualQuery(address, &info, sizeof info) != 0);
    return info.State;
}
static DWORD protection_of(const void* address) {
    MEMORY_BASIC_INFORMATION info;
    CHECK(VirtualQuery(address, &info, sizeof info) != 0);
    return info.Protect;
}

TEST(a_mapping_is_committed_and_zero) {
    char* start = os_map(MIB, PAGE);
    CHECK(start != NULL && state_of(start) == MEM_COMMIT &&
          state_of(start + MIB - 1) == MEM_COMMIT);
    CHECK(is_zero(start, MIB));
    memset(start, 1, MIB);
    CHECK(os_unmap(start, MIB));
    CHECK(state_of(start) == MEM_FREE);
}

TEST(a_closed_mapping_is_reserved_until_writing_is_allowed) {
    char* start = os_map_closed(MIB, GRANULE);
    CHECK(start != NULL && state_of(start) == MEM_RESERVE);
    CHECK(os_allow_writing(start + 4 * PAGE, 2 * PAGE));
    CHECK(state_of(start + 3 * PAGE) == MEM_RESERVE);
    CHECK(state_of(start + 4 * PAGE) == MEM_COMMIT && state_of(start + 6 * PAGE) == MEM_RESERVE);
    memset(start + 4 * PAGE, 1, 2 * PAGE);
    os_close(start + 4 * PAGE, 2 * PAGE);
    CHECK(state_of(start + 4 * PAGE) == MEM_RESERVE);
    CHECK(os_allow_writing(start, MIB) && is_zero(start, MIB));
    CHECK(os_unmap(start, MIB) && state_of(start) == MEM_FREE);
}

TEST(a_readable_mapping_becomes_writable_in_parts) {
    char* start = os_map_readable(MIB);
    CHECK(start != NULL && protection_of(start) == PAGE_READONLY && is_zero(start, MIB));
    CHECK(os_allow_writing(start + PAGE, PAGE));
    start[PAGE] = 1;
    CHECK(protection_of(start + PAGE) == PAGE_READWRITE);
    CHECK(protection_of(start) == PAGE_READONLY &&
          protection_of(start + 2 * PAGE) == PAGE_READONLY);
    CHECK(os_unmap(start, MIB));
}

TEST(an_aligned_mapping_is_released_as_a_whole) {
    size_t before = map_count();
    for (size_t alignment = GRANULE; alignment <= 64u * MIB; alignment *= 2) {
        char* start = os_map(3 * (size_t)GRANULE, alignment);
        CHECK(start != NULL && is_aligned(start, alignment));
        memset(start, 1, 3 * (size_t)GRANULE);
        CHECK(os_unmap(start, 3 * (size_t)GRANULE));
    }
    CHECK_EQUAL(map_count(), before);
}

TEST(a_mapping_is_released_with_its_last_part) {
    enum { PARTS = 8 };
    char* start = os_map(PARTS * (size_t)GRANULE, PAGE);
    for (int i = PARTS - 1; i >= 0; i--) {
        char* part = start + (i * 3 % PARTS) * (ptrdiff_t)GRANULE;
        memset(part, 1, GRANULE);
        CHECK(os_unmap(part, GRANULE));
        CHECK(state_of(part) == (i == 0 ? MEM_FREE : MEM_RESERVE));
    }
    CHECK(state_of(start) == MEM_FREE);
}

// Two reservations that are neighbours, as the cache of mappings joins them.
static char* map_neighbours(size_t bytes) {
    char* whole = os_map_closed(2 * bytes, GRANULE);
    CHECK(os_unmap(whole, 2 * bytes));
    CHECK(os_map_at(whole, bytes) == OS_PLACED && os_map_at(whole + bytes, bytes) == OS_PLACED);
    return whole;
}

TEST(a_range_may_be_in_two_reservations) {
    char* start = map_neighbours(MIB);
    memset(start, 1, 2u * MIB);
    os_forbid_access(start + MIB - PAGE, 2 * PAGE);
    CHECK(protection_of(start + MIB - PAGE) == PAGE_NOACCESS);
    CHECK(protection_of(start + MIB) == PAGE_NOACCESS);
    CHECK(os_allow_writing(start + MIB - PAGE, 2 * PAGE) && start[MIB] == 1);
    CHECK(os_discard(start + PAGE, 2u * MIB - 2 * PAGE));
    CHECK(start[0] == 1 && start[2u * MIB - 1] == 1);
    CHECK(is_zero(start + PAGE, 2u * MIB - 2 * PAGE));
    CHECK(os_unmap(start + PAGE, 2u * MIB - PAGE));
    CHECK(state_of(start) == MEM_COMMIT && state_of(start + MIB) == MEM_FREE);
    CHECK(os_unmap(start, PAGE) && state_of(start) == MEM_FREE);
}

TEST(a_mapping_never_replaces_another) {
    char* start = os_map(MIB, PAGE);
    memset(start, 7, MIB);
    CHECK(os_map_at(start, MIB) == OS_TAKEN);
    CHECK(os_map_at(start + GRANULE, GRANULE) == OS_TAKEN);
    CHECK(os_unmap(start + MIB / 2, MIB / 2)); // still reserved
    CHECK(os_map_at(start + MIB / 2, GRANULE) == OS_TAKEN);
    CHECK(os_map_at(start + PAGE, PAGE) == OS_TAKEN);
    for (size_t at = 0; at < MIB / 2; at++) CHECK(start[at] == 7);
}

TEST(discarding_returns_memory) {
    enum { BYTES = 256 * MIB };
    char* start = os_map(BYTES, PAGE);
    size_t before = resident_bytes();
    memset(start, 1, BYTES);
    CHECK(resident_bytes() >= before + BYTES / 2);
    CHECK(os_discard(start, BYTES));
    CHECK_WITH(resident_bytes() < before + 16u * MIB, "%zu KiB", resident_bytes() / KIB);
    CHECK(is_zero(start, PAGE) && is_zero(start + BYTES - PAGE, PAGE));
}

TEST(discarding_changes_no_protection) {
    char* closed = os_map_closed(MIB, GRANULE);
    CHECK(os_allow_writing(closed, GRANULE));
    closed[0] = 1;
    CHECK(os_discard(closed, 2 * (size_t)GRANULE));
    CHECK(protection_of(closed) == PAGE_READWRITE && closed[0] == 0);
    CHECK(state_of(closed + GRANULE) == MEM_RESERVE);
    char* start = os_map(MIB, PAGE);
    memset(start, 1, MIB);
    os_forbid_access(start + PAGE, PAGE);
    os_forbid_writing(start + 2 * PAGE, PAGE);
    CHECK(os_discard(start, MIB));
    CHECK(protection_of(start + PAGE) == PAGE_NOACCESS);
    CHECK(protection_of(start + 2 * PAGE) == PAGE_READONLY);
    CHECK(os_allow_writing(start, MIB) && is_zero(start, MIB));
}

// What the library finds under this name is called instead of the function of Windows.
extern BOOL(WINAPI* __imp_GlobalMemoryStatusEx)(MEMORYSTATUSEX*);
static DWORDLONG may_be_committed = UINT64_MAX;
static BOOL WINAPI states_the_memory(MEMORYSTATUSEX* memory) {
    memory->ullTotalPhys = (DWORDLONG)8192 * MIB;
    memory->ullAvailPageFile = may_be_committed;
    return TRUE;
}
BOOL(WINAPI* __imp_GlobalMemoryStatusEx)(MEMORYSTATUSEX*) = states_the_memory;

TEST(what_could_not_be_committed_again_is_not_discarded) {
    char* start = os_map(MIB, PAGE);
    memset(start, 1, MIB);
    SetLastError(1234);
    may_be_committed = MIB;
    CHECK(!os_discard(start, MIB));
    for (size_t at = 0; at < MIB; at++) CHECK(start[at] == 1);
    may_be_committed = 64u * MIB;
    CHECK(os_discard(start, MIB) && is_zero(start, MIB));
    CHECK_EQUAL(GetLastError(), 1234);
}

enum { ROUNDS = 10000 };
static char* volatile halves;
static volatile LONG begun, ended;

static DWORD WINAPI unmaps_the_second_half(void* argument) {
    (void)argument;
    for (LONG round = 0; round < ROUNDS; round++) {
        while (begun == round) SwitchToThread();
        CHECK(os_unmap(halves + MIB, MIB));
        InterlockedIncrement(&ended);
    }
    return 0;
}

TEST(a_part_stays_mapped_while_it_is_discarded) {
    CHECK(CreateThread(NULL, 0, unmaps_the_second_half, NULL, 0, NULL) != NULL);
    for (LONG round = 0; round < ROUNDS; round++) {
        char* start = os_map(2u * MIB, PAGE);
        start[0] = start[MIB] = 1;
        halves = start;
        InterlockedIncrement(&begun);
        CHECK(os_discard(start, MIB)); // at once with the other thread
        while (ended == round) SwitchToThread();
        CHECK(state_of(start) == MEM_COMMIT && start[0] == 0);
        CHECK(os_unmap(start, MIB) && state_of(start) == MEM_FREE);
    }
}

TEST(populated_pages_keep_their_content) {
    enum { BYTES = 64 * MIB };
    char* start = os_map(BYTES, PAGE);
    size_t before = resident_bytes();
    start[0] = start[BYTES - PAGE] = 9;
    CHECK(os_populate(start, BYTES));
    CHECK(start[0] == 9 && start[BYTES - PAGE] == 9 && start[PAGE] == 0);
    CHECK(resident_bytes() >= before + BYTES - MIB);
}

TEST(more_than_the_system_has_is_refused) {
    CHECK(os_map((size_t)1 << 46, PAGE) == NULL);
    char* place = os_find_place(MIB);
    CHECK(place != NULL && state_of(place) == MEM_FREE);
    CHECK(os_map_at(place, (size_t)1 << 46) != OS_PLACED);
    CHECK(state_of(place) == MEM_FREE);
}

TEST(the_last_error_stays) {
    SetLastError(1234);
    char* start = os_map(MIB, 4u * MIB);
    CHECK(os_map((size_t)1 << 46, PAGE) == NULL);
    CHECK(os_map_at(start, MIB) == OS_TAKEN);
    CHECK(os_discard(start, MIB) && os_unmap(start, MIB));
    CHECK_EQUAL(GetLastError(), 1234);
}

TEST(a_guarded_mapping_has_guards) {
    char* start = os_map_guarded(MIB);
    memset(start, 1, MIB);
    CHECK(state_of(start - 1) == MEM_RESERVE && state_of(start + MIB) == MEM_RESERVE);
    os_unmap_guarded(start, MIB);
    CHECK(state_of(start) == MEM_FREE);
}

// ---- locks ----

static struct os_lock held;
static volatile bool is_held;

static DWORD WINAPI holds_a_lock(void* argument) {
    (void)argument;
    os_lock_acquire(&held);
    is_held = true;
    Sleep(INFINITE);
    return 0;
}

static void takes_the_lock(void) {
    os_lock_acquire(&held);
    os_lock_release(&held);
    (void)_write(2, "taken\n", 6);
    TerminateProcess(GetCurrentProcess(), 3);
}

// 3 is the status after abort. Wine ignores that the status is set to 0 so late.
TEST_DIES(a_process_takes_a_lock_of_a_thread_that_it_has_ended, SIGABRT, "taken") {
    void (*at_end)(void (*)(void));
    HMODULE plugin = LoadLibraryA("windows-plugin.dll");
    CHECK(plugin != NULL);
    *(FARPROC*)&at_end = GetProcAddress(plugin, "plugin_at_end");
    at_end(takes_the_lock); // after Windows has ended the other thread
    CHECK(CreateThread(NULL, 0, holds_a_lock, NULL, 0, NULL) != NULL);
    while (!is_held) Sleep(1);
    exit(1);
}
