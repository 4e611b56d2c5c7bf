// bad_alloc.hpp: what operator new and the allocators do without memory.
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

// How often a new_handler of the tests was called.
inline int handler_calls;

// One that gives up when it is called.
inline void count_and_leave() {
    handler_calls++;
    std::set_new_handler(nullptr);
}

#endif
