// The operators of C++, in a program that links its C++ library statically.
#include "check.h"
#include "memory.h"
#include <keel/keel.h>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {
constexpr std::size_t too_much = std::size_t(1) << 60;
std::size_t volatile huge = too_much;
int calls;

struct alignas(256) Wide {
    char bytes[300];
};

void takes_turns() {
    if (++calls >= 3) throw std::bad_alloc();
}
} // namespace

TEST(every_form_of_new_is_of_keel) {
    const auto tag = std::nothrow;
    const auto alignment = std::align_val_t(512);
    void* blocks[] = {::operator new(100),
                      ::operator new[](100),
                      ::operator new(100, tag),
                      ::operator new[](100, tag),
                      ::operator new(100, alignment),
                      ::operator new[](100, alignment),
                      ::operator new(100, alignment, tag),
                      ::operator new[](100, alignment, tag)};
    for (int i = 0; i < 8; i++) CHECK_WITH(kl_contains(blocks[i]), "form %d", i);
    for (int i = 4; i < 8; i++) CHECK(is_aligned(blocks[i], 512));
    ::operator delete(blocks[0]);
    ::operator delete[](blocks[1], std::size_t(100));
    ::operator delete(blocks[2], tag);
    ::operator delete[](blocks[3], tag);
    ::operator delete(blocks[4], alignment);
    ::operator delete[](blocks[5], std::size_t(100), alignment);
    ::operator delete(blocks[6], alignment, tag);
    ::operator delete[](blocks[7], alignment, tag);
    ::operator delete(::operator new(10), std::size_t(10));
    ::operator delete(::operator new(10, alignment), std::size_t(10), alignment);
    ::operator delete[](::operator new[](10));
    ::operator delete[](::operator new[](10, alignment), alignment);
}

TEST(no_memory_throws_bad_alloc) {
    bool caught = false;
    try {
        ::operator delete(::operator new(huge));
    } catch (const std::bad_alloc&) {
        caught = true;
    }
    CHECK(caught);
    CHECK(::operator new(huge, std::nothrow) == nullptr);
    CHECK(::operator new(huge, std::align_val_t(64), std::nothrow) == nullptr);
}

TEST(the_new_handler_is_called_until_it_throws) {
    bool caught = false;
    std::set_new_handler(takes_turns);
    try {
        ::operator delete(::operator new(huge));
    } catch (const std::bad_alloc&) {
        caught = true;
    }
    CHECK(caught && calls == 3);
    CHECK(::operator new(huge, std::nothrow) == nullptr);
    std::set_new_handler(nullptr);
}

TEST(containers_and_wide_types_use_keel) {
    std::vector<std::string> texts;
    for (int i = 0; i < 10000; i++) texts.push_back(std::string(std::size_t(i % 300), 'x'));
    CHECK(kl_contains(texts.data()) && kl_contains(texts[299].data()));
    auto wide = std::make_unique<Wide>();
    CHECK(kl_contains(wide.get()) && is_aligned(wide.get(), 256));
}

namespace {
struct Late {
    std::vector<std::string> texts;
    ~Late() {
        for (int i = 0; i < 100; i++) texts.push_back(std::string(200, 'y'));
    }
};
thread_local Late late;
} // namespace

TEST(destructors_of_thread_local_objects_allocate) {
    std::size_t early = 0;
    for (int i = 0; i < 300; i++) {
        std::thread([] { late.texts.push_back("a text that is longer than the object"); }).join();
        if (i == 30) early = resident_bytes();
    }
    CHECK_WITH(resident_bytes() < early + 4u * MIB, "%zu KiB, after 30 threads %zu",
               resident_bytes() / KIB, early / KIB);
}
