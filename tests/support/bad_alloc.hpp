// bad_alloc.hpp: helpers for tests of operator new and of allocators without memory.
#ifndef KEEL_TESTS_BAD_ALLOC_HPP
#define KEEL_TESTS_BAD_ALLOC_HPP

#include <new>

template <typename Call> bool throws_bad_alloc(Call call) {
    try {
        call();
    } catch (const std::bad_alloc&) {
        return true;
    }
    return false;
}

// The number of calls of the tests' new_handler.
inline int handler_calls;

// A new_handler that removes itself.
inline void count_and_leave() {
    handler_calls++;
    std::set_new_handler(nullptr);
}

#endif
