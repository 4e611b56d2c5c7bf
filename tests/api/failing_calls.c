// Every system call of a mixed workload fails once: for each kind of call, a process runs the
// workload and its n-th call of that kind fails, for n = 1, 2, .. until a process makes fewer than
// n. A request may then fail, but its next try must succeed, and every live block keeps its
// contents. This program defines the functions through which Keel reaches the system.
#include "check.h"
#include "memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <keel/heap.h>
#include <keel/keel.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { NONE, MMAP, MUNMAP, MREMAP, REMAP_CONTENT, MADVISE, MPROTECT, THREAD, FUTEX };
enum { DONT_UNMAP = 4, BLOCKS = 64, STEPS = 1200, NO_MORE = 42, FAILURES_MAX = 2000 };

static enum kind failing;        // the kind of which one call fails
static unsigned fail_at;         // which one
static _Atomic(unsigned) called; // calls of that kind so far
static _Atomic(bool) hit;        // a call has failed

static bool fails(enum kind kind, int error) {
    if (kind != failing || atomic_fetch_add(&called, 1) + 1 != fail_at) return false;
    atomic_store(&hit, true);
    errno = error;
    return true;
}

static long (*system_call)(long number, ...);
static int (*create_thread)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

static void find(void) {
    *(void**)&system_call = dlsym(RTLD_NEXT, "syscall");
    *(void**)&create_thread = dlsym(RTLD_NEXT, "pthread_create");
}

long syscall(long number, ...) {
    long word[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) word[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_futex && fails(FUTEX, EINTR)) return -1;
    if (system_call == NULL) find();
    return system_call(number, word[0], word[1], word[2], word[3], word[4], word[5]);
}

void* mmap(void* start, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (fails(MMAP, ENOMEM)) return MAP_FAILED;
    return (void*)syscall(SYS_mmap, start, bytes, protection, flags, file, offset);
}

int munmap(void* start, size_t bytes) {
    return fails(MUNMAP, ENOMEM) ? -1 : (int)syscall(SYS_munmap, start, bytes);
}

void* mremap(void* start, size_t old_bytes, size_t bytes, int flags, ...) {
    va_list list;
    va_start(list, flags);
    void* target = va_arg(list, void*); // always passed
    va_end(list);
    if (fails((flags & DONT_UNMAP) != 0 ? REMAP_CONTENT : MREMAP, ENOMEM)) return MAP_FAILED;
    if (system_call == NULL) find();
    return (void*)system_call(SYS_mremap, start, old_bytes, bytes, flags, target);
}

int madvise(void* start, size_t bytes, int advice) {
    return fails(MADVISE, ENOMEM) ? -1 : (int)syscall(SYS_madvise, start, bytes, advice);
}

int mprotect(void* start, size_t bytes, int protection) {
    return fails(MPROTECT, ENOMEM) ? -1 : (int)syscall(SYS_mprotect, start, bytes, protection);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
    if (fails(THREAD, EAGAIN)) return EAGAIN;
    if (create_thread == NULL) find();
    return create_thread(thread, attributes, run, argument);
}

struct held {
    unsigned char* block;
    size_t size;
    uint64_t seed;
};

static void verify(const struct held* held) {
    if (held->block != NULL) CHECK(pattern_holds(held->block, held->size, held->size, held->seed));
}

static size_t some_size(struct random* random) {
    uint64_t kind = random_below(random, 100);
    if (kind < 70) return random_size(random, 2000);
    if (kind < 90) return 1 + random_below(random, 200 * KIB);
    if (kind < 97) return 1 + random_below(random, 3 * MIB);
    return 1 + random_below(random, 12 * MIB);
}

static unsigned char* allocate(struct random* random, size_t size) {
    uint64_t way = random_below(random, 4);
    size_t alignment = (size_t)16 << random_below(random, 17);
    for (int tries = 0; tries < 2; tries++) {
        unsigned char* block = way == 0   ? kl_calloc(1, size)
                               : way == 1 ? kl_memalign(alignment, size)
                                          : kl_malloc(size);
        if (block == NULL) continue;
        CHECK(way != 0 || is_zero(block, size));
        CHECK(way != 1 || is_aligned(block, alignment));
        return block;
    }
    check_fail(__FILE__, __LINE__, "the second try gets no memory: %zu bytes", size);
}

static void step(struct random* random, struct held* held) {
    verify(held);
    size_t size = some_size(random);
    if (held->block != NULL && random_below(random, 2) == 0) {
        unsigned char* block = kl_realloc(held->block, size);
        if (block == NULL) {
            verify(held); // a failed realloc leaves the block
            block = kl_realloc(held->block, size);
        }
        CHECK(block != NULL);
        CHECK(pattern_holds(block, size < held->size ? size : held->size, held->size, held->seed));
        held->block = block;
    } else {
        kl_free(held->block);
        held->block = allocate(random, size);
    }
    held->size = size;
    held->seed = random_next(random);
    pattern_fill(held->block, size, held->seed);
}

