// The system layer on Windows 8.1 and later (system.h).
//
// The rings are a view of a sparse file: the system writes it when it wants, also after the process
// has been terminated. So nothing is lost, except in a crash of the system itself.
#include "system.h"

#include "base/atomic.h"
#include "clock.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
// After windows.h:
#include <psapi.h>
#include <winioctl.h>

NTSYSAPI BOOLEAN NTAPI RtlDllShutdownInProgress(void);
NTSYSAPI LONG NTAPI NtGetNextThread(HANDLE process, HANDLE thread, ACCESS_MASK access,
                                    ULONG attributes, ULONG flags, HANDLE* next);

// --- Time and threads ----------------------------------------------------------------------------

uint64_t clock_monotonic(void) {
    static atomic_bits frequency;
    LARGE_INTEGER number;
    uint64_t per_second = atomic_get(&frequency);
    if (per_second == 0) {
        QueryPerformanceFrequency(&number);
        atomic_set(&frequency, per_second = (uint64_t)number.QuadPart);
    }
    QueryPerformanceCounter(&number);
    uint64_t ticks = (uint64_t)number.QuadPart;
    return ticks / per_second * 1000000000u + ticks % per_second * 1000000000u / per_second;
}

uint64_t system_raw_ns(void) {
    return clock_monotonic();
}

