// C++: every form of new and delete, their behaviour without memory, and the standard library.
#include "bad_alloc.hpp"
#include "check.h"
#include "memory.h"

#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "subject.h"

namespace {

constexpr size_t too_much = std::numeric_limits<size_t>::max() / 2 - 4096;
const size_t sizes[] = {0,    1,    8,    9,     16,     40,       100,
                        1000, 4096, 9000, 70000, 600000, 5u * MIB, 20u * MIB};

void check_block(void* p, size_t size, size_t alignment) {
    CHECK_WITH(p != nullptr, "size %zu", size);
    CHECK_WITH(is_aligned(p, alignment), "size %zu, alignment %zu: %p", size, alignment, p);
    CHECK_WITH(malloc_usable_size(p) >= size, "size %zu", size);
    pattern_fill(p, size, size);
    CHECK(pattern_holds(p, size, size, size));
}

} // namespace

TEST(every_plain_form_of_new_works_with_every_plain_form_of_delete) {
    for (size_t size : sizes) {
        size_t alignment = size <= 8 ? 8 : 16;
        for (int form = 0; form < 12; form++) {
            bool array = form % 2, nothrow = form / 2 % 2;
            void* p = array ? (nothrow ? operator new[](size, std::nothrow) : operator new[](size))
                            : (nothrow ? operator new(size, std::nothrow) : operator new(size));
            check_block(p, size, alignment);
            switch (form / 4) {
            case 0:
                array ? operator delete[](p) : operator delete(p);
                break;
            case 1:
                array ? operator delete[](p, size) : operator delete(p, size);
                break;
            default:
                array ? operator delete[](p, std::nothrow) : operator delete(p, std::nothrow);
            }
        }
    }
}

TEST(every_aligned_form_of_new_works_with_every_aligned_form_of_delete) {
    for (size_t size : sizes) {
        for (size_t n = 1; n <= 65536; n *= 2) {
            std::align_val_t alignment{n};
            for (int form = 0; form < 12; form++) {
                bool array = form % 2, nothrow = form / 2 % 2;
                void* p = array ? (nothrow ? operator new[](size, alignment, std::nothrow) :
                                           operator new[](size, alignment))
                                : (nothrow ? operator new(size, alignment, std::nothrow) :
                                           operator new(size, alignment));
                if (size <= 70000 || n == 64) check_block(p, size, n);
                switch (form / 4) {
                case 0:
                    array ? operator delete[](p, alignment) : operator delete(p, alignment);
                    break;
                case 1:
                    array ? operator delete[](p, size, alignment) :
                          operator delete(p, size, alignment);
                    break;
                default:
                    array ? operator delete[](p, alignment, std::nothrow) :
                          operator delete(p, alignment, std::nothrow);
                }
            }
        }
    }
}

TEST(delete_of_null_does_nothing) {
    operator delete(nullptr);
    operator delete[](nullptr);
    operator delete (nullptr, size_t{8});
    operator delete (nullptr, std::align_val_t{64});
    operator delete[](nullptr, size_t{64}, std::align_val_t{64});
    operator delete(nullptr, std::nothrow);
}

TEST(new_of_zero_bytes_returns_unique_blocks) {
    void *p = operator new(0), *q = operator new(0), *r = operator new[](0, std::align_val_t{32});
    CHECK(p && q && r && p != q && q != r && p != r);
    operator delete(p);
    operator delete(q);
    operator delete[](r, std::align_val_t{32});
}

// ---- out of memory ----

namespace {
void* volatile sink; // so that the compiler cannot remove calls
void count_and_give_up() {
    if (++handler_calls == 3) std::set_new_handler(nullptr);
}
void throw_own() {
    throw std::runtime_error("from the handler");
}
void throw_bad_alloc() {
    throw std::bad_alloc();
}
} // namespace

TEST(without_memory_new_throws_bad_alloc) {
    CHECK(throws_bad_alloc([] { sink = operator new(too_much); }));
    CHECK(throws_bad_alloc([] { sink = operator new[](too_much); }));
    CHECK(throws_bad_alloc([] { sink = operator new (too_much, std::align_val_t{64}); }));
    CHECK(throws_bad_alloc([] { sink = operator new[](too_much, std::align_val_t{4096}); }));
    CHECK(throws_bad_alloc([] { sink = operator new(std::numeric_limits<size_t>::max()); }));
    CHECK(throws_bad_alloc([] { std::vector<char> v(too_much); }));
}

// Rounding this size up to the alignment overflows. libstdc++'s own operators do not detect this.
TEST(an_aligned_new_of_nearly_size_max_fails) {
    const char* subject = std::getenv("CHECK_MALLOC_IN");
    if (!SUBJECT_API && (!subject || std::strstr(subject, "libc.so")))
        SKIP("these are not Keel's operators");
    size_t size = std::numeric_limits<size_t>::max();
    for (size_t less = 0; less < 70; less++) {
        CHECK(throws_bad_alloc([=] { sink = operator new (size - less, std::align_val_t{32}); }));
        CHECK(
            throws_bad_alloc([=] { sink = operator new[](size - less, std::align_val_t{65536}); }));
        CHECK(operator new (size - less, std::align_val_t{64}, std::nothrow) == nullptr);
    }
}

