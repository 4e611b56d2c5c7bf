// keel/arena.h: memory given by the program, reserved memory, huge pages; and limits of heaps.
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <keel/arena.h>
#include <keel/heap.h>
#include <keel/runtime.h>
#include <keel/statistics.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLICE = 64 * KIB, ARENA = 32 * MIB };

static char* map(size_t bytes) {
    char* start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    return start;
}

static bool is_within(const void* block, const char* start, size_t bytes) {
    return (const char*)block >= start && (const char*)block < start + bytes;
}

static size_t used_of(kl_arena_t* arena) {
    struct kl_arena_state info;
    kl_arena_info(arena, &info);
    CHECK(info.used_bytes <= info.bytes);
    return info.used_bytes;
}

TEST(a_heap_in_an_arena_stays_in_it) {
    char* memory = map(ARENA);
    kl_arena_t* arena =
        kl_manage_os_memory(memory, ARENA, kl_memory_zero | kl_memory_exclusive, KL_ANY_NUMA_NODE);
    CHECK(arena != NULL);
    kl_heap_t* heap = kl_heap_new_in_arena(arena);
    struct random random = {7};
    static char* blocks[3000];
    for (size_t i = 0; i < 3000; i++) {
        size_t size = random_size(&random, i % 500 == 0 ? MIB : 5000);
        blocks[i] = i % 3 == 0 ? kl_heap_zalloc(heap, size) : kl_heap_malloc(heap, size);
        CHECK_WITH(blocks[i] != NULL && is_within(blocks[i], memory, ARENA), "%zu: %zu", i, size);
        CHECK(i % 3 != 0 || is_zero(blocks[i], size));
        CHECK(kl_heap_contains(heap, blocks[i]));
        pattern_fill(blocks[i], size, i);
        if (i % 2 == 0) {
            kl_free(blocks[i]);
            blocks[i] = NULL;
        }
    }
    CHECK(!is_within(kl_malloc(100), memory, ARENA) && !is_within(kl_malloc(MIB), memory, ARENA));
    random = (struct random){7};
    for (size_t i = 0; i < 3000; i++) {
        size_t size = random_size(&random, i % 500 == 0 ? MIB : 5000);
        CHECK(blocks[i] == NULL || pattern_holds(blocks[i], size, size, i));
    }
    errno = 0;
    CHECK(!kl_arena_release(arena) && errno == EBUSY);
    kl_heap_destroy(heap);
    CHECK_EQUAL(used_of(arena), 0);
    CHECK(kl_arena_release(arena));
    memset(memory, 0, ARENA);
    CHECK(munmap(memory, ARENA) == 0);
}

// Around an address that is a multiple of 4 GiB, where another table of metadata begins.
TEST(an_arena_across_a_boundary_of_4_gibibytes_is_usable) {
    char* memory = MAP_FAILED;
    uintptr_t boundary = UINT64_C(0x1a00) << 32;
    for (unsigned i = 0; memory == MAP_FAILED && i < 64; i++, boundary += UINT64_C(1) << 32)
        memory = mmap((char*)boundary - ARENA / 2, ARENA, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(memory != MAP_FAILED);
    kl_arena_t* arena =
        kl_manage_os_memory(memory, ARENA, kl_memory_zero | kl_memory_exclusive, KL_ANY_NUMA_NODE);
    CHECK(arena != NULL);
    static const size_t sizes[] = {9000, 20000, 40000, 65536, 100000};
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        kl_heap_t* heap = kl_heap_new_in_arena(arena);
        char* last = NULL;
        size_t count = 0;
        size_t behind = 0;
        for (char* block; (block = kl_heap_malloc(heap, sizes[s])) != NULL; count++, last = block) {
            memset(block, (int)s + 1, sizes[s]);
            behind += (block - memory) >= ARENA / 2;
            CHECK(kl_heap_contains(heap, block) && kl_usable_size(block) >= sizes[s]);
        }
        CHECK(count * sizes[s] > ARENA / 4 && behind > 0);
        for (size_t i = 0; i < sizes[s]; i++) CHECK(last[i] == (char)(s + 1));
        kl_heap_destroy(heap);
        CHECK_EQUAL(used_of(arena), 0);
    }
    CHECK(kl_arena_release(arena));
    CHECK(munmap(memory, ARENA) == 0);
}

