// keel/keel.hpp (allocators, heaps, memory resources) and keel/new.hpp.
#include "bad_alloc.hpp"
#include "check.h"
#include "memory.h"

#include <keel/keel.hpp>
#include <keel/runtime.h>

#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

struct alignas(256) Wide {
    char bytes[256];
};

using String = std::basic_string<char, std::char_traits<char>, keel::allocator<char>>;

} // namespace

// ---- keel::allocator ----

TEST(containers_allocate_from_keel) {
    std::vector<int, keel::allocator<int>> numbers;
    for (int i = 0; i < 100000; i++) numbers.push_back(i);
    CHECK(kl_contains(numbers.data()));
    std::map<int, String, std::less<int>, keel::allocator<std::pair<const int, String>>> map;
    for (int i = 0; i < 1000; i++) map[i] = String(static_cast<size_t>(i % 200), 'x');
    for (auto& [key, text] : map) {
        CHECK(kl_contains(&key) && text.size() == static_cast<size_t>(key % 200));
        if (text.size() > 30) CHECK(kl_contains(text.data()));
    }
    auto shared = std::allocate_shared<String>(keel::allocator<String>(), 100u, 'y');
    CHECK(kl_contains(shared.get()) && shared->size() == 100);
}

TEST(over_aligned_elements_are_aligned) {
    std::vector<Wide, keel::allocator<Wide>> wide;
    for (int i = 0; i < 100; i++) {
        wide.emplace_back();
        CHECK(is_aligned(wide.data(), 256));
    }
    std::list<Wide, keel::allocator<Wide>> list(20);
    for (Wide& element : list) CHECK(is_aligned(&element, 256) && kl_contains(&element));
}

TEST(no_elements_are_allocated_and_freed) {
    keel::heap heap;
    keel::heap_allocator<Wide> in_heap(heap.get());
    keel::allocator<Wide> wide;
    in_heap.deallocate(in_heap.allocate(0), 0);
    for (int i = 0; i < 3; i++) {
        Wide* none = wide.allocate(0);
        CHECK(is_aligned(none, 256));
        wide.deallocate(none, 0);
    }
}

TEST(without_memory_allocators_call_the_handler_and_throw) {
    constexpr size_t most = std::numeric_limits<size_t>::max();
    CHECK(throws_bad_alloc([] { (void)keel::allocator<long>().allocate(most / 2); }));
    CHECK(throws_bad_alloc([] { (void)keel::allocator<Wide>().allocate(most); }));
    keel::heap heap;
    CHECK(
        throws_bad_alloc([&] { (void)keel::heap_allocator<long>(heap.get()).allocate(most / 3); }));
    CHECK(throws_bad_alloc([] { (void)keel::resource()->allocate(most / 2); }));
    CHECK(throws_bad_alloc([] { (void)keel::new_or_throw(100, 48); }));
    CHECK(throws_bad_alloc([] { (void)keel::renew_or_throw(nullptr, most / 2); }));
    CHECK(keel::new_or_null(most / 2) == nullptr && keel::new_or_null(100, 48) == nullptr);
    std::set_new_handler(count_and_leave);
    CHECK(throws_bad_alloc([] { (void)keel::allocator<char>().allocate(most / 2); }));
    CHECK_EQUAL(handler_calls, 1);
}

TEST(a_resized_block_keeps_its_content) {
    char* block = static_cast<char*>(keel::renew_or_throw(nullptr, 100));
    pattern_fill(block, 100, 1);
    block = static_cast<char*>(keel::renew_or_throw(block, 100000));
    CHECK(pattern_holds(block, 100, 100, 1));
    block = static_cast<char*>(keel::renew_or_throw(block, 0));
    CHECK(block != nullptr);
    kl_free(block);
}

// ---- heaps ----

TEST(containers_of_a_heap_are_in_it_and_end_with_it) {
    for (int round = 0; round < 200; round++) {
        keel::heap heap;
        using Numbers = std::vector<int, keel::heap_allocator<int>>;
        auto* numbers = new Numbers(heap.get()); // never destroyed: its block ends with the heap
        for (int i = 0; i < 100000; i++) numbers->push_back(i);
        CHECK(kl_heap_contains(heap.get(), numbers->data()));
        std::list<Wide, keel::heap_allocator<Wide>> list(20, Wide{}, heap.get());
        for (Wide& element : list)
            CHECK(is_aligned(&element, 256) && kl_heap_owns(heap.get(), &element));
        list.clear();
        heap.destroy();
        CHECK(heap.get() == nullptr);
        operator delete(numbers);
    }
    CHECK_WITH(resident_bytes() < 64u * MIB, "%zu KiB", resident_bytes() / KIB);
}

