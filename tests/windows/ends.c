// A process ends while its threads allocate. Windows ends the other threads wherever they are, then
// runs the destructors. One of them allocates, frees and sets the status that the test expects.
#include "check.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

enum { TURNS = 20, THREADS = 4, EARLY = 41, STATUS = 42 };

static DWORD WINAPI allocates_for_ever(void* argument) {
    struct random random = {(uintptr_t)argument};
    static char* volatile shared[64];
    for (;;) {
        size_t size = random_below(&random, 8) == 0 ? 3000000 : 1 + random_below(&random, 5000);
        char* block = malloc(size);
        if (block != NULL) block[0] = block[size - 1] = 1;
        free(
            InterlockedExchangePointer((void* volatile*)&shared[random_below(&random, 64)], block));
    }
}

static void ends_the_process(void) {
    for (int i = 0; i < 200; i++) free(malloc((size_t)1 << (i % 23)));
    TerminateProcess(GetCurrentProcess(), STATUS);
}

static void start_threads(void) {
    void (*at_end)(void (*)(void));
    HMODULE plugin = LoadLibraryA("windows-plugin.dll");
    CHECK(plugin != NULL);
    *(FARPROC*)&at_end = GetProcAddress(plugin, "plugin_at_end");
    at_end(ends_the_process);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(CreateThread(NULL, 0, allocates_for_ever, (void*)(i + 1), 0, NULL) != NULL);
    Sleep(30);
}

// Runs the test `name` of this program TURNS times, which must end with the status.
static void repeat(const char* name, const char* keeper) {
    char path[MAX_PATH];
    GetModuleFileNameA(NULL, path, sizeof path);
    SetEnvironmentVariableA("CHECK_RUN_ONE", name);
    SetEnvironmentVariableA("REPEATED", "1");
    SetEnvironmentVariableA("KEEL_KEEPER", keeper);
    for (int i = 0; i < TURNS; i++) {
        STARTUPINFOA begin = {.cb = sizeof begin};
        PROCESS_INFORMATION child;
        DWORD status;
        CHECK(CreateProcessA(path, NULL, NULL, NULL, TRUE, 0, NULL, NULL, &begin, &child));
        if (WaitForSingleObject(child.hProcess, 20000) != WAIT_OBJECT_0) {
            TerminateProcess(child.hProcess, 1);
            check_fail(__FILE__, __LINE__, "turn %d of %s does not end", i, name);
        }
        CHECK(GetExitCodeProcess(child.hProcess, &status));
        CHECK_WITH(status == STATUS, "turn %d of %s: status 0x%lx", i, name, status);
        CloseHandle(child.hThread);
        CloseHandle(child.hProcess);
    }
}

#define ENDS(name, keeper, end)                                                                    \
    TEST(name) {                                                                                   \
        if (getenv("REPEATED") == NULL) {                                                          \
            repeat(#name, keeper);                                                                 \
            return;                                                                                \
        }                                                                                          \
        start_threads();                                                                           \
        end;                                                                                       \
    }

ENDS(exit_ends_a_process_of_threads, "auto", exit(EARLY))
ENDS(ExitProcess_ends_a_process_of_threads, "auto", ExitProcess(EARLY))
ENDS(exit_ends_a_process_with_a_keeper, "on", exit(EARLY))
ENDS(TerminateProcess_ends_a_process_of_threads, "auto", ends_the_process())

static DWORD WINAPI exits(void* argument) {
    (void)argument;
    exit(EARLY);
}
ENDS(another_thread_ends_the_process, "on",
     { WaitForSingleObject(CreateThread(NULL, 0, exits, NULL, 0, NULL), INFINITE); })
ENDS(main_returns_while_threads_run, "on", {})
