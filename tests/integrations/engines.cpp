// integrations/memory/keel_unreal.h, keel_godot.h and keel_unity.h, with stand-ins for the headers
// of these engines. The engines themselves are not tested.
#include "check.h"
#include "live.h"
#include "stand_in/IUnityMemoryManager.h"
#include "stand_in/MemoryBase.h"
#include "stand_in/gdextension_interface.h"
#include <cstdlib>
#include <cstring>
#include <initializer_list>
//
#include "keel_godot.h"
#include "keel_unity.h"
#include "keel_unreal.h"

// ---- Unreal -------------------------------------------------------------------------------------

static uint64 out_of_memory;
void FPlatformMemory::OnOutOfMemory(uint64 size, uint32) {
    out_of_memory = size;
    std::_Exit(0); // the test passes: check.h expects that the child ends with 0
}

TEST(unreal_blocks_have_the_alignment_of_the_engine) {
    kl_heap_t* heap = kl_heap_new();
    FMallocKeel keel(heap);
    FMalloc& engine = keel;
    for (SIZE_T size : {1, 8, 16, 100, 5000, 100000}) {
        for (uint32 alignment : {0u, 8u, 16u, 64u, 4096u}) {
            void* block = engine.Malloc(size, alignment);
            SIZE_T least = size >= 16 ? 16 : 8;
            CHECK_EQUAL(
                reinterpret_cast<uintptr_t>(block) % (alignment > least ? alignment : least), 0);
            SIZE_T usable = 0;
            CHECK(engine.GetAllocationSize(block, usable) && usable >= size);
            std::memset(block, 7, size);
            block = engine.Realloc(block, size * 3, alignment);
            for (SIZE_T i = 0; i < size; i++) CHECK_EQUAL(static_cast<char*>(block)[i], 7);
            CHECK(kl_heap_contains(heap, block));
            CHECK(engine.QuantizeSize(size, alignment) >= size);
            engine.Free(block);
        }
    }
    void* block = engine.Realloc(nullptr, 50);
    CHECK(block != nullptr && engine.Realloc(block, 0) == nullptr);
    engine.Free(nullptr);
    engine.Trim(true);
    CHECK(engine.IsInternallyThreadSafe());
    CHECK_EQUAL(live_blocks(heap), 0);
}

TEST(unreal_reports_that_memory_is_exhausted) {
    FMallocKeel keel(kl_heap_new_with_limit(1 << 20));
    CHECK(keel.TryMalloc(2 << 20, 0) == nullptr);
    void* block = keel.Malloc(1000, 0);
    CHECK(keel.TryRealloc(block, 2 << 20, 0) == nullptr);
    keel.Malloc(2 << 20, 0);
    check_fail(__FILE__, __LINE__, "OnOutOfMemory was not called");
}

// ---- Godot --------------------------------------------------------------------------------------

static void engine_other() {}
static bool engine_is_old;
static GDExtensionInterfaceFunctionPtr engine_address(const char* name) {
    if (engine_is_old && std::strchr(name, '2') != nullptr) return nullptr;
    return std::strcmp(name, "no_such_function") == 0 ? nullptr : engine_other;
}

TEST(godot_extensions_receive_the_functions_of_keel) {
    kl_heap_t* heap = kl_heap_new();
    GDExtensionInterfaceGetProcAddress address = keel_godot_install(engine_address, heap);
    auto allocate = reinterpret_cast<GDExtensionInterfaceMemAlloc>(address("mem_alloc"));
    auto resize = reinterpret_cast<GDExtensionInterfaceMemRealloc>(address("mem_realloc"));
    auto release = reinterpret_cast<GDExtensionInterfaceMemFree>(address("mem_free"));
    void* block = resize(allocate(10), 10000);
    CHECK(kl_heap_contains(heap, block));
    release(block);
    auto allocate2 = reinterpret_cast<GDExtensionInterfaceMemAlloc2>(address("mem_alloc2"));
    auto resize2 = reinterpret_cast<GDExtensionInterfaceMemRealloc2>(address("mem_realloc2"));
    auto release2 = reinterpret_cast<GDExtensionInterfaceMemFree2>(address("mem_free2"));
    for (GDExtensionBool padded : {0, 1}) {
        char* bytes = static_cast<char*>(allocate2(100, padded));
        CHECK_EQUAL(reinterpret_cast<uintptr_t>(bytes) % 16, 0);
        if (padded) reinterpret_cast<uint64_t*>(bytes)[-1] = 42;
        std::memset(bytes, 7, 100);
        bytes = static_cast<char*>(resize2(bytes, 100000, padded));
        for (int i = 0; i < 100; i++) CHECK_EQUAL(bytes[i], 7);
        if (padded) CHECK_EQUAL(reinterpret_cast<uint64_t*>(bytes)[-1], 42);
        release2(bytes, padded);
        release2(nullptr, padded);
        CHECK(allocate2(SIZE_MAX, padded) == nullptr);
        CHECK(resize2(nullptr, SIZE_MAX, padded) == nullptr);
    }
    CHECK_EQUAL(live_blocks(heap), 0);
    CHECK(address("print_error") == engine_other);
    CHECK(address("no_such_function") == nullptr);
    engine_is_old = true;
    CHECK(address("mem_alloc2") == nullptr);
}

// ---- Unity --------------------------------------------------------------------------------------

TEST(unity_allocators_are_heaps) {
    IUnityMemoryManager* memory = keel_unity_memory();
    UnityAllocator* allocator = memory->CreateAllocator("Plug-in", "Meshes");
    kl_heap_t* heap = reinterpret_cast<kl_heap_t*>(allocator);
    void* blocks[100];
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = memory->Allocate(allocator, i * 100, 16 << i % 4, __FILE__, __LINE__);
        CHECK_EQUAL(reinterpret_cast<uintptr_t>(blocks[i]) % (16 << i % 4), 0);
    }
    CHECK_EQUAL(live_blocks(heap), 100);
    std::memset(blocks[99], 7, 9900);
    blocks[99] = memory->Reallocate(allocator, blocks[99], 200000, 64, __FILE__, __LINE__);
    for (int i = 0; i < 9900; i++) CHECK_EQUAL(static_cast<char*>(blocks[99])[i], 7);
    for (int i = 1; i < 100; i++) memory->Deallocate(allocator, blocks[i], __FILE__, __LINE__);
    CHECK_EQUAL(live_blocks(heap), 1);
    memory->DestroyAllocator(allocator);
    memory->Deallocate(allocator, blocks[0], __FILE__, __LINE__);
}
