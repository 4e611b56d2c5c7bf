// A block that grows by steps is hardly ever copied: it extends into the memory behind it, and
// where that is another's, its page tables move instead of its content.
#include "allocator/large/jumbo.h"
#include "allocator/large/large.h"
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "allocator/warm/fill.h"
#include "allocator/warm/mapping_cache.h"
#include "allocator/warm/policy.h"
#include "base/bits.h"
#include "base/counters.h"
#include "base/options.h"
#include "check.h"
#include "keel/arena.h"
#include "keel/keel.h"
#include "os/memory.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static uint64_t event(enum event which) {
    return event_total(which);
}

// A byte in every 64 KiB identifies it.
static void mark(unsigned char* block, size_t from, size_t end) {
    for (size_t at = from; at < end; at += 65536) block[at] = (unsigned char)(at / 65536 * 7 + 1);
}
static bool is_marked(const unsigned char* block, size_t end) {
    for (size_t at = 0; at < end; at += 65536) {
        if (block[at] != (unsigned char)(at / 65536 * 7 + 1)) return false;
    }
    return true;
}

// Some steps copy the block to another run; what moves page tables makes a mapping at most once.
static void test_steps(size_t from, size_t step, size_t end, unsigned copies_max) {
    unsigned copies = 0;
    uint64_t mappings = event(EVENT_JUMBO_ALLOCATED);
    unsigned char* block = kl_malloc(from);
    CHECK(block != NULL);
    mark(block, 0, from);
    for (size_t size = from; size < end; size += step) {
        unsigned char* before = block;
        block = kl_realloc(block, size + step);
        CHECK(block != NULL && is_marked(block, size));
        copies += block != before && (atomic_get(&page_of(block)->owner) & PAGE_JUMBO) == 0;
        mark(block, size, size + step);
    }
    CHECK(copies <= copies_max);
    CHECK(event(EVENT_JUMBO_ALLOCATED) <= mappings + 1);
    kl_free(block);
    CHECK(run_check());
}

// Several that grow in turn, each into the others' way, move ever more seldom: a new place has room
// behind it where there is such a one. Without that there are half as many moves again.
static void test_in_turn(void) {
    enum { BLOCKS = 4, STEPS = 50, STEP = 65536, MOVES_MAX = 32 };
    unsigned char* block[BLOCKS] = {NULL};
    unsigned moves = 0;
    for (size_t size = 2 * STEP; size <= (size_t)STEPS * STEP; size += STEP) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            unsigned char* grown = kl_realloc(block[i], size);
            CHECK(grown != NULL && (block[i] == NULL || is_marked(grown, size - STEP)));
            moves += block[i] != NULL && grown != block[i];
            block[i] = grown;
            mark(grown, 0, size);
        }
    }
    CHECK(moves <= MOVES_MAX);
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(block[i]);
    CHECK(run_check());
}

// A string that grows by small steps is not copied at each: each time it gets a quarter more.
static void test_small_steps(void) {
    enum { STEP = 512, START = 4096, END = 60000, COPIES_MAX = 12, BLOCKS = 4 };
    char* block[BLOCKS];
    unsigned copies = 0;
    for (unsigned i = 0; i < BLOCKS; i++) CHECK((block[i] = kl_malloc(START)) != NULL);
    for (size_t size = START; size <= END; size += STEP) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            char* grown = kl_realloc(block[i], size);
            CHECK(grown != NULL);
            copies += grown != block[i];
            block[i] = grown;
        }
    }
    CHECK(copies <= BLOCKS * COPIES_MAX);
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(block[i]);
}

// A block that grows once by a little gets a quarter more, however many there are.
static void test_one_step(void) {
    enum { BLOCKS = 100, BYTES = 1000 };
    char* block[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        block[i] = kl_realloc(kl_malloc(BYTES), BYTES + 30);
        CHECK(block[i] != NULL && kl_usable_size(block[i]) <= BYTES + BYTES / 2);
    }
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(block[i]);
}

