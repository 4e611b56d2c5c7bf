// A program with a pool behind its own operators new and delete: deletes that tell a size come to it by
// way of the C++ library, and none of them is a free of the allocator, though the first block of the
// pool lies at the address of the only block that is one.
#include <cstddef>
#include <cstdlib>
#include <new>

static char* pool;
static std::size_t used;
static int deleted;

void* operator new(std::size_t size) {
    if (pool == nullptr) pool = static_cast<char*>(std::malloc(10007));
    void* block = pool + used;
    used += (size + 15) / 16 * 16;
    return block;
}
void operator delete(void*) noexcept {
    // A realloc in the middle of a delete frees a block, and not the one that is deleted.
    std::free(std::realloc(std::malloc(1001), 200003));
    deleted++;
}

int main() {
    void* blocks[20];
    for (void*& block : blocks) block = ::operator new(101);
    __asm__ volatile("" : : "r"(blocks) : "memory");
    for (void* block : blocks) ::operator delete (block, std::size_t{101});
    std::free(pool);
    return deleted;
}
