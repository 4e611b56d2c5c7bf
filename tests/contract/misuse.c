/* Guarantees of Keel that the standards do not require: operations on foreign blocks do no harm,
 * and some faults end the program with a documented message. docs/reference/faults.md lists which
 * faults are detected. */
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "subject.h"

static void* map(size_t bytes) {
    void* p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

static char static_bytes[64] __attribute__((aligned(64)));

TEST(a_free_of_a_foreign_block_is_ignored) {
    char on_stack[64] __attribute__((aligned(64)));
    char* mapping = map(3u * MIB);
    memset(mapping, 0x5A, 3u * MIB);
    memset(static_bytes, 0x5A, sizeof static_bytes);
    memset(on_stack, 0x5A, sizeof on_stack);
    for (int i = 0; i < 100; i++) {
        for (size_t at = 0; at < 3u * MIB; at += 4096) free(mapping + at);
        free(static_bytes);
        free(on_stack);
        free((void*)(uintptr_t)0x1000);        // not mapped
        free((void*)(uintptr_t)0x7fffffff000); // not mapped
        free((void*)(uintptr_t)16);
        char* p = malloc(50);
        CHECK(p != static_bytes && p != on_stack && (p < mapping || p >= mapping + 3u * MIB));
        memset(p, 1, 50);
        free(p);
    }
    for (size_t at = 0; at < 3u * MIB; at++) CHECK(mapping[at] == 0x5A);
    for (size_t at = 0; at < sizeof static_bytes; at++)
        CHECK(static_bytes[at] == 0x5A && on_stack[at] == 0x5A);
}

TEST(a_realloc_of_a_foreign_block_fails_and_leaves_it_unchanged) {
    char* mapping = map(4096);
    memset(mapping, 0x5A, 4096);
    errno = 0;
    CHECK(realloc(mapping, 100) == NULL);
    CHECK(errno == EINVAL || errno == ENOMEM);
    for (size_t at = 0; at < 4096; at++) CHECK(mapping[at] == 0x5A);
}

// No process has an address with one of these bits, which hold tags on some machines.
TEST(queries_of_impossible_addresses_find_no_block) {
    static const size_t lengths[] = {8, 100, 70000, 700000, 100u * MIB};
    for (int i = 0; i < 5; i++) {
        char* p = malloc(lengths[i]);
        p[0] = p[lengths[i] - 1] = 7;
        for (unsigned bit = 48; bit < 64; bit++) {
            uintptr_t alias = (uintptr_t)p | (uintptr_t)1 << bit;
            uintptr_t all = (uintptr_t)p | ~(uintptr_t)0 << bit;
#ifdef __aarch64__ // the top byte is a tag
            if (bit >= 56) {
                CHECK(malloc_usable_size((void*)alias) == malloc_usable_size(p));
                continue;
            }
#endif
            CHECK(malloc_usable_size((void*)alias) == 0 && malloc_usable_size((void*)all) == 0);
            errno = 0;
            CHECK(realloc((void*)alias, 2 * lengths[i]) == NULL);
            CHECK(errno == EINVAL || errno == ENOMEM);
            CHECK(realloc((void*)all, 10) == NULL && realloc((void*)alias, 0) == NULL);
        }
        CHECK(malloc_usable_size((void*)UINTPTR_MAX) == 0);
        CHECK(malloc_usable_size(p) >= lengths[i] && p[0] == 7 && p[lengths[i] - 1] == 7);
        free(p);
    }
}

#ifdef __aarch64__ // the processor ignores the top byte, in which Android's malloc stores a tag
TEST(blocks_can_be_used_resized_and_freed_by_a_tagged_address) {
    static const size_t lengths[] = {8, 100, 70000, 700000, 100u * MIB};
    for (int i = 0; i < 5; i++) {
        char* p = (char*)((uintptr_t)malloc(lengths[i]) | (uintptr_t)0xB4 << 56);
        p[0] = p[lengths[i] - 1] = 7;
        char* q = realloc(p, 2 * lengths[i]);
        CHECK(q != NULL && q[0] == 7 && q[lengths[i] - 1] == 7);
        free((void*)((uintptr_t)q | (uintptr_t)0xB4 << 56));
        void* next = calloc(1, lengths[i]);
        CHECK(next != NULL && malloc_usable_size(next) >= lengths[i]);
        free(next);
    }
}
#endif

TEST_DIES(a_second_free_of_a_large_block_is_detected, SIGABRT,
          "keel: free of a block that is not allocated (double or invalid free): 0x") {
    void* p = malloc(700000);
    free(p);
    free(p);
}

TEST_DIES(a_free_inside_a_large_block_is_detected, SIGABRT,
          "keel: free of an address inside a block: 0x") {
    char* p = malloc(700000);
    free(p + 16);
}

TEST_DIES(a_free_inside_a_huge_block_is_detected, SIGABRT,
          "keel: free of an address inside a block: 0x") {
    char* p = malloc(100u * MIB);
    free(p + 2048); // in the same slice: other addresses of a mapping are in no table
}

// The frees of a full page do not take the fast path, so they are checked.
TEST_DIES(a_free_inside_a_block_of_a_full_page_is_detected, SIGABRT,
          "keel: free of an address inside a block: 0x") {
    char* first = malloc(100);
    for (int i = 0; i < 2000; i++) CHECK(malloc(100) != NULL);
    free(first + 16);
}

// The second half of a page of large blocks, of which one is allocated.
TEST_DIES(a_free_of_a_block_that_never_was_is_detected, SIGABRT,
          "keel: free of an address inside a block: 0x") {
    char* p = NULL; // the first block of a page of 256 KiB: the pages before it are smaller
    for (int i = 0; i < 10; i++) {
        char* block = malloc(20000);
        if ((uintptr_t)block % 65536 == 0) p = block;
    }
    free(p + 11 * malloc_usable_size(p));
}