enum kl_clock system_clock(void) {
#if defined(__x86_64__)
    enum { LAST_LEAF = 0x80000000, POWER_LEAF = 0x80000007, INVARIANT_TSC = 1 << 8 };
    unsigned a = (unsigned)LAST_LEAF, b, c, d;
    __asm__("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
    if (a < (unsigned)POWER_LEAF) return KL_CLOCK_MONOTONIC;
    a = (unsigned)POWER_LEAF;
    __asm__("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
    return (d & INVARIANT_TSC) != 0 ? KL_CLOCK_TSC : KL_CLOCK_MONOTONIC;
#else
    return KL_CLOCK_TSC;
#endif
}

void system_sleep_us(unsigned microseconds) {
    Sleep((microseconds + 999) / 1000);
}

void system_yield(void) {
    SwitchToThread();
}

uint32_t system_process(void) {
    return GetCurrentProcessId();
}

uint64_t system_thread(void) {
    return GetCurrentThreadId();
}

static size_t to_utf8(const wchar_t* text, char* utf8, size_t bytes) {
    int length = WideCharToMultiByte(CP_UTF8, 0, text, -1, utf8, (int)bytes, NULL, NULL);
    if (length <= 0) utf8[0] = '\0';
    return length > 0 ? (size_t)length - 1 : 0;
}

// Windows 10 version 1607 has names.
void system_thread_name(char name[static 16]) {
    typedef HRESULT(WINAPI * describe)(HANDLE thread, wchar_t * *name);
    enum { MOST = 128 };
    char utf8[MOST];
    wchar_t* text = NULL;
    FARPROC found = GetProcAddress(GetModuleHandleW(L"kernel32.dll"), "GetThreadDescription");
    describe function;
    memcpy(&function, &found, sizeof function);
    if (function == NULL || function(GetCurrentThread(), &text) < 0) return;
    text[wcslen(text) < 15 ? wcslen(text) : 15] = 0;
    to_utf8(text, utf8, sizeof utf8);
    LocalFree(text);
    memcpy(name, utf8, 15);
    name[15] = '\0';
}

static void (*run_at_end)(void* value);
static _Thread_local void* watched;

// Windows calls it on the thread that ends, as the allocator's (os/windows/thread.c).
static void NTAPI on_notice(void* module, DWORD reason, void* reserved) {
    (void)module, (void)reserved;
    if (reason != DLL_THREAD_DETACH) return;
    for (void* value; (value = watched) != NULL; run_at_end(value)) watched = NULL;
}
extern const PIMAGE_TLS_CALLBACK record_thread_notice;
__attribute__((section(".CRT$XLY"), used)) const PIMAGE_TLS_CALLBACK record_thread_notice =
    on_notice;

void system_watch_threads(void (*ended)(void* value)) {
    run_at_end = ended;
}

void system_watch_thread(void* value) {
    watched = value;
}

void system_on_fork(void (*in_child)(void)) {
    (void)in_child;
}

void system_wipe_on_fork(void* pages, size_t bytes) {
    (void)pages, (void)bytes;
}

struct system_state system_begin(void) {
    return (struct system_state){errno, GetLastError()};
}

void system_end(struct system_state state) {
    SetLastError(state.saved);
    errno = state.saved_errno;
}

bool system_has_threads(void) {
    return !RtlDllShutdownInProgress();
}

void system_touch(void* pages, size_t bytes) {
    (void)pages, (void)bytes;
}

// --- Description of the process ------------------------------------------------------------------

// Paths have slashes, so that keel reads them on every system.
static size_t path_of_module(HMODULE module, char* utf8, size_t bytes) {
    wchar_t path[MAX_PATH * 4];
    DWORD length = GetModuleFileNameW(module, path, sizeof path / sizeof *path);
    for (DWORD i = 0; i < length; i++) path[i] = path[i] == L'\\' ? L'/' : path[i];
    path[length < sizeof path / sizeof *path ? length : 0] = 0;
    return to_utf8(path, utf8, bytes);
}

// Separates the words of a command line by NULs, as /proc/self/cmdline does. Quotation marks
// protect spaces; the rule for marks inside of marks is not followed.
static void words_separate(char* line) {
    bool quoted = false;
    char* to = line;
    for (const char* from = line; *from != '\0'; from++) {
        bool separates = !quoted && (*from == ' ' || *from == '\t');
        if (*from == '"') {
            quoted = !quoted;
        } else if (!separates) {
            *to++ = *from;
        } else if (to > line && to[-1] != '\0') {
            *to++ = '\0';
        }
    }
    while (*to != '\0') *to++ = '\0';
}

void system_describe(struct kl_spool* spool) {
    spool->pid = GetCurrentProcessId();
    path_of_module(NULL, spool->program, sizeof spool->program);
    to_utf8(GetCommandLineW(), spool->arguments, sizeof spool->arguments - 1);
    words_separate(spool->arguments);
}

// The lines of a module: one for each section with code, at its place in the file.
static size_t module_lines(HMODULE module, char* text, size_t bytes) {
    char path[KL_PAGE_BYTES];
    const char* base = (const char*)module;
    const IMAGE_NT_HEADERS* headers =
        (const void*)(base + ((const IMAGE_DOS_HEADER*)(const void*)base)->e_lfanew);
    const IMAGE_SECTION_HEADER* sections = IMAGE_FIRST_SECTION(headers);
    size_t taken = 0;
    path_of_module(module, path, sizeof path);
    for (unsigned i = 0; i < headers->FileHeader.NumberOfSections; i++) {
        if ((sections[i].Characteristics & IMAGE_SCN_MEM_EXECUTE) == 0) continue;
        const char* start = base + sections[i].VirtualAddress;
        int length = snprintf(text + taken, bytes - taken, "%llx-%llx r-xp %lx 00:00 0 %s\n",
                              (unsigned long long)(uintptr_t)start,
                              (unsigned long long)(uintptr_t)start + sections[i].Misc.VirtualSize,
                              sections[i].PointerToRawData, path);
        if (length < 0 || (size_t)length >= bytes - taken) break;
        taken += (size_t)length;
    }
    return taken;
}

size_t system_maps(char* text, size_t bytes) {
    enum { MOST = 1024 };
    HMODULE modules[MOST];
    DWORD needed = 0;
    size_t taken = 0;
    if (!EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &needed)) return 0;
    for (DWORD i = 0; i < MOST && i < needed / sizeof *modules; i++) {
        taken += module_lines(modules[i], text + taken, bytes - taken);
    }
    return taken;
}

// --- The files of a recording --------------------------------------------------------------------

enum { PATH_CHARACTERS = 4096, GRANULARITY = 65536 };
static wchar_t log_path[PATH_CHARACTERS];
static wchar_t rings_path[PATH_CHARACTERS];
static HANDLE log_file = INVALID_HANDLE_VALUE;
static HANDLE rings_file = INVALID_HANDLE_VALUE;
static SRWLOCK log_lock = SRWLOCK_INIT;
static uint64_t log_bytes;

static int last_error(void) {
    switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_NETPATH:
        return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
    case ERROR_USER_MAPPED_FILE:
        return EACCES;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
        return ENOSPC;
    case ERROR_FILENAME_EXCED_RANGE:
    case ERROR_INSUFFICIENT_BUFFER:
        return ENAMETOOLONG;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_COMMITMENT_LIMIT:
        return ENOMEM;
    default:
        return EIO;
    }
}

static HANDLE file_create(const wchar_t* path) {
    return CreateFileW(path, GENERIC_READ | GENERIC_WRITE,
                       FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, CREATE_ALWAYS,
                       FILE_ATTRIBUTE_NORMAL, NULL);
}

static void file_close(HANDLE* file) {
    if (*file != INVALID_HANDLE_VALUE) CloseHandle(*file);
    *file = INVALID_HANDLE_VALUE;
}

// The program may change its working folder before it ends.
static int paths_make(const char* path) {
    static const wchar_t suffix[] = L".rings";
    wchar_t given[PATH_CHARACTERS];
    log_path[0] = rings_path[0] = 0;
    if (MultiByteToWideChar(CP_UTF8, 0, path, -1, given, PATH_CHARACTERS) == 0) return last_error();
    DWORD room = PATH_CHARACTERS - sizeof suffix / sizeof *suffix;
    DWORD length = GetFullPathNameW(given, room, log_path, NULL);
    if (length == 0) return last_error();
    if (length >= room) return ENAMETOOLONG;
    memcpy(rings_path, log_path, length * sizeof *log_path);
    memcpy(rings_path + length, suffix, sizeof suffix);
    return 0;
}

