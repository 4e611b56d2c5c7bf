/* Allocation that ends as C++'s operator new does: with memory, or after the new_handler has had its chances with
 * std::bad_alloc, or NULL. C++11 and later.
 *
 * Where exceptions are switched off (-fno-exceptions), what would throw ends the process instead.
 * Any thread, at any time. */
#ifndef KEEL_NEW_HPP
#define KEEL_NEW_HPP

#include "keel/heap.h"
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace keel {

namespace detail {

[[noreturn]] inline void throw_bad_alloc() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    std::abort();
#endif
}

/* Tries again for as long as there is a new_handler, which frees memory, throws, or takes itself away. */
template <typename Allocate> inline void* until_given(Allocate allocate) {
    for (;;) {
        if (void* block = allocate()) return block;
        std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) return nullptr;
        handler();
    }
}

template <typename Allocate> inline void* or_throw(Allocate allocate) {
    void* block = until_given(allocate);
    if (block == nullptr) throw_bad_alloc();
    return block;
}

/* As the standard has it for the nothrow forms: whatever the handler throws means no. */
template <typename Allocate> inline void* or_null(Allocate allocate) noexcept {
#if defined(__cpp_exceptions)
    try {
        return until_given(allocate);
    } catch (...) {
        return nullptr;
    }
#else
    return until_given(allocate);
#endif
}

inline bool is_power_of_two(std::size_t number) noexcept {
    return number != 0 && (number & (number - 1)) == 0;
}

/* Above this, operator new has forms of its own. */
constexpr std::size_t usual_alignment = alignof(std::max_align_t);

} // namespace detail

/* --- Blocks ------------------------------------------------------------------------------------ */

/* At least `size` bytes, aligned to 16 (to 8 up to 8 bytes), or std::bad_alloc. Freed by kl_free. */
inline void* new_or_throw(std::size_t size) {
    void* block = kl_malloc(size);
    return block != nullptr ? block : detail::or_throw([=] { return kl_malloc(size); });
}

/* The same, aligned to any power of two; with any other number std::bad_alloc, and no handler is called. */
inline void* new_or_throw(std::size_t size, std::size_t alignment) {
    if (!detail::is_power_of_two(alignment)) detail::throw_bad_alloc();
    return detail::or_throw([=] { return kl_aligned_alloc(alignment, size); });
}

/* The same, and nullptr where those throw. */
inline void* new_or_null(std::size_t size) noexcept {
    void* block = kl_malloc(size);
    return block != nullptr ? block : detail::or_null([=] { return kl_malloc(size); });
}
inline void* new_or_null(std::size_t size, std::size_t alignment) noexcept {
    if (!detail::is_power_of_two(alignment)) return nullptr;
    return detail::or_null([=] { return kl_aligned_alloc(alignment, size); });
}

/* From a heap of one's own, or std::bad_alloc. */
inline void* new_or_throw(kl_heap_t* heap, std::size_t size, std::size_t alignment) {
    if (!detail::is_power_of_two(alignment)) detail::throw_bad_alloc();
    return detail::or_throw([=] { return kl_heap_aligned_alloc(heap, alignment, size); });
}

/* A block of another size with the content of the old one, which may be nullptr; on failure the old block stays, and
 * it is std::bad_alloc. Size 0 is taken for 1. */
inline void* renew_or_throw(void* block, std::size_t size) {
    return detail::or_throw([=] { return kl_realloc(block, size == 0 ? 1 : size); });
}

/* count * size, or a size that nobody has. */
inline std::size_t array_bytes(std::size_t count, std::size_t size) noexcept {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    return size != 0 && count > most / size ? most : count * size;
}

} // namespace keel

#endif
