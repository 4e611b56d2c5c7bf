// Frees with a hint of size or alignment, ten of each kind, each kind with a different size; and
// three of each kind with a wrong hint. The functions of C23 are the recorder's, because the C
// library may not have them.
#include <cstddef>
#include <cstdlib>
#include <new>

extern "C" void free_sized(void* block, std::size_t size) __attribute__((weak));
extern "C" void free_aligned_sized(void* block, std::size_t align, std::size_t size)
    __attribute__((weak));

template <typename T> static T* kept(T* block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

static void right() {
    const std::align_val_t line{64};
    ::operator delete (kept(::operator new(1001)), std::size_t{1001});
    ::operator delete[](kept(::operator new[](1003)), std::size_t{1003});
    ::operator delete (kept(::operator new(1005, line)), std::size_t{1005}, line);
    ::operator delete[](kept(::operator new[](1007, line)), std::size_t{1007}, line);
    ::operator delete(kept(::operator new(1009, line)), line);
    ::operator delete(kept(::operator new(1011)));
    free_sized(kept(std::malloc(1013)), 1013);
    free_sized(kept(std::calloc(5, 203)), 1015);
    free_sized(kept(std::realloc(kept(std::malloc(8)), 1017)), 1017);
    free_aligned_sized(kept(std::aligned_alloc(256, 1024)), 256, 1024);
    std::free(kept(std::aligned_alloc(256, 1280)));
    ::operator delete (kept(::operator new(0)), std::size_t{0});
    ::operator delete (kept(::operator new(0, line)), std::size_t{0}, line);
}

static void wrong() {
    const std::align_val_t line{64}, page{4096};
    ::operator delete (kept(::operator new(1021)), std::size_t{21});
    ::operator delete (kept(::operator new(1023, line)), std::size_t{1023}, page);
    ::operator delete(kept(::operator new(1025, line)), page);
    free_sized(kept(std::malloc(1027)), static_cast<std::size_t>(-1));
    free_sized(kept(std::aligned_alloc(256, 1536)), 1536);
    free_aligned_sized(kept(std::malloc(1029)), 16, 1029);
}

int main() {
    if (free_sized == nullptr || free_aligned_sized == nullptr) return 3;
    for (int i = 0; i < 10; i++) right();
    for (int i = 0; i < 3; i++) wrong();
    free_sized(nullptr, 8);
    ::operator delete (nullptr, std::size_t{8});
    return 0;
}
