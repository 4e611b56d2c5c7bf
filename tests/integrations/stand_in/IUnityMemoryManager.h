/* The part of Unity's IUnityMemoryManager.h that integrations/memory/keel_unity.h uses: a stand-in
 * for tests, with the engine's names and signatures. */
#ifndef STAND_IN_IUNITYMEMORYMANAGER_H
#define STAND_IN_IUNITYMEMORYMANAGER_H

#include <stddef.h>
#include <stdint.h>

#define UNITY_INTERFACE_API
typedef struct UnityAllocator UnityAllocator;
typedef struct IUnityMemoryManager {
    UnityAllocator*(UNITY_INTERFACE_API* CreateAllocator)(const char* areaName,
                                                          const char* objectName);
    void(UNITY_INTERFACE_API* DestroyAllocator)(UnityAllocator* allocator);
    void*(UNITY_INTERFACE_API* Allocate)(UnityAllocator* allocator, size_t size, size_t align,
                                         const char* file, int32_t line);
    void(UNITY_INTERFACE_API* Deallocate)(UnityAllocator* allocator, void* ptr, const char* file,
                                          int32_t line);
    void*(UNITY_INTERFACE_API* Reallocate)(UnityAllocator* allocator, void* ptr, size_t size,
                                           size_t align, const char* file, int32_t line);
} IUnityMemoryManager;

#endif
