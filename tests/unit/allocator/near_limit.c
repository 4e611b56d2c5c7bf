// A malloc near the limit of memory, while another thread has taken the last free slices to
// populate or discard them: it waits until they are back, but not for ever. This program defines
// functions through which Keel reaches the system: mmap can refuse, the other thread stops inside
// of a call, and the waits are counted.
#include "allocator/space/huge_unit.h"
#include "allocator/space/page_map.h"
#include "allocator/space/run.h"
#include "allocator/warm/reserve.h"
#include "base/options.h"
#include "base/random.h"
#include "check.h"
#include "keel/arena.h"
#include "keel/heap.h"
#include "keel/keel.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

// The longest wait of one call, as the latency contract states it: a call tries twice.
enum { WAITS_MAX = 400, WAITED_US_MAX = 20000, RELEASED_AT = 3, SPARE_SLICES = 64 };

// --- The maintainer: a thread that stops inside of a call ----------------------------------------

enum kind { DISCARD, POPULATE, UNIT, KINDS };
enum stage { STAGE_NONE, STAGE_HOLDS, STAGE_RELEASED, STAGE_DONE };

static atomic_state stage;
static atomic_state sleeps; // threads wait, and a maintainer takes its time
static _Thread_local bool is_maintainer;

static void stop_here(void) {
    if (is_maintainer && atomic_get(&sleeps) != 0) (void)usleep(100);
    if (!is_maintainer || atomic_get(&stage) != STAGE_NONE) return;
    atomic_set_release(&stage, STAGE_HOLDS);
    while (atomic_get_acquire(&stage) != STAGE_RELEASED) sched_yield();
}

static void* maintain(void* kind) {
    is_maintainer = true;
    size_t slices = *(enum kind*)kind == DISCARD    ? reserve_discard(SPARE_SLICES)
                    : *(enum kind*)kind == POPULATE ? reserve_populate(SPARE_SLICES)
                                                    : reserve_populate_huge();
    CHECK(slices > 0);
    atomic_set_release(&stage, STAGE_DONE);
    return NULL;
}

static void begin_maintenance(enum kind kind) {
    static enum kind argument;
    pthread_t thread;
    argument = kind;
    CHECK(pthread_create(&thread, NULL, maintain, &argument) == 0);
    while (atomic_get_acquire(&stage) != STAGE_HOLDS) sched_yield();
}

// --- The system ----------------------------------------------------------------------------------

static atomic_state refuses;             // no memory is mapped
static unsigned release_at;              // the wait in which the maintainer ends; 0: none
static _Thread_local unsigned waits;     // of this thread, in its last call of malloc
static _Thread_local uint64_t waited_us; // as requested

void* mmap(void* start, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (atomic_get(&refuses) != 0) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void*)syscall(SYS_mmap, start, bytes, protection, flags, file, offset);
}

int madvise(void* start, size_t bytes, int advice) {
    enum { POPULATE_WRITE = 23 };
    if (advice == POPULATE_WRITE || advice == MADV_DONTNEED) stop_here();
    if (advice == POPULATE_WRITE) return 0; // Keel touches the memory; older systems refuse this
    return (int)syscall(SYS_madvise, start, bytes, advice);
}

int mincore(void* start, size_t bytes, unsigned char* resident) {
    stop_here(); // with a unit that has just been touched
    return (int)syscall(SYS_mincore, start, bytes, resident);
}

// The linker directs Keel's waits with a time limit here; nobody wakes such a thread. Waits for
// locks have none.
void __real_os_wait(atomic_state* word, uint32_t expected, uint32_t microseconds);
void __wrap_os_wait(atomic_state* word, uint32_t expected, uint32_t microseconds);
void __wrap_os_wait(atomic_state* word, uint32_t expected, uint32_t microseconds) {
    waits++;
    waited_us += microseconds;
    CHECK(waits <= 10 * WAITS_MAX); // else it may wait for ever
    if (atomic_get(&sleeps) != 0) __real_os_wait(word, expected, microseconds);
    if (waits != release_at) return;
    atomic_set_release(&stage, STAGE_RELEASED);
    while (atomic_get_acquire(&stage) != STAGE_DONE) sched_yield();
}

static void* allocate(size_t size) {
    waits = 0;
    waited_us = 0;
    void* block = kl_malloc(size);
    CHECK(waits <= WAITS_MAX && waited_us <= WAITED_US_MAX);
    return block;
}

// --- One thread waits for the maintainer ---------------------------------------------------------

enum { SIZES = 3 };
static const size_t sizes[SIZES] = {MIB, 70000, 1000};
static unsigned first_size; // that finds memory

// Takes all that is free. While nothing is maintained, no call waits.
static void exhaust(bool is_maintained) {
    for (unsigned i = 0; i < SIZES; i++) {
        while (allocate(sizes[i]) != NULL) CHECK(waits == 0);
        CHECK(waits == (is_maintained ? WAITS_MAX : 0));
    }
}

// The last free slices are the maintainer's.
static void prepare(enum kind kind) {
    policy_set_huge(false);
    kl_free(kl_malloc(1));
    char* spare = run_allocate(SPARE_SLICES).start;
    CHECK(spare != NULL);
    if (kind == UNIT) {
        CHECK(reserve_populate_huge() == HUGE_SLICES); // maps the next units, too
        begin_maintenance(kind);
    }
    atomic_set(&refuses, 1);
    exhaust(kind == UNIT);
    if (kind == UNIT) return;
    run_release(spare, SPARE_SLICES);
    if (kind == POPULATE) CHECK(reserve_discard(SPARE_SLICES) == SPARE_SLICES);
    begin_maintenance(kind);
}

