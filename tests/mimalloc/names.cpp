// The names of mimalloc 1.6.3 for C++.
#include "bad_alloc.hpp"
#include "check.h"
#include "memory.h"

#include <list>
#include <map>
#include <new>
#include <string>
#include <vector>

#include <mimalloc.h>

namespace {

constexpr size_t too_much = SIZE_MAX / 2;

struct alignas(256) Wide {
    char bytes[256];
};

} // namespace

TEST(names_of_new) {
    void* blocks[] = {mi_new(100), mi_new_aligned(100, 256), mi_new_nothrow(100),
                      mi_new_aligned_nothrow(100, 256), mi_new_n(10, 10)};
    CHECK(is_aligned(blocks[1], 256) && is_aligned(blocks[3], 256));
    blocks[0] = mi_new_realloc(blocks[0], 10000);
    blocks[4] = mi_new_reallocn(blocks[4], 100, 100);
    for (void* block : blocks) {
        CHECK(kl_contains(block));
        mi_free(block);
    }
    CHECK(throws_bad_alloc([] { (void)mi_new(too_much); }));
    CHECK(throws_bad_alloc([] { (void)mi_new_aligned(too_much, 64); }));
    CHECK(throws_bad_alloc([] { (void)mi_new_n(too_much, 3); }));
    CHECK(throws_bad_alloc([] { (void)mi_new_realloc(nullptr, too_much); }));
    CHECK(throws_bad_alloc([] { (void)mi_new_reallocn(nullptr, too_much, 3); }));
    CHECK(mi_new_nothrow(too_much) == nullptr && mi_new_aligned_nothrow(too_much, 64) == nullptr);
    std::set_new_handler(count_and_leave);
    CHECK(throws_bad_alloc([] { (void)mi_new(too_much); }));
    CHECK_EQUAL(handler_calls, 1);
}

TEST(containers) {
    std::vector<int, mi_stl_allocator<int>> numbers;
    for (int i = 0; i < 100000; i++) numbers.push_back(i);
    CHECK(mi_is_in_heap_region(numbers.data()));
    std::map<int, std::string, std::less<int>, mi_stl_allocator<std::pair<const int, std::string>>>
        map;
    for (int i = 0; i < 1000; i++) map[i] = std::to_string(i);
    for (auto& [key, text] : map) CHECK(kl_contains(&key) && text == std::to_string(key));
    std::list<Wide, mi_stl_allocator<Wide>> wide(20);
    mi_stl_allocator<Wide>().deallocate(mi_stl_allocator<Wide>().allocate(0), 0);
    for (Wide& element : wide) CHECK(is_aligned(&element, 256));
    CHECK(throws_bad_alloc([] { (void)mi_stl_allocator<long>().allocate(too_much); }));
}

// Members that C++98 required of an allocator, and that old programs still use.
TEST(the_old_members_of_an_allocator) {
    using Strings = mi_stl_allocator<int>::rebind<std::string>::other;
    Strings strings;
    Strings::pointer place = strings.allocate(1, nullptr);
    strings.construct(place, 100u, 'x');
    CHECK(strings.address(*place) == place && place->size() == 100);
    Strings::const_reference same = *place;
    Strings::const_pointer address = strings.address(same);
    CHECK(address == place);
    strings.destroy(place);
    strings.deallocate(place, 1);
    CHECK(strings.max_size() > 1000000 && strings == mi_stl_allocator<char>() &&
          !(strings != mi_stl_allocator<char>()));
}

TEST(operators_use_keel) {
    int* number = new int(7);
    Wide* wide = new Wide[3];
    CHECK(kl_contains(number) && kl_contains(wide) && is_aligned(wide, 256));
    delete number;
    delete[] wide;
}
