// A library that loaded.c loads.
#include <cstddef>
#include <new>

extern "C" int count_too_large(void);

// Returns how many requests of more than the address space did not return NULL.
int count_too_large(void) {
    volatile std::size_t bytes = std::size_t(1) << 62;
    int count = 0;
    void* blocks[] = {
        ::operator new(bytes, std::nothrow),
        ::operator new[](bytes, std::nothrow),
        ::operator new(bytes, std::align_val_t(64), std::nothrow),
        ::operator new[](bytes, std::align_val_t(64), std::nothrow),
    };
    for (void* block : blocks) count += block != nullptr;
    return count;
}
