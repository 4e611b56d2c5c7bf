/* keel_unity.h: a native plug-in of Unity allocates from Keel through the interface that Unity has
 * for this. It is tested with a stand-in for IUnityMemoryManager.h, not with the engine.
 *
 * Unity offers IUnityMemoryManager, with which a plug-in allocates from Unity; a plug-in cannot
 * replace the allocator of Unity itself. keel_unity_memory() returns the same interface, whose
 * allocators are heaps of Keel. A plug-in that uses IUnityMemoryManager changes one line:
 *
 *     #include "IUnityMemoryManager.h"
 *     #include "keel_unity.h"
 *
 *     memory = keel_unity_memory();      // instead of interfaces->Get<IUnityMemoryManager>()
 *
 * Unity's profiler does not show these blocks. `keel record` does. DestroyAllocator ends a heap and
 * keeps blocks that are still live, which Deallocate frees as before. */
#ifndef KEEL_UNITY_H
#define KEEL_UNITY_H

#include "keel_hooks.h"

KEEL_HOOK UnityAllocator* UNITY_INTERFACE_API keel_unity_create(const char* area,
                                                                const char* object) {
    (void)area;
    (void)object;
    return (UnityAllocator*)kl_heap_new();
}
KEEL_HOOK void UNITY_INTERFACE_API keel_unity_destroy(UnityAllocator* allocator) {
    if (allocator != NULL) kl_heap_delete((kl_heap_t*)allocator);
}
KEEL_HOOK void* UNITY_INTERFACE_API keel_unity_malloc(UnityAllocator* allocator, size_t size,
                                                      size_t alignment, const char* file,
                                                      int32_t line) {
    (void)file;
    (void)line;
    KEEL_HOOK_RETURN(keel_hook_aligned_alloc((kl_heap_t*)allocator, alignment, size));
}
KEEL_HOOK void UNITY_INTERFACE_API keel_unity_free(UnityAllocator* allocator, void* block,
                                                   const char* file, int32_t line) {
    (void)allocator;
    (void)file;
    (void)line;
    kl_free(block);
    KEEL_HOOK_STAYS;
}
KEEL_HOOK void* UNITY_INTERFACE_API keel_unity_realloc(UnityAllocator* allocator, void* block,
                                                       size_t size, size_t alignment,
                                                       const char* file, int32_t line) {
    (void)file;
    (void)line;
    KEEL_HOOK_RETURN(keel_hook_aligned_realloc((kl_heap_t*)allocator, block, alignment, size));
}

static inline IUnityMemoryManager* keel_unity_memory(void) {
    static IUnityMemoryManager memory;
    memory.CreateAllocator = keel_unity_create;
    memory.DestroyAllocator = keel_unity_destroy;
    memory.Allocate = keel_unity_malloc;
    memory.Deallocate = keel_unity_free;
    memory.Reallocate = keel_unity_realloc;
    return &memory;
}

#endif