TEST(blocks_outlive_a_heap_that_is_not_destroyed) {
    std::unique_ptr<std::vector<int, keel::heap_allocator<int>>> numbers;
    {
        keel::heap heap;
        numbers =
            std::make_unique<std::vector<int, keel::heap_allocator<int>>>(1000, 7, heap.get());
    }
    for (int number : *numbers) CHECK_EQUAL(number, 7);
}

TEST(containers_of_two_heaps_are_assigned_moved_and_swapped) {
    keel::heap first, second;
    using Numbers = std::vector<int, keel::heap_allocator<int>>;
    Numbers a(1000, 1, first.get()), b(2000, 2, second.get());
    CHECK(a.get_allocator() != b.get_allocator());
    Numbers copy(a);
    CHECK(kl_heap_contains(first.get(), copy.data()));
    b = a; // keeps its heap
    CHECK(b == a && kl_heap_contains(second.get(), b.data()));
    std::swap(a, b);
    CHECK(kl_heap_contains(second.get(), a.data()) && kl_heap_contains(first.get(), b.data()));
    const int* data = a.data();
    b = std::move(a);
    CHECK(b.data() == data && b.get_allocator().heap() == second.get());
    keel::heap moved = std::move(first);
    CHECK(first.get() == nullptr && moved.get() != nullptr);
}

TEST(threads_share_a_heap) {
    keel::heap heap;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&heap] {
            std::list<std::string, keel::heap_allocator<std::string>> list(heap.get());
            for (int i = 0; i < 20000; i++) {
                list.emplace_back(static_cast<size_t>(i % 50), 'z');
                if (i % 3 == 0) list.pop_front();
            }
        });
    }
    for (auto& thread : threads) thread.join();
}

// ---- memory resources ----

TEST(polymorphic_containers_allocate_from_keel) {
    std::pmr::vector<std::pmr::string> words(keel::resource());
    for (size_t i = 0; i < 5000; i++) words.emplace_back(i % 500, 'w');
    CHECK(kl_contains(words.data()));
    for (size_t i = 0; i < 5000; i++) {
        CHECK(words[i].size() == i % 500);
        if (i % 500 > 30) CHECK(kl_contains(words[i].data()));
    }
    void* wide = keel::resource()->allocate(100, 4096);
    CHECK(is_aligned(wide, 4096));
    keel::resource()->deallocate(wide, 100, 4096);
}

TEST(resources_align_blocks_of_every_size) {
    keel::heap heap;
    keel::heap_resource in_heap(heap.get());
    for (std::pmr::memory_resource* resource :
         {keel::resource(), static_cast<std::pmr::memory_resource*>(&in_heap)}) {
        for (size_t alignment = 1; alignment <= 8192; alignment *= 2) {
            for (size_t size = 0; size < 100; size++) {
                void* blocks[3]; // neighbours: not all are aligned by chance
                for (void*& block : blocks) {
                    block = resource->allocate(size, alignment);
                    CHECK_WITH(is_aligned(block, alignment), "%zu at %zu", size, alignment);
                }
                for (void* block : blocks) resource->deallocate(block, size, alignment);
            }
        }
    }
}

TEST(resources_are_equal_if_their_heaps_are) {
    keel::heap heap, other;
    keel::heap_resource one(heap.get()), same(heap.get()), another(other.get());
    CHECK(one == same && one != another && one != *keel::resource());
    CHECK(*keel::resource() == *keel::resource() &&
          *keel::resource() != *std::pmr::new_delete_resource());
    std::pmr::unordered_map<int, std::pmr::string> map(&one);
    for (int i = 0; i < 1000; i++) map.emplace(i, std::pmr::string(50, 'q'));
    for (auto& [key, text] : map) CHECK(kl_heap_owns(heap.get(), text.data()));
}