static bool occupies_memory(void* start, size_t bytes) {
    static unsigned char pages[4096];
    CHECK(bytes / 4096 <= sizeof pages && mincore(start, bytes, pages) == 0); // mapped, all of it
    for (size_t i = 0; i < bytes / 4096; i++) {
        if ((pages[i] & 1) != 0) return true;
    }
    return false;
}

// What a block has left is free: sooner or later another block is there, and it is all zero.
static void check_zero_again(const char* left, size_t bytes) {
    enum { OTHERS = 64 };
    static char* others[OTHERS];
    unsigned other = 0;
    do {
        others[other] = kl_calloc(1, bytes);
        CHECK(others[other] != NULL);
    } while (others[other] != left && ++other < OTHERS);
    CHECK(other < OTHERS);
    for (size_t at = 0; at < bytes; at++) CHECK(left[at] == 0);
    for (unsigned i = 0; i <= other; i++) kl_free(others[i]);
}

static char* neighbours[64];
static unsigned neighbour_count;

// A block of 2 MiB that cannot grow where it is: a neighbour is behind it.
static unsigned char* block_with_neighbour(void) {
    unsigned char* block = kl_malloc(2 * MIB);
    char* neighbour = NULL;
    CHECK(block != NULL);
    mark(block, 0, 2 * MIB);
    for (neighbour_count = 0; neighbour != (char*)block + 2 * MIB; neighbour_count++) {
        CHECK(neighbour_count < sizeof neighbours / sizeof *neighbours);
        neighbours[neighbour_count] = neighbour = kl_malloc(2 * MIB);
        CHECK(neighbour != NULL);
    }
    return block;
}
static void free_neighbours(void) {
    while (neighbour_count > 0) kl_free(neighbours[--neighbour_count]);
}

// It leaves its slices, and its memory with it.
static void test_neighbours(void) {
    kl_collect(true); // no warm mapping to move to
    fill_forget();    // the marks of earlier blocks may have looked like filled blocks
    unsigned char* block = block_with_neighbour();
    uint64_t mappings = event(EVENT_JUMBO_ALLOCATED);
    uint64_t remaps = event(EVENT_REMAP);
    size_t live = run_live_slices();
    unsigned char* grown = kl_realloc(block, 16 * MIB);
    CHECK(grown != NULL && grown != block && is_marked(grown, 2 * MIB));
    CHECK(event(EVENT_JUMBO_ALLOCATED) == mappings + 1);
    CHECK(run_live_slices() == live - 2 * MIB / SLICE_BYTES && jumbo_live_bytes() == 16 * MIB);
    CHECK(kl_usable_size(grown) == 16 * MIB && run_check());
    CHECK(event(EVENT_REMAP) == remaps + 2); // there, and to its new length
    for (size_t at = 2 * MIB; at < 16 * MIB; at += 4096) CHECK(grown[at] == 0);
    CHECK(!occupies_memory(block, 2 * MIB));
    check_zero_again((char*)block, 2 * MIB);
    kl_free(grown);
    free_neighbours();
    CHECK(run_check() && jumbo_live_bytes() == 0);
}

static size_t pages_in(void* start, size_t bytes) {
    size_t pages = 0;
    for (size_t at = 0; at < bytes; at += SLICE_BYTES)
        pages += occupies_memory((char*)start + at, SLICE_BYTES);
    return pages;
}

