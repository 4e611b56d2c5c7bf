// C++ beside libc's malloc: containers and a heap of keel/keel.hpp, and in the program `everything`
// also new and delete.
#include <cstdio>
#include <cstdlib>
#include <keel/keel.hpp>
#include <memory>
#include <string>
#include <vector>

int main(int, char** arguments) {
    const bool everything = std::string(arguments[0]).find("everything") != std::string::npos;
    std::vector<int, keel::allocator<int>> numbers(1000, 7);
    keel::heap level;
    std::vector<int, keel::heap_allocator<int>> enemies(1000, 9, level.get());
    std::pmr::vector<int> words(1000, 11, keel::resource());
    bool well = kl_contains(numbers.data()) && kl_heap_contains(level.get(), enemies.data()) &&
                kl_contains(words.data());

    std::unique_ptr<std::string> text(new std::string(1000, 'x'));
    void* block = std::malloc(100);
    well = well && kl_contains(text.get()) == everything && !kl_contains(block);
    std::free(block);
    std::puts(well ? "all memory comes from the expected malloc" : "wrong malloc");
    return !well;
}
