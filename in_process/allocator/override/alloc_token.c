// The malloc family for programs that Clang 22 or later has compiled with -fsanitize=alloc-token:
// the compiler passes a token, which depends on the type that the program allocates. The secure
// flavour derives the partition of the block from it (entry_partition_of); the other flavours
// ignore it. The operators are in new_delete.c.
//
//   __alloc_token_malloc(size, token)     the token is the last argument
//   __alloc_token_1_malloc(size)          -fsanitize-alloc-token-fast-abi, for tokens 0 to 3
#include "allocator/api/entry.h"

static void* token_realloc(void* block, size_t size, unsigned partition) {
    if (block == NULL) return entry_allocate_in(size, partition);
    if (KEEL_DEBUG) debug_require_kind(block, BLOCK_MALLOC);
    return entry_realloc(block, size); // stays in its partition
}

static void* token_memalign(size_t alignment, size_t size, unsigned partition) {
    unsigned before = partition_enter(partition);
    void* block = entry_memalign(size, alignment);
    partition_leave(before);
    return block;
}

static void* token_valloc(size_t size, unsigned partition) {
    unsigned before = partition_enter(partition);
    void* block = entry_valloc(size);
    partition_leave(before);
    return block;
}

static void* token_pvalloc(size_t size, unsigned partition) {
    unsigned before = partition_enter(partition);
    void* block = entry_pvalloc(size);
    partition_leave(before);
    return block;
}

static int token_posix_memalign(void** block, size_t alignment, size_t size, unsigned partition) {
    unsigned before = partition_enter(partition);
    int result = entry_posix_memalign(block, alignment, size);
    partition_leave(before);
    return result;
}

#define TOKEN_FUNCTION(result, name, call, ...)                                                    \
    result name(__VA_ARGS__);                                                                      \
    KEEL_EXPORT result name(__VA_ARGS__) {                                                         \
        return call;                                                                               \
    }
// What follows the partition ends each list of parameters.
#define TOKEN_FAMILY(prefix, partition, ...)                                                       \
    TOKEN_FUNCTION(void*, prefix##malloc, entry_allocate_in(size, partition),                      \
                   size_t size __VA_ARGS__)                                                        \
    TOKEN_FUNCTION(void*, prefix##calloc, entry_zeroed_in(entry_product(count, size), partition),  \
                   size_t count, size_t size __VA_ARGS__)                                          \
    TOKEN_FUNCTION(void*, prefix##realloc, token_realloc(block, size, partition), void* block,     \
                   size_t size __VA_ARGS__)                                                        \
    TOKEN_FUNCTION(void*, prefix##reallocarray,                                                    \
                   token_realloc(block, entry_product(count, size), partition), void* block,       \
                   size_t count, size_t size __VA_ARGS__)                                          \
    TOKEN_FUNCTION(void*, prefix##memalign, token_memalign(alignment, size, partition),            \
                   size_t alignment, size_t size __VA_ARGS__)                                      \
    TOKEN_FUNCTION(void*, prefix##aligned_alloc, token_memalign(alignment, size, partition),       \
                   size_t alignment, size_t size __VA_ARGS__)                                      \
    TOKEN_FUNCTION(int, prefix##posix_memalign,                                                    \
                   token_posix_memalign(block, alignment, size, partition), void** block,          \
                   size_t alignment, size_t size __VA_ARGS__)                                      \
    TOKEN_FUNCTION(void*, prefix##valloc, token_valloc(size, partition), size_t size __VA_ARGS__)  \
    TOKEN_FUNCTION(void*, prefix##pvalloc, token_pvalloc(size, partition), size_t size __VA_ARGS__)

TOKEN_FAMILY(__alloc_token_, entry_partition_of(token), , size_t token)
TOKEN_FAMILY(__alloc_token_0_, 0, )
TOKEN_FAMILY(__alloc_token_1_, 1, )
TOKEN_FAMILY(__alloc_token_2_, 2, )
TOKEN_FAMILY(__alloc_token_3_, 3, )