// A block that is touched here and there stays so when it grows beside a freed mapping that is
// large enough: a copy would make all of it resident. From slices, and as a mapping.
static void test_sparse_block_grows(void) {
    mapping_cache_clear();
    fill_forget();
    char* block = kl_malloc(2 * MIB);
    char* behind = kl_malloc(2 * MIB);
    char* cached = kl_malloc(256 * MIB);
    char* last = kl_malloc(8 * MIB);
    CHECK(block != NULL && behind != NULL && cached != NULL && last != NULL);
    block[0] = 1;
    kl_free(cached);
    for (size_t bytes = 8 * MIB; bytes <= 128 * MIB; bytes *= 2) {
        CHECK(mapping_cache_has(bytes));
        block = kl_realloc(block, bytes);
        CHECK(block != NULL && block[0] == 1 && page_of(block)->sparse == 1);
        CHECK(pages_in(block, bytes) == 1);
    }
    kl_free(block);
    kl_free(behind);
    kl_free(last);
    mapping_cache_clear();
}

// Where the system sees two mappings in a block, it does not move them; then the block is copied,
// and no slice is lost, nor counted as touched that is not.
static void test_two_mappings(void) {
    unsigned char* block = kl_malloc(2 * MIB);
    CHECK(block != NULL);
    mark(block, 0, 2 * MIB);
    // A fork is not what this is about: it only makes the range two mappings.
    CHECK(madvise(block, MIB, MADV_DONTFORK) == 0);
    unsigned char* grown = kl_realloc(block, 100 * MIB); // more than slices can be
    CHECK(grown != NULL && is_marked(grown, 2 * MIB) && run_check());
    CHECK(madvise(block, MIB, MADV_DOFORK) == 0); // its addresses, which are free slices now
    kl_free(grown);
    CHECK(run_check());
}

