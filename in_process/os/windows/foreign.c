#include "os/windows/foreign.h"
#include "os/windows/system.h"

#define HEAPS_MAX 64u

// The heap that the block is of, or NULL.
static HANDLE heap_of(const void* block) {
    HANDLE heaps[HEAPS_MAX];
    DWORD count = GetProcessHeaps(HEAPS_MAX, heaps);
    if (count > HEAPS_MAX) count = HEAPS_MAX;
    for (DWORD i = 0; i < count; i++) {
        if (HeapValidate(heaps[i], 0, block)) return heaps[i];
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
