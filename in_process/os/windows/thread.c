// Threads, and the notice of their end.
//
// Windows calls the functions of a module's directory of thread-local storage when a thread begins
// or ends, on that thread. They belong to the thread, so fibers do not matter: a thread-local
// variable is that of the thread on which a fiber runs. The alternative, a callback of FlsAlloc,
// belongs to a fiber, and may run on another thread than the one that has set its value.
//
// Windows notifies modules of an end in the reverse order of their start, and the program last: so
// Keel's library gets it after all libraries that use it, but before the program's own destructors
// of thread-local objects.
#include "os/thread.h"
#include "os/windows/system.h"

#define STACK_BYTES ((size_t)128 * 1024)

KEEL_TLS bool os_thread_is_own;

uint32_t os_thread_id(void) {
    return GetCurrentThreadId();
}

// --- The end of a thread -------------------------------------------------------------------------

static void (*run_at_end)(void* value);
static KEEL_TLS void* armed;

static void NTAPI on_notice(void* module, DWORD reason, void* reserved) {
    (void)module, (void)reserved;
    if (reason != DLL_THREAD_DETACH || run_at_end == NULL) return;
    void* value = armed;
    armed = NULL;
    if (value != NULL) run_at_end(value);
}

// The linker sorts the pieces of .CRT by name. C++'s destructors of thread-local objects of this
// module are in .CRT$XLD.
extern const PIMAGE_TLS_CALLBACK keel_thread_notice;
__attribute__((section(".CRT$XLY"), used)) const PIMAGE_TLS_CALLBACK keel_thread_notice = on_notice;

// The module stays loaded: the keeper runs in it, the ends of threads call it, and its blocks
// outlive FreeLibrary.
void os_thread_exit_register(void (*on_exit)(void* value)) {
    HMODULE module;
    DWORD saved = GetLastError();
    (void)GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                             (const wchar_t*)(const void*)&keel_thread_notice, &module);
    SetLastError(saved);
    run_at_end = on_exit;
}

void os_thread_exit_arm(void* value) {
    if (run_at_end != NULL) armed = value;
}

// --- Starting ------------------------------------------------------------------------------------

void os_thread_prepare(void) {}

bool os_process_has_one_thread(void) {
    return false;
}

static DWORD WINAPI thread_main(void* run) {
    os_thread_is_own = true;
    void (*function)(void);
    *(void**)&function = run;
    function();
    return 0;
}

bool os_thread_start(struct os_thread* thread, void (*run)(void)) {
    DWORD saved = GetLastError();
    HANDLE handle = CreateThread(NULL, STACK_BYTES, thread_main, *(void**)&run,
                                 STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
    if (handle != NULL) (void)CloseHandle(handle);
    atomic_set(&thread->known, 1);
    SetLastError(saved);
    return handle != NULL;
}

// It needs the loader's lock to end, and the caller, which is ending, too, has that. The last
// thread ends the process, whichever it is.
void os_thread_join(struct os_thread* thread) {
    (void)thread;
}

// --- Waiting -------------------------------------------------------------------------------------

void os_wait(atomic_state* word, uint32_t expected, uint32_t microseconds) {
    DWORD saved = GetLastError();
    (void)WaitOnAddress(word, &expected, sizeof expected, microseconds / 1000 + 1);
    SetLastError(saved);
}

void os_wake(atomic_state* word) {
    WakeByAddressSingle((void*)word);
}

bool os_order_threads(void) {
#if defined(__x86_64__)
    atomic_order_for_signals();
#else
    FlushProcessWriteBuffers();
#endif
    return true;
}

// --- Fork ----------------------------------------------------------------------------------------

// Windows has none.
void os_fork_register(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    (void)before, (void)in_parent, (void)in_child;
}