static char* reserve(size_t bytes) {
    return mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// Between two holes that fit the block once but not twice, put at their ends, it would go back and
// forth at every step.
static void test_room_in_address_space(void) {
    const size_t hole = 136 * MIB, between = 2 * MIB;
    char* reserved = reserve(2 * hole + 3 * between);
    CHECK(reserved != MAP_FAILED);
    CHECK(munmap(reserved + between, hole) == 0);
    CHECK(munmap(reserved + hole + 2 * between, hole) == 0);
    unsigned moves = 0;
    char* block = kl_malloc(66 * MIB);
    for (size_t size = 67 * MIB; size <= 128 * MIB; size += MIB) {
        char* grown = kl_realloc(block, size);
        CHECK(grown != NULL);
        moves += grown != block;
        block = grown;
    }
    CHECK(moves <= 4); // each leaves room for half as much again
    kl_free(block);
    // Not the holes: what has come to lie there meanwhile is somebody's.
    for (unsigned i = 0; i < 3; i++) CHECK(munmap(reserved + i * (hole + between), between) == 0);
}

// Bytes of it in use, a sanitizer's shadow included.
static rlim_t address_space(void) {
    unsigned long long pages = 0;
    FILE* file = fopen("/proc/self/statm", "re");
    CHECK(file != NULL && fscanf(file, "%llu", &pages) == 1);
    (void)fclose(file);
    return (rlim_t)pages * os_page_bytes();
}

// An arena of the program's that ends where slices of Keel's begin: its last block does not grow
// into them. Without address space for a whole window those are in pieces, and an arena may lie
// between.
static void test_end_of_an_arena(void) {
    rlim_t most = address_space() + ((rlim_t)2 << 30);
    struct rlimit limit = {.rlim_cur = most, .rlim_max = most};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    // The first block of a piece, unless what describes a window has come to lie below that; then a
    // later one.
    char* above = NULL;
    char* arena = MAP_FAILED;
    for (unsigned i = 0; i < 40 && arena == MAP_FAILED; i++) {
        CHECK((above = kl_malloc(3 * MIB)) != NULL);
        arena = mmap(above - 8 * MIB, 8 * MIB, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    }
    CHECK(arena != MAP_FAILED);
    kl_free(above);
    CHECK(kl_manage_os_memory(arena, 8 * MIB, 0, KL_ANY_NUMA_NODE) != NULL);
    char* last = NULL;
    for (unsigned i = 0; i < 8; i++) {
        char* block = kl_malloc(MIB);
        CHECK(block >= arena && block < arena + 8 * MIB);
        if (block == arena + 7 * MIB) last = block;
    }
    CHECK(last != NULL);
    memset(last, 7, MIB);
    char* grown = kl_realloc(last, MIB + 65536);
    CHECK(grown != NULL && grown != last && grown[MIB - 1] == 7);
    kl_free(grown);
    CHECK(run_check());
}

// From now on mremap fails if its flags meet the condition, a BPF jump. An emulator may refuse it.
static void refuse_remaps(uint16_t jump, uint32_t flags, uint32_t error) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
        BPF_JUMP((uint16_t)(BPF_JMP | jump | BPF_K), flags, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    (void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

// A block has moved, but then has no room there: its content goes back, into memory that the block
// did not have, and nothing may be taken for zero.
static void test_refused_extension(void) {
    unsigned char* block = block_with_neighbour();
    unsigned char* mapped = kl_malloc(70 * MIB);
    CHECK(mapped != NULL);
    memset(block, 5, 2 * MIB);
    mark(mapped, 0, 70 * MIB);
    uint64_t mappings = event(EVENT_JUMBO_ALLOCATED);
    refuse_remaps(BPF_JEQ, 0, ENOMEM);
    unsigned char* grown = kl_realloc(block, 12 * MIB);
    CHECK(grown != NULL && grown != block && event(EVENT_JUMBO_ALLOCATED) == mappings + 1);
    for (size_t at = 0; at < 2 * MIB; at++) CHECK(grown[at] == 5);
    for (size_t at = 2 * MIB; at < 12 * MIB; at += 512) CHECK(grown[at] == 0);
    check_zero_again((char*)block, 2 * MIB);
    mapped = kl_realloc(mapped, 80 * MIB);
    CHECK(mapped != NULL && is_marked(mapped, 70 * MIB));
    for (size_t at = 70 * MIB; at < 80 * MIB; at += 512) CHECK(mapped[at] == 0);
    kl_free(grown);
    kl_free(mapped);
    free_neighbours();
    CHECK(jumbo_live_bytes() == 0 && run_check() && policy_check());
}

// The room for a block ends a little above the beginning of a window, and nothing describes that
// window nor the one below: what describes them displaces the place from one into the other. It
// must not come to lie behind the block.
static void test_edge_of_a_window(void) {
    const size_t below = 64 * MIB, above = 24 * MIB;
    unsigned char* block = block_with_neighbour();
    char* reserved = reserve(2 * WINDOW_BYTES + below);
    if (reserved == MAP_FAILED) {
        puts("skip: the system has not so much address space");
        return;
    }
    char* edge = (char*)round_up((uintptr_t)reserved + below, WINDOW_BYTES);
    CHECK(window_find(edge) == NULL && window_find(edge - below) == NULL);
    CHECK(munmap(edge - below, below + above) == 0);
    char* other = reserve(above / 2);
    while (other >= edge + above) other = reserve(above / 2); // no room above
    CHECK(other >= edge && munmap(other, above / 2) == 0);
    uint64_t remaps = event(EVENT_REMAP);
    char* grown = kl_realloc(block, 12 * MIB);
    CHECK(grown >= edge - below && grown < edge); // else this tests nothing
    CHECK(window_find(edge) != NULL);
    CHECK(event(EVENT_REMAP) == remaps + 2 && !occupies_memory(block, 2 * MIB));
    CHECK(is_marked((unsigned char*)grown, 2 * MIB));
    kl_free(grown);
    free_neighbours();
    CHECK(jumbo_live_bytes() == 0 && run_check());
}

// As before Linux 5.7: a block that must move is copied, to a place with room behind it.
static void test_old_system(void) {
    refuse_remaps(BPF_JSET, 4, EINVAL); // MREMAP_DONTUNMAP, which an emulator has not either
    unsigned char* block = kl_malloc(70 * MIB);
    mark(block, 0, 70 * MIB);
    for (size_t size = 70 * MIB; size < 100 * MIB; size += 5 * MIB) {
        char* in_the_way = mmap(block + size, 65536, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        unsigned char* grown = kl_realloc(block, size + 5 * MIB);
        CHECK(grown != NULL && is_marked(grown, size));
        CHECK(in_the_way == MAP_FAILED || grown != block);
        block = grown;
        mark(block, size, size + 5 * MIB);
    }
    test_steps(4 * MIB, MIB, 80 * MIB, 64);
    kl_free(block);
    CHECK(jumbo_live_bytes() == 0 && run_check());
}

// Sizes that no process can have fail at once: no system call, and the reserve stays warm.
static void test_impossible_sizes(void) {
    unsigned char* block = kl_malloc(70 * MIB);
    mark(block, 0, MIB);
    void* slices[32];
    for (unsigned i = 0; i < 32; i++) slices[i] = memset(kl_malloc(65536), 1, 65536);
    for (unsigned i = 0; i < 32; i++) kl_free(slices[i]);
    size_t dirty = run_dirty_slices();
    uint64_t calls = event_total(EVENT_INLINE_CALLS);
    CHECK(dirty >= 16);
    for (unsigned shift = 47; shift < 64; shift++) {
        size_t size = (size_t)1 << shift;
        CHECK(kl_malloc(size) == NULL && kl_calloc(1, size) == NULL);
        CHECK(kl_aligned_alloc(128, size) == NULL && kl_realloc(block, size) == NULL);
    }
    CHECK(event_total(EVENT_INLINE_CALLS) == calls);
    CHECK(run_dirty_slices() == dirty);
    CHECK(is_marked(block, MIB));
    kl_free(block);
}

// An address that is a window's length behind the beginning of its block.
static void test_block_of_two_windows(void) {
    char* block = kl_malloc((size_t)9 << (WINDOW_SHIFT - 3));
    if (block == NULL) {
        puts("skip: the system has not so much address space");
        return;
    }
    CHECK(large_contains(block + ((size_t)1 << WINDOW_SHIFT)));
    CHECK(large_contains(block + SLICE_BYTES));
    kl_free(block);
    CHECK(!large_contains(block + SLICE_BYTES));
}

enum { ELASTIC_BYTES = 8192, ELASTIC_SMALL = 512 };

// A block that shrinks to less than half is copied to a smaller one.
static void test_shrinking_blocks(void) {
    for (unsigned i = 0; i < 2000; i++) {
        unsigned char* block = kl_malloc(ELASTIC_BYTES);
        CHECK(block != NULL);
        mark(block, 0, ELASTIC_BYTES);
        block = kl_realloc(block, ELASTIC_SMALL);
        CHECK(block != NULL && is_marked(block, ELASTIC_SMALL));
        CHECK(kl_usable_size(block) < ELASTIC_BYTES / 2);
        kl_free(block);
    }
}

// In a process of its own, which has not allocated yet.
static void test_in_child(void (*test)(void)) {
    pid_t child = fork();
    if (child == 0) {
        test();
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER); // it would populate what a block has left
    test_in_child(test_end_of_an_arena);
    test_in_child(test_old_system);
    test_in_child(test_refused_extension);
    test_in_child(test_edge_of_a_window);
    if (!KEEL_SECURE && !KEEL_DEBUG) test_in_child(test_shrinking_blocks);
    test_in_child(test_neighbours); // whose window nothing describes yet
    test_in_child(test_sparse_block_grows);
    test_in_turn();
    test_small_steps();
    test_one_step();
    test_room_in_address_space();
    test_steps(MIB, MIB, 128 * MIB, 2);
    test_steps(65536 * 2, 65536, 32 * MIB, 8);
    test_steps(8 * MIB, 4 * MIB, 256 * MIB, 1);
    test_neighbours();
    test_impossible_sizes();
    test_block_of_two_windows();
    test_two_mappings();
    check_work_bounds();
    return 0;
}