static void test_waits(enum kind kind) {
    prepare(kind);
    for (unsigned i = 0; i < SIZES; i++) // the maintainer does not end
        CHECK(allocate(sizes[i]) == NULL && waits == WAITS_MAX);
    release_at = RELEASED_AT;
    CHECK(allocate(sizes[first_size]) != NULL && waits == RELEASED_AT);
    CHECK(run_check());
}

// --- Who does not wait ---------------------------------------------------------------------------

// A heap that cannot use the memory that is maintained.
static void test_heaps_do_not_wait(enum kind kind) {
    kl_heap_t* limited = kl_heap_new_with_limit(2 * MIB);
    kl_arena_t* arena = kl_reserve_os_memory(8 * MIB, kl_memory_exclusive);
    kl_heap_t* in_arena = kl_heap_new_in_arena(arena);
    CHECK(limited != NULL && arena != NULL && in_arena != NULL);
    prepare(kind);
    for (unsigned i = 0; i < SIZES; i++) {
        waits = 0;
        while (kl_heap_malloc(in_arena, sizes[i]) != NULL) CHECK(waits == 0);
        CHECK(kl_heap_malloc(limited, sizes[i]) == NULL);
        CHECK(waits == 0);
    }
}

static void test_realtime_thread_does_not_wait(enum kind kind) {
    prepare(kind);
    (void)kl_thread_set_realtime(SLICE_BYTES);
    CHECK(allocate(MIB) == NULL && waits == 0);
    while (allocate(1000) != NULL) CHECK(waits == 0);
    CHECK(waits == 0);
}

static void in_child(void (*test)(enum kind), enum kind kind) {
    int status = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        test(kind);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// A child does not have the maintainer, but what that held.
static void gets_it_at_once(enum kind kind) {
    (void)kind;
    CHECK(allocate(MIB) != NULL && waits == 0 && run_check());
    exhaust(false);
}
static void test_child_does_not_wait(enum kind kind) {
    prepare(kind);
    in_child(gets_it_at_once, kind);
    CHECK(reserve_is_maintained());
}

// --- Many threads --------------------------------------------------------------------------------

enum { THREADS = 12, STEPS = 2000, BLOCKS = 24, ROOM_SLICES = 256 };

static pthread_barrier_t barrier;
static atomic_state ends;
static atomic_bits got;
static atomic_bits refused;
static atomic_bits waited; // calls that waited

static void step(uint64_t* random, unsigned char** blocks, size_t* bytes, unsigned char mark) {
    static const size_t most[] = {2000, 60000, 400000, 2 * MIB};
    unsigned i = (unsigned)(random_next(random) % BLOCKS);
    if (blocks[i] != NULL) CHECK(blocks[i][0] == mark && blocks[i][bytes[i] - 1] == mark);
    kl_free(blocks[i]);
    bytes[i] = 1 + random_next(random) % most[random_next(random) % 4];
    blocks[i] = allocate(bytes[i]);
    (void)atomic_add(&waited, waits > 0);
    (void)atomic_add(blocks[i] != NULL ? &got : &refused, 1);
    if (blocks[i] != NULL) blocks[i][0] = blocks[i][bytes[i] - 1] = mark;
}

static void* use_memory(void* mark) {
    unsigned char* blocks[BLOCKS] = {NULL};
    size_t bytes[BLOCKS] = {0};
    uint64_t random = *(unsigned char*)mark;
    kl_free(kl_malloc(1)); // a heap
    (void)pthread_barrier_wait(&barrier);
    (void)pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < STEPS; i++) step(&random, blocks, bytes, *(unsigned char*)mark);
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    return NULL;
}

// Discards and populates what is free, again and again.
static void* maintain_always(void* unused) {
    is_maintainer = true;
    for (unsigned i = 0; atomic_get(&ends) == 0; i++) {
        if (i % 4 != 0)
            (void)reserve_discard(16);
        else
            (void)reserve_populate(16);
        (void)usleep(100);
    }
    return unused;
}

// No thread waits longer than the bound, whatever others do with the memory; each gets memory in
// the end.
static void test_many_threads(enum kind kind) {
    (void)kind;
    pthread_t maintainer;
    pthread_t threads[THREADS];
    static unsigned char marks[THREADS];
    atomic_set(&sleeps, 1);
    atomic_set(&stage, STAGE_DONE); // nothing stops
    char* room = run_allocate(ROOM_SLICES).start;
    CHECK(room != NULL);
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        marks[i] = (unsigned char)(i + 1);
        CHECK(pthread_create(&threads[i], NULL, use_memory, &marks[i]) == 0);
    }
    (void)pthread_barrier_wait(&barrier);
    atomic_set(&refuses, 1);
    run_release(room, ROOM_SLICES);
    CHECK(pthread_create(&maintainer, NULL, maintain_always, NULL) == 0);
    (void)pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    atomic_set(&ends, 1);
    CHECK(pthread_join(maintainer, NULL) == 0);
    CHECK(atomic_get(&got) > 0 && atomic_get(&refused) > 0 && atomic_get(&waited) > 0);
    kl_collect(true);
    CHECK(run_check() && allocate(MIB) != NULL && waits == 0);
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    for (enum kind kind = DISCARD; kind < KINDS; kind++) {
        for (first_size = 0; first_size < SIZES; first_size++) in_child(test_waits, kind);
        in_child(test_heaps_do_not_wait, kind);
        in_child(test_realtime_thread_does_not_wait, kind);
        in_child(test_child_does_not_wait, kind);
    }
    in_child(test_many_threads, DISCARD);
    return 0;
}
