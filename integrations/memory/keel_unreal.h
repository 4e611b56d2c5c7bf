// keel_unreal.h: an FMalloc of Unreal Engine 5 that allocates from Keel. It is tested with a
// stand-in for the engine's headers, not with the engine.
//
// The engine creates its allocator in FPlatformMemory::BaseAllocator (UnixPlatformMemory.cpp), at
// its first allocation. Nothing can replace it later, so this needs a build of the engine:
//
//     #include "HAL/MemoryBase.h"
//     #include "keel_unreal.h"
//
//     FMalloc* FUnixPlatformMemory::BaseAllocator() { return new FMallocKeel(); }
//
// and -lkeel_api in the linker's arguments. A game without a build of the engine can run as
// `LD_PRELOAD=libkeel.so ./Game -ansimalloc`: the engine then allocates with malloc.
#pragma once

#include "keel_hooks.h"

class FMallocKeel final : public FMalloc {
  public:
    // See keel_hooks.h. The engine never frees its last blocks, so the heap must not end.
    explicit FMallocKeel(kl_heap_t* Heap = nullptr) : Heap(Heap) {}

    void* Malloc(SIZE_T Size, uint32 Alignment) override {
        void* Block = TryMalloc(Size, Alignment);
        if (Block == nullptr) FPlatformMemory::OnOutOfMemory(Size, Alignment);
        KEEL_HOOK_STAYS;
        return Block;
    }
    void* TryMalloc(SIZE_T Size, uint32 Alignment) override {
        KEEL_HOOK_RETURN(keel_hook_aligned_alloc(Heap, Aligned(Size, Alignment), Size));
    }
    void* Realloc(void* Block, SIZE_T Size, uint32 Alignment) override {
        void* Resized = TryRealloc(Block, Size, Alignment);
        if (Resized == nullptr && Size != 0) FPlatformMemory::OnOutOfMemory(Size, Alignment);
        KEEL_HOOK_STAYS;
        return Resized;
    }
    void* TryRealloc(void* Block, SIZE_T Size, uint32 Alignment) override {
        if (Size == 0) {
            Free(Block);
            return nullptr;
        }
        KEEL_HOOK_RETURN(keel_hook_aligned_realloc(Heap, Block, Aligned(Size, Alignment), Size));
    }
    void Free(void* Block) override {
        kl_free(Block);
        KEEL_HOOK_STAYS;
    }
    bool GetAllocationSize(void* Block, SIZE_T& Size) override {
        Size = kl_usable_size(Block);
        return Block != nullptr;
    }
    SIZE_T QuantizeSize(SIZE_T Size, uint32 Alignment) override {
        return Alignment <= 16 ? kl_good_size(Size) : Size;
    }
    void Trim(bool TrimThreadCaches) override { kl_collect(TrimThreadCaches); }
    bool IsInternallyThreadSafe() const override { return true; }
    const TCHAR* GetDescriptiveName() override { return TEXT("Keel"); }

  private:
    kl_heap_t* Heap;

    // The engine expects 16 bytes for blocks of 16 bytes and more, and 8 for smaller ones.
    static size_t Aligned(SIZE_T Size, uint32 Alignment) {
        size_t Least = Size >= 16 ? 16 : 8;
        return Alignment > Least ? Alignment : Least;
    }
};
