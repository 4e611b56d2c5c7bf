// The part of Unreal Engine's HAL/MemoryBase.h that integrations/memory/keel_unreal.h uses: a
// stand-in for tests, with the engine's names and signatures.
#pragma once

#include <cstddef>
#include <cstdint>

typedef std::size_t SIZE_T;
typedef std::uint32_t uint32;
typedef std::uint64_t uint64;
typedef char16_t TCHAR;
#define TEXT(text) u##text

enum { DEFAULT_ALIGNMENT = 0 };

struct FPlatformMemory {
    [[noreturn]] static void OnOutOfMemory(uint64 Size, uint32 Alignment);
};

class FMalloc {
  public:
    virtual ~FMalloc() {}
    virtual void* Malloc(SIZE_T Count, uint32 Alignment = DEFAULT_ALIGNMENT) = 0;
    virtual void* TryMalloc(SIZE_T Count, uint32 Alignment = DEFAULT_ALIGNMENT) = 0;
    virtual void* Realloc(void* Original, SIZE_T Count, uint32 Alignment = DEFAULT_ALIGNMENT) = 0;
    virtual void* TryRealloc(void* Original, SIZE_T Count,
                             uint32 Alignment = DEFAULT_ALIGNMENT) = 0;
    virtual void Free(void* Original) = 0;
    virtual SIZE_T QuantizeSize(SIZE_T Count, uint32) { return Count; }
    virtual bool GetAllocationSize(void*, SIZE_T&) { return false; }
    virtual void Trim(bool) {}
    virtual bool IsInternallyThreadSafe() const { return false; }
    virtual bool ValidateHeap() { return true; }
    virtual const TCHAR* GetDescriptiveName() { return TEXT("Unspecified allocator"); }
};