static void mixed(uint64_t seed, unsigned steps, struct held* held) {
    struct random random = {seed};
    for (unsigned i = 0; i < steps; i++) {
        step(&random, &held[random_below(&random, BLOCKS)]);
        if (i % 400 == 399) kl_collect(true);
    }
}

static void release(struct held* held) {
    for (int i = 0; i < BLOCKS; i++) {
        verify(&held[i]);
        kl_free(held[i].block);
    }
}

// Its blocks are freed by the main thread.
static struct held of_thread[BLOCKS];
static void* other_thread(void* unused) {
    mixed(2, STEPS / 4, of_thread);
    return unused;
}

static void in_user_heap(void) {
    kl_heap_t* heap = kl_heap_new();
    if (heap == NULL) heap = kl_heap_new();
    CHECK(heap != NULL);
    unsigned char* blocks[100];
    for (unsigned i = 0; i < 100; i++) {
        blocks[i] = kl_heap_malloc(heap, 100 * i + 1);
        if (blocks[i] == NULL) blocks[i] = kl_heap_malloc(heap, 100 * i + 1);
        CHECK(blocks[i] != NULL);
        pattern_fill(blocks[i], 100 * i + 1, i);
    }
    for (unsigned i = 0; i < 100; i++) CHECK(pattern_holds(blocks[i], 100 * i + 1, 100 * i + 1, i));
    kl_heap_destroy(heap);
}

// One block that grows from a run into mappings and shrinks again.
static void grow(void) {
    struct held held = {NULL, 0, 5};
    for (size_t size = 256 * KIB; size <= 64u * MIB; size = size * 3 / 2) {
        unsigned char* block = kl_realloc(held.block, size);
        if (block == NULL) block = kl_realloc(held.block, size);
        CHECK(block != NULL);
        if (held.size != 0) CHECK(pattern_holds(block, held.size, held.size, held.seed));
        held = (struct held){block, size, held.seed};
        pattern_fill(block, size, held.seed);
    }
    unsigned char* block = kl_realloc(held.block, 5 * MIB);
    if (block == NULL) block = kl_realloc(held.block, 5 * MIB);
    CHECK(block != NULL && pattern_holds(block, 5 * MIB - KIB, held.size, held.seed));
    kl_free(block);
}

static void workload(void) {
    static struct held held[BLOCKS];
    mixed(1, STEPS / 2, held);
    if (failing == THREAD || failing == FUTEX) (void)kl_keeper_start();
    pthread_t thread;
    bool started = pthread_create(&thread, NULL, other_thread, NULL) == 0;
    mixed(3, STEPS / 2, held);
    grow();
    in_user_heap();
    if (started) CHECK(pthread_join(thread, NULL) == 0);
    release(of_thread);
    release(held);
    kl_collect(true);
}

// Exit status of a process in which the call has failed (0) or was never reached (NO_MORE).
static int run_once(enum kind kind, unsigned n) {
    pid_t child = fork();
    if (child == 0) {
        failing = kind;
        fail_at = n;
        workload();
        _exit(atomic_load(&hit) ? 0 : NO_MORE);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != NO_MORE))
        check_fail(__FILE__, __LINE__, "with the failure of call %u of kind %d: status %x", n,
                   (int)kind, (unsigned)status);
    return WEXITSTATUS(status);
}

static void each_call_fails_once(enum kind kind, unsigned least) {
    unsigned n = 1;
    while (n <= FAILURES_MAX && run_once(kind, n) == 0) n++;
    if (getenv("CHECK_VERBOSE") != NULL) dprintf(2, "kind %d: %u calls\n", (int)kind, n - 1);
    CHECK(n <= FAILURES_MAX && n > least);
}

TEST(each_mmap_fails_once) {
    each_call_fails_once(MMAP, 5);
}
TEST(each_munmap_fails_once) {
    each_call_fails_once(MUNMAP, 5);
}
TEST(each_mremap_fails_once) {
    each_call_fails_once(MREMAP, 1);
}
TEST(each_move_of_content_fails_once) {
    each_call_fails_once(REMAP_CONTENT, 1);
}
TEST(each_madvise_fails_once) {
    each_call_fails_once(MADVISE, 5);
}
TEST(each_mprotect_fails_once) {
    each_call_fails_once(MPROTECT, 0);
}
TEST(each_start_of_a_thread_fails_once) {
    each_call_fails_once(THREAD, 1);
}
TEST(each_futex_fails_once) {
    each_call_fails_once(FUTEX, 0);
}
