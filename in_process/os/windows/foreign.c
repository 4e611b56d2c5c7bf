#include "os/windows/foreign.h"
#include "os/windows/system.h"
#include <stdint.h>

// msvcrt.dll has a heap of its own. ucrtbase.dll and runtimes that are linked statically use that
// of the process. A program may end its other heaps at any time, so they are not asked.
static HANDLE heap_of_runtime(void) {
    HMODULE runtime = GetModuleHandleA("msvcrt.dll");
    FARPROC handle = runtime == NULL ? NULL : GetProcAddress(runtime, "_get_heap_handle");
    return handle == NULL ? NULL : (HANDLE)((intptr_t(*)(void))(void (*)(void))handle)();
}

// The heap that the block is of, or NULL.
static HANDLE heap_of(const void* block) {
    const HANDLE heaps[] = {GetProcessHeap(), heap_of_runtime()};
    for (size_t i = 0; i < sizeof heaps / sizeof *heaps; i++) {
        if (heaps[i] != NULL && HeapValidate(heaps[i], 0, block)) return heaps[i];
    }
    return NULL;
}

bool foreign_block_bytes(const void* block, size_t* bytes) {
    DWORD saved = GetLastError();
    HANDLE heap = heap_of(block);
    if (heap != NULL) *bytes = HeapSize(heap, 0, block);
    SetLastError(saved);
    return heap != NULL;
}

bool foreign_block_free(void* block) {
    DWORD saved = GetLastError();
    HANDLE heap = heap_of(block);
    bool done = heap != NULL && HeapFree(heap, 0, block);
    SetLastError(saved);
    return done;
}