TEST(a_full_arena_fails_and_is_usable_again_after_frees) {
    char* memory = map(ARENA);
    kl_arena_t* arena = kl_manage_os_memory(memory, ARENA, kl_memory_exclusive, KL_ANY_NUMA_NODE);
    kl_heap_t* heap = kl_heap_new_in_arena(arena);
    static void* blocks[ARENA / 1000];
    for (int round = 0; round < 3; round++) {
        size_t count = 0;
        errno = 0;
        while ((blocks[count] = kl_heap_malloc(heap, 1000)) != NULL) count++;
        CHECK(errno == ENOMEM && kl_heap_malloc(heap, MIB) == NULL);
        CHECK_WITH(count > ARENA / 1024 * 95 / 100, "%zu blocks", count);
        for (size_t i = 0; i < count; i++) kl_free(blocks[i]);
        void* large = kl_heap_aligned_alloc(heap, MIB, 24u * MIB);
        CHECK(large != NULL && is_aligned(large, MIB) && is_within(large, memory, ARENA));
        kl_free(large);
    }
    kl_heap_delete(heap);
    CHECK(kl_arena_release(arena));
}

TEST(unaligned_ranges_are_used_in_slices_and_calloc_clears_what_is_not_zero) {
    enum { BYTES = 8 * MIB };
    char* memory = map(BYTES);
    memset(memory, 0xaa, BYTES);
    kl_arena_t* arena =
        kl_manage_os_memory(memory + 100, BYTES - 200, kl_memory_exclusive, KL_ANY_NUMA_NODE);
    struct kl_arena_state info;
    kl_arena_info(arena, &info);
    CHECK(is_aligned(info.start, SLICE) && info.bytes % SLICE == 0 &&
          info.bytes >= BYTES - 3 * SLICE);
    CHECK((char*)info.start >= memory + 100 &&
          (char*)info.start + info.bytes <= memory + BYTES - 100);
    CHECK(info.exclusive && info.numa_node == KL_ANY_NUMA_NODE && info.bound_heaps == 0);
    kl_heap_t* heap = kl_heap_new_in_arena(arena);
    for (size_t size = 8; size < 300000; size *= 2)
        CHECK(is_zero(kl_heap_zalloc(heap, size), size));
    for (int i = 0; i < 100; i++)
        CHECK(memory[i] == (char)0xaa && memory[BYTES - 1 - i] == (char)0xaa);
    kl_heap_destroy(heap);
    CHECK(kl_arena_release(arena));
}

TEST(invalid_arenas_are_rejected) {
    char* memory = map(4u * MIB);
    errno = 0;
    CHECK(kl_manage_os_memory(memory, SLICE / 2, 0, 0) == NULL && errno == EINVAL);
    CHECK(kl_manage_os_memory(NULL, MIB, 0, 0) == NULL);
    CHECK(kl_manage_os_memory((void*)(UINTPTR_MAX - MIB), MIB, 0, 0) == NULL);
    CHECK(kl_manage_os_memory(memory, SIZE_MAX, 0, 0) == NULL);
    void* own = kl_malloc(3u * MIB);
    errno = 0;
    CHECK(kl_manage_os_memory(own, 3u * MIB, 0, 0) == NULL && errno == EINVAL);
    kl_arena_t* arena = kl_manage_os_memory(memory, 2u * MIB, kl_memory_exclusive, 0);
    CHECK(arena != NULL);
    CHECK(kl_manage_os_memory(memory + MIB, 3u * MIB, 0, 0) == NULL);
    CHECK(kl_arena_release(arena));
    CHECK((arena = kl_manage_os_memory(memory + MIB, 3u * MIB, 0, 0)) != NULL);
    CHECK(kl_reserve_os_memory(0, 0) == NULL && errno == EINVAL);
    errno = 0;
    CHECK(kl_heap_new_in_arena(NULL) == NULL && errno == EINVAL);
    CHECK(kl_reserve_os_memory(SIZE_MAX / 2, 0) == NULL && errno == ENOMEM);
}

