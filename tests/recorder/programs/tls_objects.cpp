// Thread-local objects of C++ whose destructors free, with one that is made while others are destroyed: on 50 threads,
// a block of 1001 bytes each from the constructor and one of 1003 from the last destructor.
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
