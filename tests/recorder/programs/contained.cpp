// A program with its own malloc and operators, which call malloc and free, and with operators of
// the C++ library (aligned ones), which do so as well.
#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>

alignas(4096) static char heap[1 << 24];
static std::size_t used;

static void* take(std::size_t align, std::size_t size) {
    used = (used + align - 1) & ~(align - 1);
    void* block = heap + used;
    used += size + 1;
    return used < sizeof heap ? block : nullptr;
}

#define FUNCTION __attribute__((noipa))

extern "C" {
FUNCTION void* malloc(std::size_t size) {
    return take(16, size);
}
FUNCTION void* aligned_alloc(std::size_t align, std::size_t size) {
    return take(align, size);
}
FUNCTION void free(void* block) {
    static void* volatile last;
    last = block;
}
}

static void* reserve;
static void give_reserve() {
    if (reserve == nullptr) throw std::bad_alloc();
    std::free(reserve);
    reserve = nullptr;
}

FUNCTION static void* take_after_handler(std::size_t size) {
    std::get_new_handler()();
    return ::operator new(size);
}
FUNCTION void* operator new(std::size_t size) {
    void* block = std::malloc(size);
    return block != nullptr ? block : take_after_handler(size);
}
FUNCTION void operator delete(void* block) noexcept {
    std::free(block);
}
FUNCTION void operator delete(void* block, std::size_t) noexcept {
    std::free(block);
}

struct alignas(64) Wide {
    char bytes[1088];
};

// The compiler must not leave out the pair of new and delete.
template <typename Type> static Type* used_block(Type* block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

int main() {
    for (int i = 0; i < 100; i++) {
        auto* bytes = used_block(new char[1001]);
        auto* whole = used_block(new std::array<char, 1002>);
        delete used_block(new Wide);
        delete whole;
        delete[] bytes;
    }
    std::set_new_handler(give_reserve);
    reserve = std::malloc(1003);
    std::size_t volatile huge = sizeof heap;
    try {
        ::operator delete(::operator new(huge));
    } catch (const std::bad_alloc&) {
        return reserve == nullptr ? 0 : 1;
    }
    return 2;
}