TEST(at_most_sixty_four_arenas_exist) {
    kl_arena_t* arenas[64];
    char* memory = map(65u * MIB);
    for (size_t i = 0; i < 64; i++) {
        arenas[i] = kl_manage_os_memory(memory + i * MIB, MIB, kl_memory_exclusive, -1);
        CHECK(arenas[i] != NULL);
    }
    errno = 0;
    CHECK(kl_manage_os_memory(memory + 64u * MIB, MIB, 0, -1) == NULL && errno == ENOSPC);
    CHECK(kl_arena_release(arenas[20]));
    CHECK(kl_manage_os_memory(memory + 64u * MIB, MIB, 0, -1) == arenas[20]);
    for (size_t i = 0; i < 64; i++) CHECK(kl_arena_release(arenas[i]));
}

TEST(an_arena_that_is_not_exclusive_is_used_before_the_system) {
    kl_arena_t* arena = kl_reserve_os_memory(8u * MIB, 0);
    struct kl_arena_state info;
    kl_arena_info(arena, &info);
    CHECK_EQUAL(info.bytes, 8u * MIB);
    char* large = kl_malloc(3u * MIB);
    CHECK(is_within(large, info.start, info.bytes));
    static char* blocks[20000];
    size_t within = 0;
    for (size_t i = 0; i < 20000; i++) {
        blocks[i] = kl_calloc(1, 1000);
        CHECK(blocks[i] != NULL && is_zero(blocks[i], 1000));
        memset(blocks[i], 1, 1000);
        within += is_within(blocks[i], info.start, info.bytes);
    }
    CHECK_WITH(within > 4000 && within < 6000, "%zu", within);
    CHECK(!is_within(kl_malloc(80u * MIB), info.start, info.bytes));
    large = kl_realloc(large, 5u * MIB);
    CHECK(large != NULL);
    kl_free(large);
    for (size_t i = 0; i < 20000; i++) kl_free(blocks[i]);
    kl_collect(true);
    CHECK_EQUAL(used_of(arena), 0);
    CHECK(kl_arena_release(arena));
    blocks[0] = kl_malloc(3u * MIB);
    memset(blocks[0], 2, 3u * MIB);
}

TEST(a_block_above_64_mebibytes_can_be_in_an_arena) {
    kl_arena_t* arena = kl_reserve_os_memory(256u * MIB, 0);
    struct kl_arena_state info;
    kl_arena_info(arena, &info);
    char* block = kl_malloc(100u * MIB);
    CHECK(is_within(block, info.start, info.bytes));
    block[0] = block[100u * MIB - 1] = 1;
    block = kl_realloc(block, 90u * MIB);
    CHECK(block[0] == 1 && kl_usable_size(block) >= 90u * MIB);
    char* aligned = kl_aligned_alloc(8u * MIB, 70u * MIB);
    CHECK(is_aligned(aligned, 8u * MIB) && is_within(aligned, info.start, info.bytes));
    kl_free(aligned);
    kl_free(block);
    CHECK_EQUAL(used_of(arena), 0);
    CHECK(kl_arena_release(arena));
}

TEST(reserved_memory_is_populated_on_request) {
    size_t before = resident_bytes();
    kl_arena_t* cold = kl_reserve_os_memory(16u * MIB, kl_memory_exclusive);
    CHECK(cold != NULL && resident_bytes() < before + 2u * MIB);
    kl_arena_t* there = kl_reserve_os_memory(16u * MIB, kl_memory_exclusive | kl_memory_populated);
    CHECK(there != NULL);
    CHECK(resident_bytes() >= before + 15u * MIB);
    CHECK(kl_arena_release(there) && kl_arena_release(cold));
    CHECK(resident_bytes() < before + 2u * MIB);
}

