// A program whose operators new and delete use a pool. Sized deletes reach its delete through the
// C++ library. None of them is a free of the allocator, although the first block of the pool has
// the address of the block that holds the pool.
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
    // A realloc inside a delete frees a block other than the deleted one.
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
