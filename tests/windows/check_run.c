// check_run.h for Windows: the program starts itself again for each test, which it names in the
// environment. The exit status of a process that abort has ended is 3. Also what memory.h asks of
// the system.
#include "check_run.h"
#include "memory.h"

#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <psapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

enum { EXIT_ABORTED = 3, EXIT_LATE = 254 };
#define SELECTED "CHECK_RUN_ONE"

// stdio may allocate.
void check_print(const char* format, va_list arguments) {
    char text[1024];
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length > (int)sizeof text - 1) length = (int)sizeof text - 1;
    if (length > 0) (void)_write(2, text, (unsigned)length);
}

void check_print_error(int error) {
    char text[80];
    int length =
        snprintf(text, sizeof text, " (errno %d, last error %lu)\n", error, GetLastError());
    (void)_write(2, text, (unsigned)length);
}

void check_exit(int status) {
    TerminateProcess(GetCurrentProcess(), (UINT)status);
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

static HANDLE output_file(void) {
    char folder[MAX_PATH], path[MAX_PATH];
    SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
    GetTempPathA(sizeof folder, folder);
    GetTempFileNameA(folder, "chk", 0, path);
    return CreateFileA(path, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                       &inherited, CREATE_ALWAYS, FILE_FLAG_DELETE_ON_CLOSE, NULL);
}

void check_run(const struct check_test* test, struct outcome* outcome) {
    char path[MAX_PATH];
    PROCESS_INFORMATION child;
    STARTUPINFOA start = {.cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES};
    DWORD length = 0, status = 0;
    HANDLE text = output_file();
    ULONGLONG began = GetTickCount64();
    GetModuleFileNameA(NULL, path, sizeof path);
    SetEnvironmentVariableA(SELECTED, test->name);
    start.hStdError = text;
    start.hStdOutput = text;
    if (!CreateProcessA(path, NULL, NULL, NULL, TRUE, 0, NULL, NULL, &start, &child)) {
        printf("check: cannot start a test: %lu\n", GetLastError());
        exit(2);
    }
    if (WaitForSingleObject(child.hProcess, check_deadline_seconds() * 1000) == WAIT_TIMEOUT) {
        TerminateProcess(child.hProcess, EXIT_LATE);
        WaitForSingleObject(child.hProcess, INFINITE);
    }
    GetExitCodeProcess(child.hProcess, &status);
    CloseHandle(child.hThread);
    CloseHandle(child.hProcess);
    SetFilePointer(text, 0, NULL, FILE_BEGIN);
    ReadFile(text, outcome->text, sizeof outcome->text - 1, &length, NULL);
    outcome->text[length] = 0;
    CloseHandle(text);
    outcome->status = (int)status;
    outcome->milliseconds = (long)(GetTickCount64() - began);
    outcome->kind = is_expected_end(test->expected_signal, status) ? PASSED : FAILED;
    if (status == EXIT_SKIPPED) outcome->kind = SKIPPED;
}

void check_print_end(const struct outcome* outcome) {
    printf("ended with status 0x%x%s", (unsigned)outcome->status,
           outcome->status == EXIT_LATE ? " (timeout)" : "");
}

static int run_selected(const struct check_test* test, const char* name) {
    while (test && strcmp(test->name, name) != 0) test = test->next;
    if (test == NULL) return 2;
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
    test->run();
    return 0;
}

bool check_prepare(struct check_test* first) {
    const char* selected = getenv(SELECTED);
    _setmode(1, _O_BINARY); // lines end as on Linux
    if (selected != NULL && *selected != 0) exit(run_selected(first, selected));
    return true;
}
