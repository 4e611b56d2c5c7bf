/* Definitions of all forms of the C++ operators new and delete that use Keel.
 *
 * This header is for programs that link libkeel_api. Include it in exactly one source file of the
 * program. libkeel already contains these operators.
 *
 * Each form follows the standard. If there is no memory, it calls the new_handler and tries again.
 * This ends when the allocation succeeds, the handler throws, or there is no handler any more.
 * Without a handler, the throwing forms throw std::bad_alloc. The nothrow forms return nullptr,
 * also if the handler throws. */
#ifndef KEEL_NEW_DELETE_H
#define KEEL_NEW_DELETE_H

#ifdef __cplusplus

#include "keel/new.hpp"

/* --- new -------------------------------------------------------------------------------------- */

void* operator new(std::size_t size) {
    return keel::new_or_throw(size);
}
void* operator new[](std::size_t size) {
    return keel::new_or_throw(size);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return keel::new_or_null(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
    return keel::new_or_null(size);
}

/* --- delete ----------------------------------------------------------------------------------- */

void operator delete(void* block) noexcept {
    kl_free(block);
}
void operator delete[](void* block) noexcept {
    kl_free(block);
}
void operator delete(void* block, const std::nothrow_t&) noexcept {
    kl_free(block);
}
void operator delete[](void* block, const std::nothrow_t&) noexcept {
    kl_free(block);
}
void operator delete(void* block, std::size_t size) noexcept {
    kl_free_sized(block, size);
}
void operator delete[](void* block, std::size_t size) noexcept {
    kl_free_sized(block, size);
}

/* --- Over-aligned types, C++17 and later ------------------------------------------------------ */

#if defined(__cpp_aligned_new)

void* operator new(std::size_t size, std::align_val_t alignment) {
    return keel::new_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
    return keel::new_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return keel::new_or_null(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return keel::new_or_null(size, static_cast<std::size_t>(alignment));
}

void operator delete(void* block, std::align_val_t) noexcept {
    kl_free(block);
}
void operator delete[](void* block, std::align_val_t) noexcept {
    kl_free(block);
}
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept {
    kl_free(block);
}
void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept {
    kl_free(block);
}
void operator delete(void* block, std::size_t size, std::align_val_t alignment) noexcept {
    kl_free_aligned_sized(block, static_cast<std::size_t>(alignment), size);
}
void operator delete[](void* block, std::size_t size, std::align_val_t alignment) noexcept {
    kl_free_aligned_sized(block, static_cast<std::size_t>(alignment), size);
}

#endif

#endif

#endif