static bool write_at(HANDLE file, uint64_t offset, const void* bytes, size_t length) {
    OVERLAPPED place = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
    DWORD written = 0;
    if (length == 0) return true;
    return WriteFile(file, bytes, (DWORD)length, &written, &place) && written == length;
}

// A sparse file gets its memory only by writes.
bool system_files_reserve(uint64_t offset, uint64_t bytes) {
    static const char zeros[GRANULARITY];
    for (uint64_t done = 0; done < bytes; done += GRANULARITY) {
        uint64_t left = bytes - done;
        size_t length = left < GRANULARITY ? (size_t)left : GRANULARITY;
        if (!write_at(rings_file, offset + done, zeros, length)) return false;
    }
    return true;
}

static int rings_create(size_t bytes, size_t first_bytes, void** rings) {
    DWORD unused;
    rings_file = file_create(rings_path);
    if (rings_file == INVALID_HANDLE_VALUE) return last_error();
    // A file system without sparse files reserves all of it.
    DeviceIoControl(rings_file, FSCTL_SET_SPARSE, NULL, 0, NULL, 0, &unused, NULL);
    LARGE_INTEGER end = {.QuadPart = (LONGLONG)bytes};
    if (!SetFilePointerEx(rings_file, end, NULL, FILE_BEGIN) || !SetEndOfFile(rings_file) ||
        !system_files_reserve(0, first_bytes))
        return last_error();
    HANDLE section = CreateFileMappingW(rings_file, NULL, PAGE_READWRITE, 0, 0, NULL);
    if (section == NULL) return last_error();
    *rings = MapViewOfFile(section, FILE_MAP_WRITE, 0, 0, bytes);
    int error = *rings == NULL ? last_error() : 0;
    CloseHandle(section);
    return error;
}

int system_files_create(const char* path, size_t bytes, size_t first_bytes, void** rings) {
    int error = paths_make(path);
    if (error != 0) return error;
    log_bytes = 0;
    log_file = file_create(log_path);
    return log_file == INVALID_HANDLE_VALUE ? last_error()
                                            : rings_create(bytes, first_bytes, rings);
}

// A write that fails is overwritten by the next one.
int system_files_append(const struct piece* pieces, int count) {
    int error = 0;
    AcquireSRWLockExclusive(&log_lock);
    uint64_t end = log_bytes;
    for (int i = 0; i < count && error == 0; i++) {
        if (!write_at(log_file, end, pieces[i].bytes, pieces[i].length)) error = last_error();
        end += pieces[i].length;
    }
    if (error == 0) log_bytes = end;
    ReleaseSRWLockExclusive(&log_lock);
    return error;
}

// Other memory can take the place of a view only in two steps. So that no thread writes an event in
// between, all others stand still. Nothing here waits for a lock that one of them may hold: each
// call is one of the system. Threads that begin meanwhile come last, so they are found as well.
static HANDLE standing[KL_RING_MAX];

static unsigned threads_stop(bool* all) {
    unsigned count = 0;
    HANDLE last = NULL, thread;
    const ACCESS_MASK access =
        THREAD_SUSPEND_RESUME | THREAD_GET_CONTEXT | THREAD_QUERY_LIMITED_INFORMATION;
    *all = true;
    while (*all && NtGetNextThread(GetCurrentProcess(), last, access, 0, 0, &thread) >= 0) {
        CONTEXT context = {.ContextFlags = CONTEXT_CONTROL};
        *all = count < KL_RING_MAX - 1;
        last = standing[count++] = thread;
        // The second call waits until the thread stands. Both fail for a thread that ends.
        if (GetThreadId(thread) != GetCurrentThreadId() && SuspendThread(thread) != (DWORD)-1)
            (void)GetThreadContext(thread, &context);
    }
    return count;
}

static void threads_resume(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        if (GetThreadId(standing[i]) != GetCurrentThreadId()) ResumeThread(standing[i]);
        CloseHandle(standing[i]);
    }
}

static void rings_release(char* rings, uint64_t first, uint64_t end) {
    bool all;
    unsigned count = threads_stop(&all);
    first -= first % GRANULARITY;
    if (all && UnmapViewOfFile(rings) && end > first)
        VirtualAlloc(rings + first, end - first, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    threads_resume(count);
}

void system_files_release(void* rings, uint64_t first, uint64_t end, enum system_kept kept) {
    file_close(&log_file);
    if (rings != NULL) rings_release(rings, first, end);
    file_close(&rings_file);
    if (kept == KEPT_NONE) DeleteFileW(log_path);
    if (kept != KEPT_BOTH) DeleteFileW(rings_path);
}
