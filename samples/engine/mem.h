// The memory of a small engine: blocks of 16 to 1024 bytes from zones of 64 KiB for each size, and
// larger blocks one by one. All are aligned to 16 bytes, and every call is counted. An engine calls
// the recorder at this place.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mem {

void* alloc(std::size_t bytes);               // uninitialised; nullptr when memory is out
void* alloc_cleared(std::size_t bytes);       // zeroed
void* resize(void* block, std::size_t bytes); // as realloc; bytes > 0
void release(void* block);                    // nullptr is allowed

struct Counters {
    std::uint64_t allocs, cleared, resizes, releases;
};
Counters counters();

} // namespace mem