// Most machines have set none aside; then nothing must have changed.
TEST(huge_pages_are_reserved_or_the_call_fails_cleanly) {
    (void)kl_malloc(1);
    errno = 0;
    size_t maps = map_count();
    int result = kl_reserve_huge_os_pages_at(1, 0, 2000);
    CHECK(result == 0 || result == ENOMEM || result == ETIMEDOUT);
    CHECK(errno == 0 && (result == 0 || map_count() <= maps + 1));
    result = kl_reserve_huge_os_pages_interleave(2, 0, 2000);
    CHECK(result == 0 || result == ENOMEM || result == ETIMEDOUT);
    CHECK_EQUAL(kl_reserve_huge_os_pages_interleave(0, 0, 0), 0);
    CHECK_EQUAL(kl_reserve_huge_os_pages_at(1, 100000, 0), EINVAL);
    CHECK_EQUAL(kl_reserve_huge_os_pages_interleave(1, 100000, 0), EINVAL);
    kl_arena_t* arena = kl_reserve_os_memory(4u * MIB, kl_memory_large_pages);
    CHECK(arena != NULL); // in ordinary pages if necessary
    CHECK(kl_malloc(100) != NULL);
    CHECK(kl_numa_nodes() >= 1);
    kl_option_set(kl_option_use_numa_nodes, 3);
    CHECK_EQUAL(kl_numa_nodes(), 3);
}

TEST(the_threads_own_node_is_preferred_and_other_nodes_are_used) {
    kl_option_set(kl_option_use_numa_nodes, 1000);
    char* memory = map(4u * MIB);
    kl_arena_t* far = kl_manage_os_memory(memory, 2u * MIB, 0, 999);
    kl_arena_t* near = kl_manage_os_memory(memory + 2u * MIB, 2u * MIB, 0, -1);
    CHECK(is_within(kl_malloc(MIB), memory + 2u * MIB, 2u * MIB));
    CHECK(is_within(kl_malloc(MIB + 400000), memory, 2u * MIB));
    CHECK(used_of(far) > MIB && used_of(near) >= MIB);
}

TEST(an_invalid_free_in_an_arena_is_distinguished_from_a_foreign_one) {
    char* memory = map(ARENA);
    kl_arena_t* arena = kl_manage_os_memory(memory, ARENA, 0, -1);
    CHECK(arena != NULL && !kl_contains(memory + 20u * MIB));
    pid_t child = fork();
    if (child == 0) {
        kl_free(memory + 20u * MIB);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
          WTERMSIG(status) == SIGABRT);
}

static kl_heap_t* shared_heap;
static void* allocates_and_frees(void* seed) {
    struct random random = {(uintptr_t)seed};
    char* blocks[64] = {0};
    for (size_t i = 0; i < 20000; i++) {
        size_t place = random_below(&random, 64);
        kl_free(blocks[place]);
        size_t size = random_size(&random, 20000);
        blocks[place] = i % 2 == 0 ? kl_heap_malloc(shared_heap, size) : kl_malloc(size);
        if (blocks[place] != NULL) blocks[place][0] = blocks[place][size - 1] = 1;
    }
    for (size_t i = 0; i < 64; i++) kl_free(blocks[i]);
    kl_thread_done();
    return NULL;
}

TEST(threads_share_arenas) {
    kl_arena_t* own = kl_reserve_os_memory(16u * MIB, kl_memory_exclusive);
    kl_arena_t* all = kl_reserve_os_memory(6u * MIB, 0);
    shared_heap = kl_heap_new_in_arena(own);
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, allocates_and_frees, (void*)(i + 1)) == 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            CHECK(kl_heap_malloc(shared_heap, 100) != NULL && kl_malloc(MIB) != NULL);
            _exit(0);
        }
        CHECK_CHILD(child);
    }
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    kl_heap_destroy(shared_heap);
    CHECK_EQUAL(used_of(own), 0);
    // The keeper may be working on a heap of an ended thread; kl_collect then skips that heap.
    for (int waited = 0; waited < 60000; waited += 10) {
        kl_collect(true);
        if (used_of(all) < MIB) break;
        sleep_ms(10);
    }
    CHECK(used_of(all) < MIB); // Keel's own tables
    CHECK(kl_arena_release(own));
}

static void* frees_until(void* ends) {
    while (atomic_load((atomic_bool*)ends) == false) kl_free(kl_malloc(1000));
    return NULL;
}

