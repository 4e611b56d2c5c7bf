/* keel_vulkan.h: a Vulkan loader and its drivers allocate host memory from Keel. Include the header
 * of Vulkan first:
 *
 *     #include <vulkan/vulkan.h>
 *     #include "keel_vulkan.h"
 *
 *     VkAllocationCallbacks callbacks = keel_vulkan_callbacks(heap);  // NULL: see keel_hooks.h
 *     vkCreateInstance(&info, &callbacks, &instance);
 *     ...
 *     vkDestroyInstance(instance, &callbacks);
 *
 * An object must be destroyed with the callbacks with which it was created, or with equal ones.
 * Drivers may allocate in other ways as well; they then report it to no callback. */
#ifndef KEEL_VULKAN_H
#define KEEL_VULKAN_H

#include "keel_hooks.h"

#ifndef VK_VERSION_1_0
#error "include vulkan/vulkan.h before keel_vulkan.h"
#endif

KEEL_HOOK void* VKAPI_PTR keel_vulkan_malloc(void* heap, size_t size, size_t alignment,
                                             VkSystemAllocationScope scope) {
    (void)scope;
    KEEL_HOOK_RETURN(keel_hook_aligned_alloc((kl_heap_t*)heap, alignment, size));
}
KEEL_HOOK void* VKAPI_PTR keel_vulkan_realloc(void* heap, void* block, size_t size,
                                              size_t alignment, VkSystemAllocationScope scope) {
    (void)scope;
    if (size == 0) {
        kl_free(block);
        KEEL_HOOK_STAYS;
        return NULL;
    }
    KEEL_HOOK_RETURN(keel_hook_aligned_realloc((kl_heap_t*)heap, block, alignment, size));
}
KEEL_HOOK void VKAPI_PTR keel_vulkan_free(void* heap, void* block) {
    (void)heap;
    kl_free(block);
    KEEL_HOOK_STAYS;
}

static inline VkAllocationCallbacks keel_vulkan_callbacks(kl_heap_t* heap) {
    VkAllocationCallbacks callbacks;
    callbacks.pUserData = heap;
    callbacks.pfnAllocation = keel_vulkan_malloc;
    callbacks.pfnReallocation = keel_vulkan_realloc;
    callbacks.pfnFree = keel_vulkan_free;
    callbacks.pfnInternalAllocation = NULL;
    callbacks.pfnInternalFree = NULL;
    return callbacks;
}

#endif
