/* Keel for C++17: allocators for containers, an owning class for user heaps, and memory resources.
 *
 *     std::vector<int, keel::allocator<int>> numbers;      // uses kl_malloc
 *
 *     keel::heap level;                                    // a user heap
 *     std::list<Enemy, keel::heap_allocator<Enemy>> enemies(level.get());
 *
 *     std::pmr::vector<std::pmr::string> words(keel::resource());
 *
 * Failed allocations call the new_handler and then throw std::bad_alloc, as operator new does. Any
 * thread may use and copy allocators and resources at any time. Threads that use the same heap wait
 * for each other. keel/keel.h and keel/heap.h state the costs. */
#ifndef KEEL_KEEL_HPP
#define KEEL_KEEL_HPP

#include "keel/heap.h"
#include "keel/keel.h"
#include "keel/new.hpp"
#include <cstddef>
#include <memory_resource>
#include <type_traits>
#include <utility>

namespace keel {

/* --- Containers ------------------------------------------------------------------------------- */

/* A stateless standard allocator that uses kl_malloc. It supports over-aligned types. */
template <typename T> class allocator {
  public:
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;

    allocator() noexcept = default;
    template <typename U> allocator(const allocator<U>&) noexcept {}

    [[nodiscard]] T* allocate(std::size_t count) {
        return static_cast<T*>(new_or_throw(array_bytes(count, sizeof(T)), alignof(T)));
    }
    void deallocate(T* block, std::size_t count) noexcept {
        kl_free_aligned_sized(block, alignof(T), count * sizeof(T));
    }
};

template <typename T, typename U>
bool operator==(const allocator<T>&, const allocator<U>&) noexcept {
    return true;
}
template <typename T, typename U>
bool operator!=(const allocator<T>&, const allocator<U>&) noexcept {
    return false;
}

/* --- Heaps ------------------------------------------------------------------------------------ */

namespace detail {

inline kl_heap_t* new_heap() {
    return static_cast<kl_heap_t*>(or_throw([] { return kl_heap_new(); }));
}

} // namespace detail

/* Owns a heap. The destructor calls kl_heap_delete: live blocks stay valid and are freed as
 * usual. */
class heap {
  public:
    heap() : heap_(detail::new_heap()) {}
    heap(heap&& other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
    heap& operator=(heap&& other) noexcept {
        std::swap(heap_, other.heap_);
        return *this;
    }
    ~heap() {
        if (heap_ != nullptr) kl_heap_delete(heap_);
    }

    /* Returns the handle for the functions of keel/heap.h and for the allocators below. Returns
     * nullptr after destroy() and after a move. */
    kl_heap_t* get() const noexcept { return heap_; }

    /* Calls kl_heap_destroy: ends the heap and all its blocks. No destructors are called, and
     * containers in the heap must not be used or destroyed afterwards. */
    void destroy() noexcept {
        if (heap_ != nullptr) kl_heap_destroy(std::exchange(heap_, nullptr));
    }

  private:
    kl_heap_t* heap_;
};

/* A standard allocator that allocates from one heap and frees blocks of any heap. The heap must
 * exist for as long as the allocator allocates. Two allocators are equal if they use the same heap.
 * Therefore a container never receives blocks of another heap. If a container is moved or swapped,
 * its heap moves with it. If another container is copied to it, it keeps its own heap. */
template <typename T> class heap_allocator {
  public:
    using value_type = T;
    using is_always_equal = std::false_type;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    heap_allocator(kl_heap_t* heap) noexcept : heap_(heap) {}
    template <typename U>
    heap_allocator(const heap_allocator<U>& other) noexcept : heap_(other.heap()) {}

    [[nodiscard]] T* allocate(std::size_t count) {
        return static_cast<T*>(new_or_throw(heap_, array_bytes(count, sizeof(T)), alignof(T)));
    }
    void deallocate(T* block, std::size_t count) noexcept {
        kl_free_aligned_sized(block, alignof(T), count * sizeof(T));
    }
    kl_heap_t* heap() const noexcept { return heap_; }

  private:
    kl_heap_t* heap_;
};

template <typename T, typename U>
bool operator==(const heap_allocator<T>& a, const heap_allocator<U>& b) noexcept {
    return a.heap() == b.heap();
}
template <typename T, typename U>
bool operator!=(const heap_allocator<T>& a, const heap_allocator<U>& b) noexcept {
    return a.heap() != b.heap();
}

/* --- Memory resources ------------------------------------------------------------------------- */

namespace detail {

/* Returns `other` if it has the type of `self`, else nullptr. Without RTTI it recognises only
 * `self` itself. */
template <typename Kind>
const Kind* same_kind(const Kind* self, const std::pmr::memory_resource* other) noexcept {
#if defined(__cpp_rtti)
    (void)self;
    return dynamic_cast<const Kind*>(other);
#else
    return self == other ? self : nullptr;
#endif
}

} // namespace detail

/* A std::pmr::memory_resource that uses one heap. The heap must exist for longer than the resource.
 * Resources of the same heap are equal. */
class heap_resource : public std::pmr::memory_resource {
  public:
    explicit heap_resource(kl_heap_t* heap) noexcept : heap_(heap) {}
    kl_heap_t* heap() const noexcept { return heap_; }

  private:
    void* do_allocate(std::size_t size, std::size_t alignment) override {
        return new_or_throw(heap_, size, alignment);
    }
    void do_deallocate(void* block, std::size_t size, std::size_t alignment) override {
        kl_free_aligned_sized(block, alignment, size);
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
        const auto* same = detail::same_kind(this, &other);
        return same != nullptr && same->heap_ == heap_;
    }

    kl_heap_t* heap_;
};

namespace detail {

class plain_resource final : public std::pmr::memory_resource {
    void* do_allocate(std::size_t size, std::size_t alignment) override {
        return new_or_throw(size, alignment);
    }
    void do_deallocate(void* block, std::size_t size, std::size_t alignment) override {
        kl_free_aligned_sized(block, alignment, size);
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
        return same_kind(this, &other) != nullptr;
    }
};

} // namespace detail

/* Returns the std::pmr::memory_resource that uses kl_malloc. Every call returns the same resource,
 * which is valid until the process ends. */
inline std::pmr::memory_resource* resource() noexcept {
    /* The resource is never destroyed: containers with static lifetime may free blocks after its
     * destructor would have run. */
    alignas(detail::plain_resource) static unsigned char room[sizeof(detail::plain_resource)];
    static std::pmr::memory_resource* const made = new (room) detail::plain_resource;
    return made;
}

} // namespace keel

#endif
