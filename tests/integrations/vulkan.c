// integrations/memory/keel_vulkan.h with a Vulkan loader and the driver that renders on the
// processor.
#include "check.h"
#if HAVE_LIBRARY
#include "live.h"
#include <stdlib.h>
#include <vulkan/vulkan.h>
//
#include "keel_vulkan.h"

// A driver may be absent, or have no device here.
static VkInstance instance_of(const VkAllocationCallbacks* callbacks) {
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .apiVersion = VK_API_VERSION_1_0};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &application};
    VkInstance instance;
    VkResult result = vkCreateInstance(&info, callbacks, &instance);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
        SKIP("no driver of Vulkan is installed (Debian: mesa-vulkan-drivers)");
    CHECK_EQUAL(result, VK_SUCCESS);
    return instance;
}

static VkDevice device_of(VkInstance instance, const VkAllocationCallbacks* callbacks) {
    VkPhysicalDevice physical[8];
    uint32_t count = 8;
    VkResult result = vkEnumeratePhysicalDevices(instance, &count, physical);
    if (count == 0) SKIP("no driver of Vulkan is installed (Debian: mesa-vulkan-drivers)");
    CHECK(result == VK_SUCCESS || result == VK_INCOMPLETE);
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue};
    VkDevice device;
    CHECK_EQUAL(vkCreateDevice(physical[0], &info, callbacks, &device), VK_SUCCESS);
    return device;
}

static void use(kl_heap_t* heap) {
    VkAllocationCallbacks callbacks = keel_vulkan_callbacks(heap);
    VkInstance instance = instance_of(&callbacks);
    VkDevice device = device_of(instance, &callbacks);
    size_t before = heap != NULL ? live_blocks(heap) : 0;
    enum { BUFFERS = 50 };
    VkBuffer buffers[BUFFERS];
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = 4096,
                               .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT};
    for (int i = 0; i < BUFFERS; i++)
        CHECK_EQUAL(vkCreateBuffer(device, &info, &callbacks, &buffers[i]), VK_SUCCESS);
    if (heap != NULL) CHECK_EQUAL(live_blocks(heap) - before, BUFFERS);
    for (int i = 0; i < BUFFERS; i++) vkDestroyBuffer(device, buffers[i], &callbacks);
    vkDestroyDevice(device, &callbacks);
    vkDestroyInstance(instance, &callbacks);
}

TEST(all_blocks_of_the_callbacks_are_in_the_heap) {
    kl_heap_t* heap = kl_heap_new();
    use(heap);
    CHECK_EQUAL(live_blocks(heap), 0);
    kl_heap_delete(heap);
}

TEST(without_a_heap_the_blocks_are_of_kl_malloc) {
    use(NULL);
}

TEST(the_callbacks_do_what_the_standard_requires) {
    kl_heap_t* heap = kl_heap_new();
    VkAllocationCallbacks callbacks = keel_vulkan_callbacks(heap);
    VkSystemAllocationScope scope = VK_SYSTEM_ALLOCATION_SCOPE_OBJECT;
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        char* block = callbacks.pfnReallocation(heap, NULL, 100, alignment, scope);
        CHECK_EQUAL((uintptr_t)block % alignment, 0);
        for (int i = 0; i < 100; i++) block[i] = (char)i;
        block = callbacks.pfnReallocation(heap, block, 100000, alignment, scope);
        CHECK_EQUAL((uintptr_t)block % alignment, 0);
        for (int i = 0; i < 100; i++) CHECK_EQUAL(block[i], i);
        CHECK(callbacks.pfnReallocation(heap, block, 0, alignment, scope) == NULL);
    }
    callbacks.pfnFree(heap, NULL);
    CHECK_EQUAL(live_blocks(heap), 0);
}
#else
TEST(vulkan) {
    SKIP("vulkan/vulkan.h is not installed (Debian: libvulkan-dev)");
}
#endif
