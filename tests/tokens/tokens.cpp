// The functions that -fsanitize=alloc-token calls, called by hand: each form of the malloc family
// and of operator new, with the token as an argument and in the name.
#include "check.h"

#include <keel/keel.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <new>

#define DECLARE_FAMILY(prefix, ...)                                                                \
    void* prefix##malloc(size_t __VA_ARGS__);                                                      \
    void* prefix##calloc(size_t, size_t __VA_ARGS__);                                              \
    void* prefix##realloc(void*, size_t __VA_ARGS__);                                              \
    void* prefix##reallocarray(void*, size_t, size_t __VA_ARGS__);                                 \
    void* prefix##memalign(size_t, size_t __VA_ARGS__);                                            \
    void* prefix##aligned_alloc(size_t, size_t __VA_ARGS__);                                       \
    int prefix##posix_memalign(void**, size_t, size_t __VA_ARGS__);                                \
    void* prefix##valloc(size_t __VA_ARGS__);                                                      \
    void* prefix##pvalloc(size_t __VA_ARGS__);                                                     \
    void* prefix##_Znwm(size_t __VA_ARGS__);                                                       \
    void* prefix##_Znam(size_t __VA_ARGS__);                                                       \
    void* prefix##_ZnwmRKSt9nothrow_t(size_t, const std::nothrow_t& __VA_ARGS__);                  \
    void* prefix##_ZnamRKSt9nothrow_t(size_t, const std::nothrow_t& __VA_ARGS__);                  \
    void* prefix##_ZnwmSt11align_val_t(size_t, std::align_val_t __VA_ARGS__);                      \
    void* prefix##_ZnamSt11align_val_t(size_t, std::align_val_t __VA_ARGS__);                      \
    void* prefix##_ZnwmSt11align_val_tRKSt9nothrow_t(size_t, std::align_val_t,                     \
                                                     const std::nothrow_t& __VA_ARGS__);           \
    void* prefix##_ZnamSt11align_val_tRKSt9nothrow_t(size_t, std::align_val_t,                     \
                                                     const std::nothrow_t& __VA_ARGS__);

extern "C" {
DECLARE_FAMILY(__alloc_token_, , size_t)
DECLARE_FAMILY(__alloc_token_0_, )
DECLARE_FAMILY(__alloc_token_1_, )
DECLARE_FAMILY(__alloc_token_2_, )
DECLARE_FAMILY(__alloc_token_3_, )
void free(void*);
}