// In the debug flavour another thread may just be returning a block that was in the arena.
TEST(an_arena_is_released_while_others_free) {
    enum { TURNS = 2000, BLOCKS = 20 };
    static atomic_bool ends;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, frees_until, &ends) == 0);
    for (int turn = 0; turn < TURNS; turn++) {
        void* blocks[BLOCKS];
        kl_arena_t* arena = kl_reserve_os_memory(4 * MIB, kl_memory_exclusive);
        kl_heap_t* heap = kl_heap_new_in_arena(arena);
        for (int i = 0; i < BLOCKS; i++) CHECK((blocks[i] = kl_heap_malloc(heap, 1000)) != NULL);
        kl_heap_delete(heap);
        for (int i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
        CHECK_WITH(kl_arena_release(arena), "turn %d", turn);
    }
    atomic_store(&ends, true);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static int asked;
static bool count_call(size_t size, void* argument) {
    CHECK(size != 0 && argument == &asked);
    asked++;
    return false;
}

TEST(a_heap_stays_within_its_limit) {
    kl_heap_t* heap = kl_heap_new_with_limit(4u * MIB);
    kl_register_out_of_memory(count_call, &asked);
    static void* blocks[10000];
    for (int round = 0; round < 3; round++) {
        size_t count = 0;
        asked = 0;
        errno = 0;
        while ((blocks[count] = kl_heap_malloc(heap, 1000)) != NULL) count++;
        CHECK(errno == ENOMEM && asked == 1);
        CHECK_WITH(count > 3900 && count <= 4096, "%zu", count);
        CHECK(kl_heap_malloc(heap, 100000) == NULL && kl_malloc(1000) != NULL);
        for (size_t i = 0; i < count; i++) kl_free(blocks[i]);
        void* large = kl_heap_malloc(heap, 3u * MIB);
        CHECK(large != NULL && kl_heap_malloc(heap, 2u * MIB) == NULL);
        CHECK(kl_heap_realloc(heap, large, 5u * MIB) == NULL);
        kl_free(large);
    }
    CHECK_EQUAL(kl_heap_limit(heap, 0), 4u * MIB);
    blocks[0] = kl_heap_malloc(heap, 20u * MIB);
    CHECK(blocks[0] != NULL && kl_heap_limit(heap, MIB) == 0);
    CHECK(kl_heap_malloc(heap, 100000) == NULL);
    kl_free(blocks[0]);
    CHECK(kl_heap_malloc(heap, 100000) != NULL);
    CHECK_EQUAL(kl_heap_limit(kl_heap_backing(), MIB), 0);
    CHECK(kl_malloc(2u * MIB) != NULL);
    kl_heap_destroy(heap);
    heap = kl_heap_new(); // possibly reuses the struct of the previous heap
    CHECK(kl_heap_malloc(heap, 8u * MIB) != NULL);
}

// The next page of the class would have four slices. Secure and debug add to blocks.
TEST(a_limit_is_filled_by_shorter_pages) {
    if (KEEL_SECURE || KEEL_DEBUG) return;
    kl_heap_t* heap = kl_heap_new_with_limit(256u * KIB);
    unsigned count = 0;
    while (kl_heap_malloc(heap, 64u * KIB) != NULL) count++;
    CHECK_EQUAL(count, 4u);
    kl_heap_destroy(heap);
}

TEST(the_limit_of_the_process_includes_arenas) {
    kl_arena_t* arena = kl_reserve_os_memory(64u * MIB, kl_memory_exclusive);
    kl_heap_t* heap = kl_heap_new_in_arena(arena);
    kl_limit(16u * MIB);
    CHECK(kl_heap_malloc(heap, 12u * MIB) != NULL);
    CHECK(kl_heap_malloc(heap, 8u * MIB) == NULL && kl_malloc(8u * MIB) == NULL);
    struct kl_process process;
    kl_process_info(&process);
    CHECK(process.held_bytes >= 12u * MIB && process.held_bytes <= 16u * MIB);
}

static void* begins_and_ends(void* argument) {
    CHECK(kl_thread_init());
    void* block = kl_malloc(100);
    kl_thread_done();
    kl_free(block);
    kl_free(kl_malloc(100));
    kl_thread_done();
    kl_thread_done();
    struct kl_thread info;
    kl_thread_info(&info);
    CHECK(info.pages == 0);
    CHECK(kl_thread_init());
    kl_free(kl_malloc(100));
    kl_thread_info(&info);
    CHECK(info.pages > 0);
    kl_thread_done();
    return argument;
}

TEST(a_threads_heap_can_be_created_and_released_by_call) {
    kl_process_init();
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, begins_and_ends, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}
