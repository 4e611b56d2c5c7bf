// The names that mimalloc 2 and 3 have added, in C++.
#include "check.h"

#include <list>
#include <map>
#include <new>
#include <string>
#include <vector>

#include <mimalloc.h>

namespace {

template <typename T> using In = mi_heap_stl_allocator<T>;
template <typename T> using With = mi_heap_destroy_stl_allocator<T>;

struct alignas(256) Wide {
    char bytes[256];
};

} // namespace

TEST(later_names_of_new) {
    mi_heap_t* heap = mi_heap_new();
    void* one = mi_heap_alloc_new(heap, 100);
    void* many = mi_heap_alloc_new_n(heap, 10, 100);
    CHECK(mi_heap_contains_block(heap, one) && mi_heap_contains_block(heap, many));
    bool thrown = false;
    try {
        (void)mi_heap_alloc_new_n(heap, SIZE_MAX / 2, 3);
    } catch (const std::bad_alloc&) {
        thrown = true;
    }
    CHECK(thrown);
    mi_heap_destroy(heap);
}

TEST(containers_in_a_heap) {
    mi_heap_t* heap = mi_heap_new();
    {
        std::vector<int, In<int>> numbers(1000, 7, In<int>(heap));
        CHECK(mi_heap_contains_block(heap, numbers.data()));
        std::map<int, int, std::less<int>, In<std::pair<const int, int>>> map{
            In<std::pair<const int, int>>(heap)};
        for (int i = 0; i < 1000; i++) map[i] = i;
        for (auto& entry : map) CHECK(mi_heap_contains_block(heap, &entry));
        std::list<Wide, In<Wide>> wide(3, Wide(), In<Wide>(heap));
        for (Wide& element : wide)
            CHECK(mi_heap_contains_block(heap, &element) &&
                  reinterpret_cast<uintptr_t>(&element) % 256 == 0);
        std::vector<int, In<int>> moved(std::move(numbers));
        CHECK(moved.get_allocator() == In<int>(In<char>(moved.get_allocator())));
        CHECK(moved.get_allocator() != In<int>());
    }
    void* last = mi_heap_malloc(heap, 10); // it still belongs to the caller
    CHECK(mi_heap_contains_block(heap, last));
    mi_heap_destroy(heap);
}

TEST(containers_with_heaps_of_their_own) {
    std::vector<std::string, In<std::string>> words(100, std::string(100, 'x'));
    CHECK(mi_is_in_heap_region(words.data()));
    auto copy = words;
    CHECK(copy.get_allocator() == words.get_allocator() && copy == words);
    words.get_allocator().collect(true);

    std::list<int, With<int>> list;
    for (int i = 0; i < 10000; i++) list.push_back(i);
    mi_heap_t* heap = list.get_allocator().heap.get();
    CHECK(mi_heap_contains_block(heap, &list.front()));
    list.clear(); // does not free blocks
    list.push_back(1);
    CHECK(mi_heap_contains_block(heap, &list.front()));
    std::vector<int, With<int>> given(10, 1, With<int>(heap));
    CHECK(mi_heap_contains_block(heap, given.data()));
}