namespace {

constexpr size_t pointers = 0xac99a6bcf912d06a; // a token with the highest bit set: partition 2
constexpr size_t data = 0x3537cdc9ce18a930;     // partition 1

bool are_apart() {
    return KEEL_SECURE != 0;
}

void check_place(const void* block, unsigned partition, size_t size, size_t alignment) {
    CHECK(block != nullptr);
    CHECK_WITH(kl_partition_of(block) == (are_apart() ? partition : 0), "in %u instead of %u",
               kl_partition_of(block), partition);
    CHECK((uintptr_t)block % alignment == 0);
    CHECK(kl_usable_size(block) >= size);
    memset(const_cast<void*>(block), 0x5a, size);
}

constexpr std::align_val_t at128{128};

// Each form with a size that is in a bin, one that takes the slow path, and a large one.
#define CHECK_FAMILY(prefix, partition, ...)                                                       \
    do {                                                                                           \
        for (size_t size : {size_t(1), size_t(40), size_t(5000), size_t(200000)}) {                \
            for (int turn = 0; turn < 40; turn++) {                                                \
                void* block = prefix##malloc(size __VA_ARGS__);                                    \
                check_place(block, partition, size, size > 8 ? 16 : 8);                            \
                block = prefix##realloc(block, 3 * size __VA_ARGS__);                              \
                check_place(block, partition, 3 * size, 8);                                        \
                block = prefix##reallocarray(block, 5, size __VA_ARGS__);                          \
                check_place(block, partition, 5 * size, 8);                                        \
                free(block);                                                                       \
                block = prefix##realloc(nullptr, size __VA_ARGS__);                                \
                check_place(block, partition, size, 8);                                            \
                free(block);                                                                       \
                auto* bytes = static_cast<unsigned char*>(prefix##calloc(2, size __VA_ARGS__));    \
                for (size_t i = 0; i < 2 * size; i++) CHECK(bytes[i] == 0);                        \
                check_place(bytes, partition, 2 * size, 8);                                        \
                free(bytes);                                                                       \
                block = prefix##memalign(256, size __VA_ARGS__);                                   \
                check_place(block, partition, size, 256);                                          \
                free(block);                                                                       \
                block = prefix##aligned_alloc(128, size __VA_ARGS__);                              \
                check_place(block, partition, size, 128);                                          \
                free(block);                                                                       \
                CHECK(prefix##posix_memalign(&block, 64, size __VA_ARGS__) == 0);                  \
                check_place(block, partition, size, 64);                                           \
                free(block);                                                                       \
                block = prefix##valloc(size __VA_ARGS__);                                          \
                check_place(block, partition, size, 4096);                                         \
                free(block);                                                                       \
                block = prefix##pvalloc(size __VA_ARGS__);                                         \
                check_place(block, partition, (size + 4095) / 4096 * 4096, 4096);                  \
                free(block);                                                                       \
                block = prefix##_Znwm(size __VA_ARGS__);                                           \
                check_place(block, partition, size, 8);                                            \
                operator delete(block, size);                                                      \
                block = prefix##_Znam(size __VA_ARGS__);                                           \
                check_place(block, partition, size, 8);                                            \
                operator delete[](block);                                                          \
                block = prefix##_ZnwmRKSt9nothrow_t(size, std::nothrow __VA_ARGS__);               \
                check_place(block, partition, size, 8);                                            \
                operator delete(block, std::nothrow);                                              \
                block = prefix##_ZnamRKSt9nothrow_t(size, std::nothrow __VA_ARGS__);               \
                check_place(block, partition, size, 8);                                            \
                operator delete[](block, std::nothrow);                                            \
                block = prefix##_ZnwmSt11align_val_t(size, at128 __VA_ARGS__);                     \
                check_place(block, partition, size, 128);                                          \
                operator delete(block, size, at128);                                               \
                block = prefix##_ZnamSt11align_val_t(size, at128 __VA_ARGS__);                     \
                check_place(block, partition, size, 128);                                          \
                operator delete[](block, at128);                                                   \
                block = prefix##_ZnwmSt11align_val_tRKSt9nothrow_t(size, at128,                    \
                                                                   std::nothrow __VA_ARGS__);      \
                check_place(block, partition, size, 128);                                          \
                operator delete(block, at128, std::nothrow);                                       \
                block = prefix##_ZnamSt11align_val_tRKSt9nothrow_t(size, at128,                    \
                                                                   std::nothrow __VA_ARGS__);      \
                check_place(block, partition, size, 128);                                          \
                operator delete[](block, at128);                                                   \
            }                                                                                      \
        }                                                                                          \
    } while (0)

TEST(each_form_takes_a_token) {
    CHECK_FAMILY(__alloc_token_, 2, , pointers);
    CHECK_FAMILY(__alloc_token_, 1, , data);
    CHECK_FAMILY(__alloc_token_, 0, , size_t(0));
}

TEST(each_form_exists_for_the_tokens_0_to_3) {
    CHECK_FAMILY(__alloc_token_0_, 0, );
    CHECK_FAMILY(__alloc_token_1_, 1, );
    CHECK_FAMILY(__alloc_token_2_, 2, );
    CHECK_FAMILY(__alloc_token_3_, 3, );
}

constexpr size_t too_much = SIZE_MAX / 2 - 4096;

TEST(failures_are_those_of_the_standard_functions) {
    errno = 0;
    CHECK(__alloc_token_malloc(too_much, pointers) == nullptr && errno == ENOMEM);
    errno = 0;
    CHECK(__alloc_token_calloc(too_much, 4, pointers) == nullptr && errno == ENOMEM);
    errno = 0;
    CHECK(__alloc_token_reallocarray(nullptr, too_much, 4, pointers) == nullptr && errno == ENOMEM);
    void* block = &block;
    CHECK(__alloc_token_posix_memalign(&block, 24, 100, pointers) == EINVAL && block == &block);
    CHECK(__alloc_token_posix_memalign(&block, 64, too_much, pointers) == ENOMEM);
    CHECK(__alloc_token__ZnwmRKSt9nothrow_t(too_much, std::nothrow, pointers) == nullptr);
    CHECK(__alloc_token__ZnamSt11align_val_tRKSt9nothrow_t(too_much, at128, std::nothrow,
                                                           pointers) == nullptr);
    unsigned thrown = 0;
    try {
        (void)__alloc_token__Znwm(too_much, pointers);
    } catch (const std::bad_alloc&) {
        thrown++;
    }
    try {
        (void)__alloc_token_2__ZnamSt11align_val_t(too_much, at128);
    } catch (const std::bad_alloc&) {
        thrown++;
    }
    CHECK(thrown == 2);
    check_place(__alloc_token_malloc(100, pointers), 2, 100, 16); // all is as before
    check_place(operator new(100), 0, 100, 16);
}

struct Thrown {};
bool free_in_partition_0;

// A handler that allocates does so in partition 0, whatever it is called for.
TEST(a_new_handler_allocates_without_a_type) {
    std::set_new_handler([] {
        void* block = operator new(5000);
        free_in_partition_0 = kl_partition_of(block) == 0;
        operator delete(block);
        throw Thrown();
    });
    bool thrown = false;
    try {
        (void)__alloc_token__Znwm(too_much, pointers);
    } catch (const Thrown&) {
        thrown = true;
    }
    std::set_new_handler(nullptr);
    CHECK(thrown && free_in_partition_0);
    check_place(operator new(70000), 0, 70000, 16);
    check_place(operator new(7000), 0, 7000, 16);
}

} // namespace
