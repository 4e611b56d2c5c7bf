/* Functions that allocate and fail as the C++ operators new do, for C++11 and later.
 *
 * If there is no memory, they call the new_handler and try again. This ends when the allocation
 * succeeds, the handler throws, or there is no handler any more. Without a handler, they throw
 * std::bad_alloc or return nullptr. With -fno-exceptions they end the process instead of throwing.
 * Any thread may call them at any time. The costs are those of kl_malloc, kl_aligned_alloc and
 * kl_realloc. */
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

/* Retries as long as there is a new_handler. The handler frees memory, throws, or removes
 * itself. */
template <typename Allocate> inline void* allocate_or_handle(Allocate allocate) {
    for (;;) {
        if (void* block = allocate()) return block;
        std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) return nullptr;
        handler();
    }
}

template <typename Allocate> inline void* or_throw(Allocate allocate) {
    void* block = allocate_or_handle(allocate);
    if (block == nullptr) throw_bad_alloc();
    return block;
}

/* Returns nullptr if the handler throws. The standard requires this of the nothrow forms. */
template <typename Allocate> inline void* or_null(Allocate allocate) noexcept {
#if defined(__cpp_exceptions)
    try {
        return allocate_or_handle(allocate);
    } catch (...) {
        return nullptr;
    }
#else
    return allocate_or_handle(allocate);
#endif
}

inline bool is_power_of_two(std::size_t number) noexcept {
    return number != 0 && (number & (number - 1)) == 0;
}

/* True if kl_malloc aligns such a block: it aligns blocks of up to 8 bytes to 8. */
inline bool is_usual(std::size_t size, std::size_t alignment) noexcept {
    return alignment <= alignof(std::max_align_t) && alignment <= size;
}

} // namespace detail

/* --- Blocks ----------------------------------------------------------------------------------- */

/* Allocates at least `size` bytes, aligned as by kl_malloc, or throws std::bad_alloc. Free the
 * block with kl_free. */
inline void* new_or_throw(std::size_t size) {
    void* block = kl_malloc(size);
    return block != nullptr ? block : detail::or_throw([=] { return kl_malloc(size); });
}

/* The same, aligned to any power of two. If `alignment` is not a power of two, it throws
 * std::bad_alloc without calling the handler. */
inline void* new_or_throw(std::size_t size, std::size_t alignment) {
    if (!detail::is_power_of_two(alignment)) detail::throw_bad_alloc();
    if (detail::is_usual(size, alignment)) return new_or_throw(size);
    return detail::or_throw([=] { return kl_aligned_alloc(alignment, size); });
}

/* The same, but return nullptr instead of throwing. */
inline void* new_or_null(std::size_t size) noexcept {
    void* block = kl_malloc(size);
    return block != nullptr ? block : detail::or_null([=] { return kl_malloc(size); });
}
inline void* new_or_null(std::size_t size, std::size_t alignment) noexcept {
    if (!detail::is_power_of_two(alignment)) return nullptr;
    return detail::or_null([=] { return kl_aligned_alloc(alignment, size); });
}

/* Allocates from a user heap, or throws std::bad_alloc. */
inline void* new_or_throw(kl_heap_t* heap, std::size_t size, std::size_t alignment) {
    if (!detail::is_power_of_two(alignment)) detail::throw_bad_alloc();
    return detail::or_throw([=] { return kl_heap_aligned_alloc(heap, alignment, size); });
}

/* Resizes a block as kl_realloc does; `block` may be nullptr. On failure it throws std::bad_alloc,
 * and the old block is unchanged. Size 0 is treated as 1. */
inline void* renew_or_throw(void* block, std::size_t size) {
    return detail::or_throw([=] { return kl_realloc(block, size == 0 ? 1 : size); });
}

/* Returns count * size. If the product overflows, returns SIZE_MAX, for which every allocation
 * fails. */
inline std::size_t array_bytes(std::size_t count, std::size_t size) noexcept {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    return size != 0 && count > most / size ? most : count * size;
}

} // namespace keel

#endif