TEST(without_memory_nothrow_new_returns_null) {
    CHECK(operator new(too_much, std::nothrow) == nullptr);
    CHECK(operator new[](too_much, std::nothrow) == nullptr);
    CHECK(operator new (too_much, std::align_val_t{64}, std::nothrow) == nullptr);
    CHECK(operator new[](too_much, std::align_val_t{4096}, std::nothrow) == nullptr);
}

TEST(the_new_handler_is_called_until_it_removes_itself) {
    std::set_new_handler(count_and_give_up);
    CHECK(throws_bad_alloc([] { sink = operator new(too_much); }));
    CHECK_EQUAL(handler_calls, 3);
    handler_calls = 0;
    std::set_new_handler(count_and_give_up);
    CHECK(operator new[](too_much, std::nothrow) == nullptr);
    CHECK_EQUAL(handler_calls, 3);
    handler_calls = 0;
    std::set_new_handler(count_and_give_up);
    CHECK(throws_bad_alloc([] { sink = operator new (too_much, std::align_val_t{128}); }));
    CHECK_EQUAL(handler_calls, 3);
}

TEST(exceptions_of_the_new_handler_propagate) {
    bool caught = false;
    std::set_new_handler(throw_own);
    try {
        sink = operator new(too_much);
    } catch (const std::runtime_error& error) {
        caught = std::strcmp(error.what(), "from the handler") == 0;
    }
    CHECK(caught);
}

TEST(nothrow_new_catches_the_new_handlers_bad_alloc) {
    std::set_new_handler(throw_bad_alloc);
    CHECK(operator new(too_much, std::nothrow) == nullptr);
    CHECK(operator new[](too_much, std::nothrow) == nullptr);
    CHECK(operator new (too_much, std::align_val_t{64}, std::nothrow) == nullptr);
}

// malloc does not call the handler, because the handler belongs to operator new.
TEST(malloc_does_not_call_the_new_handler) {
    std::set_new_handler(throw_own);
    void* volatile p = malloc(too_much);
    CHECK(p == nullptr);
}

// ---- the language and the library ----

namespace {
struct alignas(64) Line {
    char bytes[64];
};
struct alignas(4096) Page {
    char bytes[5000];
};
struct Throws {
    explicit Throws(int at) {
        if (at == 7) throw std::runtime_error("constructor");
    }
    std::string text = std::string(100, 'x');
};
} // namespace

TEST(over_aligned_types_are_aligned) {
    std::vector<std::unique_ptr<Line>> lines;
    std::vector<Page> pages(20);
    for (int i = 0; i < 1000; i++) {
        lines.push_back(std::make_unique<Line>());
        CHECK(is_aligned(lines.back().get(), 64));
        CHECK(is_aligned(new Line[3], 64));
    }
    for (Page& page : pages) CHECK(is_aligned(&page, 4096));
}

TEST(a_constructor_that_throws_frees_the_block) {
    for (int i = 0; i < 300000; i++) {
        try {
            delete new Throws(7);
            CHECK(false);
        } catch (const std::runtime_error&) {
        }
    }
    CHECK_WITH(resident_bytes() < 64u * MIB, "%zu KiB", resident_bytes() / KIB);
}

TEST(containers_and_strings_keep_their_contents) {
    std::map<std::string, std::vector<int>> map;
    for (int i = 0; i < 20000; i++) {
        auto& vector = map["key number " + std::to_string(i % 3000)];
        for (int k = 0; k < i % 40; k++) vector.push_back(i + k);
        if (i % 7 == 0) map.erase("key number " + std::to_string(i % 1000));
    }
    for (auto& [key, vector] : map) {
        for (int value : vector) CHECK(value >= 0 && value < 20100);
        CHECK(key.compare(0, 11, "key number ") == 0);
    }
    std::pmr::unsynchronized_pool_resource pool;
    std::pmr::vector<std::pmr::string> strings(&pool);
    for (int i = 0; i < 5000; i++) strings.emplace_back(static_cast<size_t>(i % 500), 'y');
    for (size_t i = 0; i < 5000; i++) CHECK(strings[i].size() == i % 500);
}

namespace {
struct Holder {
    std::vector<std::string> strings;
    ~Holder() {
        for (auto& s : strings) CHECK(s.size() == 200);
        strings.assign(10, std::string(3000, 'z'));
    }
};
thread_local Holder holder;
} // namespace

TEST(thread_local_objects_are_destroyed_with_their_thread) {
    for (int i = 0; i < 300; i++) {
        std::vector<std::string>* theirs = nullptr;
        std::thread thread([&theirs] {
            for (int k = 0; k < 30; k++) holder.strings.emplace_back(200, 'a');
            theirs = new std::vector<std::string>(50, std::string(77, 'b'));
        });
        thread.join();
        for (auto& s : *theirs) CHECK(s == std::string(77, 'b'));
        delete theirs;
    }
}

TEST(exceptions_are_thrown_and_caught_in_many_threads) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([] {
            for (int i = 0; i < 20000; i++) {
                try {
                    throw std::runtime_error(std::string(static_cast<size_t>(i % 300), 'e'));
                } catch (const std::exception& error) {
                    CHECK(std::strlen(error.what()) == static_cast<size_t>(i % 300));
                }
            }
        });
    }
    for (auto& thread : threads) thread.join();
}
