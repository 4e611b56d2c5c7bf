#include "os/process.h"
#include "os/windows/system.h"
#include <ntsecapi.h>
#include <psapi.h>
#include <stdlib.h>
#include <string.h>

// --- Clock and numbers ---------------------------------------------------------------------------

// As coarse as the system's timer: about 16 ms.
uint64_t os_clock_ms(void) {
    return GetTickCount64();
}

uint32_t os_process_id(void) {
    return GetCurrentProcessId();
}

// Windows has no fork, so no process uses the memory of another one.
void os_process_record(void) {}

bool os_process_is_guest(void) {
    return false;
}

uint64_t os_random(void) {
    uint64_t number = 0;
    LARGE_INTEGER ticks = {.QuadPart = 0};
    DWORD saved = GetLastError();
    if (!RtlGenRandom(&number, sizeof number)) {
        (void)QueryPerformanceCounter(&ticks);
        number =
            ((uint64_t)ticks.QuadPart ^ (uintptr_t)&number) * UINT64_C(0x9e3779b97f4a7c15) >> 8;
    }
    SetLastError(saved);
    return number;
}

// --- Environment ---------------------------------------------------------------------------------

// The entries of the environment that can be options, copied once: Windows has no list of pointers,
// and the C library's need not exist yet. What exceeds the room is left out.
enum { ENTRIES_MAX = 64, TEXT_BYTES = 4096 };
static char* entries[ENTRIES_MAX + 1];
static char entry_text[TEXT_BYTES];

static void copy_entries(const char* block) {
    size_t count = 0, used = 0;
    for (const char* entry = block; *entry != '\0'; entry += strlen(entry) + 1) {
        size_t bytes = strlen(entry) + 1;
        bool ours = strncmp(entry, "KEEL_", 5) == 0 || strncmp(entry, "MIMALLOC_", 9) == 0;
        if (!ours || count == ENTRIES_MAX || bytes > TEXT_BYTES - used) continue;
        entries[count++] = memcpy(entry_text + used, entry, bytes);
        used += bytes;
    }
}

char* const* os_environment(void) {
    if (entries[0] != NULL) return entries;
    DWORD saved = GetLastError();
    char* block = GetEnvironmentStringsA();
    if (block != NULL) {
        copy_entries(block);
        (void)FreeEnvironmentStringsA(block);
    }
    SetLastError(saved);
    return entries;
}

// --- Output --------------------------------------------------------------------------------------

void os_write_error(const char* text, size_t length) {
    DWORD saved = GetLastError(), written = 0;
    HANDLE error = GetStdHandle(STD_ERROR_HANDLE);
    while (length > 0 && WriteFile(error, text, (DWORD)length, &written, NULL) && written > 0) {
        text += written;
        length -= written;
    }
    SetLastError(saved);
}

void os_abort(const char* text, size_t length) {
    os_write_error(text, length);
    abort();
}

// --- Figures -------------------------------------------------------------------------------------

static uint64_t milliseconds(FILETIME time) {
    const uint64_t units_of_100_ns = (uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime;
    return units_of_100_ns / 10000;
}

// Windows counts all page faults as one number.
void os_usage(struct os_usage* usage) {
    FILETIME begun, ended, system = {0, 0}, user = {0, 0};
    PROCESS_MEMORY_COUNTERS memory = {.cb = sizeof memory};
    DWORD saved = GetLastError();
    (void)GetProcessTimes(GetCurrentProcess(), &begun, &ended, &system, &user);
    (void)GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof memory);
    SetLastError(saved);
    *usage = (struct os_usage){
        .user_ms = milliseconds(user),
        .system_ms = milliseconds(system),
        .rss_bytes = memory.WorkingSetSize,
        .rss_peak_bytes = memory.PeakWorkingSetSize,
        .minor_faults = memory.PageFaultCount,
    };
}
