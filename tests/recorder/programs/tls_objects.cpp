// Thread-local C++ objects whose destructors free blocks; one object is created while others are
// destroyed. On each of 50 threads, the constructor allocates a block of 1001 bytes, and the last
// destructor one of 1003.
#include <cstdlib>
#include <thread>

static void* kept(void* block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

struct Last {
    ~Last() { std::free(kept(std::malloc(1003))); }
};
struct First {
    void* block = kept(std::malloc(1001));
    ~First() {
        std::free(block);
        static thread_local Last last;
        (void)&last;
    }
};

int main() {
    for (int i = 0; i < 50; i++) {
        std::thread([] {
            static thread_local First first;
            (void)kept(&first);
        }).join();
    }
}
