// check.h for Windows: the program starts itself again for each test, which it names in the
// environment. The exit status of a process that abort has ended is 3.
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <psapi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

enum { EXIT_FAILED = 1, EXIT_ABORTED = 3, EXIT_SKIPPED = 77, EXIT_LATE = 254 };
#define SELECTED "CHECK_RUN_ONE"

static struct check_test* first_test;

void check_register(struct check_test* test) {
    struct check_test** end = &first_test;
    while (*end) end = &(*end)->next;
    *end = test;
}

// stdio may allocate.
static void print(const char* format, va_list arguments) {
    char text[1024];
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length > (int)sizeof text - 1) length = (int)sizeof text - 1;
    if (length > 0) (void)_write(2, text, (unsigned)length);
}
static __attribute__((format(printf, 1, 2))) void print_text(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
}

void check_fail(const char* file, int line, const char* format, ...) {
    const char* base = strrchr(file, '/');
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    print_text("%s:%d: ", base ? base + 1 : file, line);
    print(format, arguments);
    print_text(" (errno %d, last error %lu)\n", error, GetLastError());
    va_end(arguments);
    TerminateProcess(GetCurrentProcess(), EXIT_FAILED);
    __builtin_unreachable();
}

void check_skip(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
    TerminateProcess(GetCurrentProcess(), EXIT_SKIPPED);
    __builtin_unreachable();
}

void check_child(const char* file, int line, pid_t child) {
    (void)child;
    check_fail(file, line, "Windows has no fork");
}

// ---- memory.h ----

size_t resident_bytes(void) {
    PROCESS_MEMORY_COUNTERS memory = {.cb = sizeof memory};
    GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof memory);
    return memory.WorkingSetSize;
}

// The number of reservations.
size_t map_count(void) {
    MEMORY_BASIC_INFORMATION info;
    size_t count = 0;
    for (char* at = NULL; VirtualQuery(at, &info, sizeof info) != 0;
         at = (char*)info.BaseAddress + info.RegionSize)
        count += info.State != MEM_FREE && info.AllocationBase == info.BaseAddress;
    return count;
}

size_t physical_bytes(void) {
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    GlobalMemoryStatusEx(&memory);
    return memory.ullTotalPhys;
}

// ---- running ----

struct outcome {
    enum { PASSED, FAILED, SKIPPED } kind;
    DWORD status;
    char text[8192]; // the test's stderr, truncated
};
static struct outcome outcome;

static DWORD deadline_ms(void) {
    const char* value = getenv("CHECK_SECONDS");
    return (value && atoi(value) > 0 ? (DWORD)atoi(value) : 60) * 1000;
}

static bool is_expected_end(int expected_signal, DWORD status) {
    switch (expected_signal) {
    case SIGABRT:
        return status == EXIT_ABORTED;
    case SIGSEGV:
        return status == (DWORD)STATUS_ACCESS_VIOLATION;
    case SIGILL:
        return status == (DWORD)STATUS_ILLEGAL_INSTRUCTION;
    default:
        return status == 0;
    }
}

static bool has_line_beginning_with(const char* text, const char* line) {
    size_t length = strlen(line);
    for (const char* at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        if (strncmp(at, line, length) == 0) return true;
    }
    return false;
}

static void judge(const struct check_test* test) {
    outcome.kind = FAILED;
    if (outcome.status == EXIT_SKIPPED)
        outcome.kind = SKIPPED;
    else if (is_expected_end(test->expected_signal, outcome.status) &&
             (!test->expected_message ||
              has_line_beginning_with(outcome.text, test->expected_message)))
        outcome.kind = PASSED;
}

static HANDLE output_file(void) {
    char folder[MAX_PATH], path[MAX_PATH];
    SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
    GetTempPathA(sizeof folder, folder);
    GetTempFileNameA(folder, "chk", 0, path);
    return CreateFileA(path, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                       &inherited, CREATE_ALWAYS, FILE_FLAG_DELETE_ON_CLOSE, NULL);
}

static void run_one(const struct check_test* test) {
    char path[MAX_PATH];
    PROCESS_INFORMATION child;
    STARTUPINFOA start = {.cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES};
    DWORD length = 0;
    HANDLE text = output_file();
    GetModuleFileNameA(NULL, path, sizeof path);
    SetEnvironmentVariableA(SELECTED, test->name);
    start.hStdError = text;
    start.hStdOutput = text;
    if (!CreateProcessA(path, NULL, NULL, NULL, TRUE, 0, NULL, NULL, &start, &child)) {
        printf("check: cannot start a test: %lu\n", GetLastError());
        exit(2);
    }
    if (WaitForSingleObject(child.hProcess, deadline_ms()) == WAIT_TIMEOUT) {
        TerminateProcess(child.hProcess, EXIT_LATE);
        WaitForSingleObject(child.hProcess, INFINITE);
    }
    GetExitCodeProcess(child.hProcess, &outcome.status);
    CloseHandle(child.hThread);
    CloseHandle(child.hProcess);
    SetFilePointer(text, 0, NULL, FILE_BEGIN);
    ReadFile(text, outcome.text, sizeof outcome.text - 1, &length, NULL);
    outcome.text[length] = 0;
    CloseHandle(text);
    judge(test);
}

static void report(const struct check_test* test) {
    if (outcome.kind == SKIPPED) printf("SKIP %s: %s\n", test->name, outcome.text);
    if (outcome.kind != FAILED) return;
    printf("FAIL %s: ended with status 0x%lx%s", test->name, outcome.status,
           outcome.status == EXIT_LATE ? " (timeout)" : "");
    if (test->expected_signal)
        printf("; expected signal %d and the line \"%s\"", test->expected_signal,
               test->expected_message ? test->expected_message : "");
    printf("\n%s\n", outcome.text);
}

// CHECK_LEAVE_OUT has whole names with a blank on both sides of each.
static bool is_left_out(const struct check_test* test) {
    const char* names = getenv("CHECK_LEAVE_OUT");
    size_t length = strlen(test->name);
    const char* at = names;
    while (at && (at = strstr(at, test->name)) != NULL) {
        if (at > names && at[-1] == ' ' && at[length] == ' ') return true;
        at += length;
    }
    return false;
}

static bool is_wanted(const struct check_test* test, int words_count, char** text) {
    if (is_left_out(test)) return false;
    for (int i = 0; i < words_count; i++) {
        if (strstr(test->name, text[i])) return true;
    }
    return words_count == 0;
}

static int run_selected(const char* name) {
    for (struct check_test* test = first_test; test; test = test->next) {
        if (strcmp(test->name, name) != 0) continue;
        SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
        test->run();
        return 0;
    }
    return 2;
}

int main(int argc, char** argv) {
    _setmode(1, _O_BINARY); // lines end as on Linux
    int counts[3] = {0, 0, 0};
    const char* selected = getenv(SELECTED);
    if (selected != NULL && *selected != 0) return run_selected(selected);
    for (struct check_test* test = first_test; test; test = test->next) {
        if (!is_wanted(test, argc - 1, argv + 1)) continue;
        run_one(test);
        report(test);
        fflush(stdout);
        counts[outcome.kind]++;
    }
    printf("%d passed, %d failed, %d skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
    return counts[FAILED] != 0;
}
