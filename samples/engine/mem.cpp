#include "mem.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "keel/recorder.h"

namespace mem {
namespace {

constexpr std::size_t granule = 16;
constexpr std::size_t small_max = 1024;
constexpr std::size_t zone_bytes = 64 << 10;

// The header in front of each block, which a release reads.
struct alignas(granule) Header {
    std::size_t bytes; // requested
    std::size_t room;  // usable
};
struct Free {
    Free* next;
};

struct Bin {
    std::mutex lock;
    Free* free = nullptr;
};
Bin bins[small_max / granule];
std::atomic<std::uint64_t> counted[4];

Bin& bin_of(std::size_t room) {
    return bins[room / granule - 1];
}

// Creates a zone, divides it into blocks and returns the first.
void* zone_cut(Bin& bin, std::size_t room) {
    const std::size_t step = sizeof(Header) + room;
    char* zone = static_cast<char*>(std::malloc(zone_bytes));
    if (zone == nullptr) return nullptr;
    for (std::size_t at = step; at + step <= zone_bytes; at += step) {
        Free* block = reinterpret_cast<Free*>(zone + at + sizeof(Header));
        block->next = bin.free;
        bin.free = block;
    }
    return zone + sizeof(Header);
}

Header* header_of(void* block) {
    return static_cast<Header*>(block) - 1;
}

void* take(std::size_t bytes) {
    const std::size_t room = bytes == 0 ? granule : (bytes + granule - 1) / granule * granule;
    void* block = nullptr;
    if (room <= small_max) {
        Bin& bin = bin_of(room);
        const std::lock_guard<std::mutex> guard(bin.lock);
        if (bin.free != nullptr) {
            block = bin.free;
            bin.free = bin.free->next;
        } else {
            block = zone_cut(bin, room);
        }
    } else if (void* memory = std::malloc(sizeof(Header) + room)) {
        block = static_cast<Header*>(memory) + 1;
    }
    if (block != nullptr) *header_of(block) = {bytes, room};
    return block;
}

void give_back(void* block) {
    const std::size_t room = header_of(block)->room;
    if (room > small_max) {
        std::free(header_of(block));
        return;
    }
    Bin& bin = bin_of(room);
    const std::lock_guard<std::mutex> guard(bin.lock);
    Free* free = static_cast<Free*>(block);
    free->next = bin.free;
    bin.free = free;
}

} // namespace

// An allocation is recorded after it, a free before it: see ORDER in recorder.h.

void* alloc(std::size_t bytes) {
    void* block = take(bytes);
    kl_record_alloc(block, bytes);
    counted[0] += block != nullptr;
    return block;
}

void* alloc_cleared(std::size_t bytes) {
    void* block = take(bytes);
    if (block != nullptr) std::memset(block, 0, bytes);
    kl_record_calloc(block, bytes);
    counted[1] += block != nullptr;
    return block;
}

void* resize(void* block, std::size_t bytes) {
    kl_record_realloc_begin(block, bytes);
    void* moved = block;
    if (block == nullptr || header_of(block)->room < bytes) {
        moved = take(bytes);
        if (moved != nullptr && block != nullptr) {
            std::memcpy(moved, block, header_of(block)->bytes);
            give_back(block);
        }
    } else {
        header_of(block)->bytes = bytes;
    }
    kl_record_realloc_end(block, moved, bytes);
    counted[2] += moved != nullptr;
    return moved;
}

void release(void* block) {
    if (block == nullptr) return;
    kl_record_free(block);
    counted[3]++;
    give_back(block);
}

Counters counters() {
    return {counted[0], counted[1], counted[2], counted[3]};
}

} // namespace mem
