/*
 * Random rounds against the allocator, each a process of its own. After every call that may move
 * memory the usable sizes of all live blocks are compared with what they were, and contents are
 * verified; the memory that Keel frees is used by others at once; calls of the system are refused
 * at random or behave as on old kernels (refuse.h); children of fork free all and are measured.
 *
 *     torture [--seconds N] [--seed N]     rounds until the time is over (60), from this seed on
 *     torture --round N                    one round again; its threads may meet differently
 *
 * A round draws its plan from its seed, and prints both if it fails.
 */
#include "allocator/api/check.h"
#include "keel/heap.h"
#include "keel/keel.h"
#include "memory.h"
#include "refuse.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 100, EXCHANGE = 64, THREADS_MAX = 6, ROUND_SECONDS = 240, CHILD_SLACK = 12 * MIB };
#define LARGE ((size_t)64 << 10)
#define LIVE_MAX ((size_t)64 << 20)

enum limit { LIMIT_NONE, LIMIT_MAPPINGS, LIMIT_ADDRESSES, LIMIT_LOCKED, LIMITS };
static const char* const limit_names[] = {"none", "mappings", "address space", "locked memory"};
static const char* const age_names[] = {"new", "before 6.17", "before 5.14", "before 5.7"};

static struct plan {
    uint64_t seed;
    unsigned threads, operations, delay_ms, guard_rate;
    enum limit limit;
    unsigned mappings_left;
    bool keeper, large_blocks, forks, realtime, zeroes, turns_arenas;
    struct refusals refusals;
} plan;

struct block {
    unsigned char* start;
    size_t size, usable;
    uint64_t seed;
    kl_heap_t* heap; // NULL: none
    bool aligned;    // was allocated with an alignment
};

struct worker {
    struct random random;
    unsigned number;
    uint64_t operation;
    const char* doing;
    size_t live_bytes;
    struct block blocks[BLOCKS];
    kl_heap_t* heap; // of the thread's own making
    kl_arena_t* arena;
};
static struct worker workers[THREADS_MAX];
static size_t bytes_at_start;

// --- Failing -------------------------------------------------------------------------------------

static void print_plan(void) {
    dprintf(STDERR_FILENO,
            "torture: round %llu: %u threads, %u operations, limit: %s (%u), keeper %s, delay %u "
            "ms, guard rate %u, zeroes %d, large %d, forks %d, realtime %d, arenas in turn %d, "
            "refused 1 in %u, "
            "occupies %d, system: %s\n",
            (unsigned long long)plan.seed, plan.threads, plan.operations, limit_names[plan.limit],
            plan.mappings_left, plan.keeper ? "on" : "off", plan.delay_ms, plan.guard_rate,
            plan.zeroes, plan.large_blocks, plan.forks, plan.realtime, plan.turns_arenas,
            plan.refusals.one_in, plan.refusals.occupies, age_names[plan.refusals.age]);
}

static __attribute__((noreturn)) void fail(const struct worker* w, const struct block* block,
                                           const char* what) {
    refuse_leave();
    dprintf(STDERR_FILENO, "torture: %s, thread %u, operation %llu (%s)", what, w->number,
            (unsigned long long)w->operation, w->doing);
    if (block != NULL)
        dprintf(STDERR_FILENO, ", block %p of %zu bytes, usable %zu", (void*)block->start,
                block->size, block->usable);
    dprintf(STDERR_FILENO, "\n");
    print_plan();
    _exit(1);
}

// --- Verifying -----------------------------------------------------------------------------------

static void verify(const struct worker* w, const struct block* block) {
    if (block->start == NULL) return;
    if (kl_usable_size(block->start) != block->usable) fail(w, block, "another usable size");
    if (!pattern_holds(block->start, block->size, block->size, block->seed))
        fail(w, block, "lost content");
}

static void verify_usable(const struct worker* w) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        const struct block* block = &w->blocks[i];
        if (block->start != NULL && kl_usable_size(block->start) != block->usable)
            fail(w, block, "another usable size");
    }
}

// Nothing else runs: the allocator's own invariants hold, too.
static void verify_all(const struct worker* w) {
    for (unsigned i = 0; i < BLOCKS; i++) verify(w, &w->blocks[i]);
    if (!foreign_holds()) fail(w, NULL, "foreign memory has changed");
    if (plan.threads == 1 && !plan.keeper && !allocator_check())
        fail(w, NULL, "an invariant does not hold");
}

// --- Operations ----------------------------------------------------------------------------------

static size_t pick_size(struct worker* w) {
    uint64_t kind = random_below(&w->random, 100);
    size_t size;
    if (plan.large_blocks && kind < 60)
        size = 8 * MIB + random_below(&w->random, 60) * 4096;
    else if (kind < 60)
        size = random_size(&w->random, 3000);
    else if (kind < 80)
        size = 1 + random_below(&w->random, 70000);
    else if (kind < 94)
        size = 1 + random_below(&w->random, 3 * MIB / 2);
    else
        size = 4 * MIB + random_below(&w->random, 8 * MIB);
    size_t most = LIVE_MAX / plan.threads;
    if (plan.limit == LIMIT_LOCKED) most /= 4;
    if (plan.large_blocks) most *= 2;
    return w->live_bytes + size > most ? 1 + size % 2000 : size;
}

static void begin(struct worker* w, struct block* block, void* start, size_t size) {
    block->start = start;
    block->size = start == NULL ? 0 : size;
    if (start == NULL) return;
    block->usable = kl_usable_size(start);
    block->seed = random_next(&w->random);
    if (block->usable < size) fail(w, block, "too small");
    pattern_fill(start, size, block->seed);
    w->live_bytes += size;
}

// A heap in an arena has no other memory.
static bool may_fail(const struct worker* w, const struct block* block) {
    return plan.limit != LIMIT_NONE || plan.refusals.one_in != 0 ||
           (block->heap != NULL && w->arena != NULL);
}

enum { CALLOC = 8, WAYS = 12 }; // ways to allocate: from CALLOC on, it must be zero

static bool is_calloc(unsigned way) {
    return way >= CALLOC;
}

static void* get(struct worker* w, struct block* block, size_t size, unsigned way) {
    size_t alignment = (size_t)16 << random_below(&w->random, way == 2 ? 20 : 9);
    block->heap = NULL;
    block->aligned = way == 1 || way == 2;
    if (is_calloc(way)) return kl_calloc(1, size);
    switch (way) {
    case 1:
    case 2:
        return kl_aligned_alloc(alignment, size);
    case 3:
        return kl_partition_malloc((unsigned)random_below(&w->random, 4), size);
    case 4:
        block->heap = w->heap;
        return w->heap != NULL ? kl_heap_malloc(w->heap, size) : kl_malloc(size);
    default:
        return kl_malloc(size);
    }
}

static void allocate(struct worker* w, struct block* block) {
    unsigned way = (unsigned)random_below(&w->random, WAYS);
    size_t size = pick_size(w);
    if (way == 2 && size <= MIB) size = 1 + size * 100 % MIB;
    w->doing = "allocate";
    refuse_enter();
    unsigned char* start = get(w, block, size, way);
    refuse_leave();
    if (start == NULL && !may_fail(w, block)) fail(w, NULL, "no memory");
    if (start != NULL && is_calloc(way) && !is_zero(start, size))
        fail(w, NULL, "calloc is not zero");
    begin(w, block, start, size);
}

static void drop(struct worker* w, struct block* block) {
    w->doing = "free";
    verify(w, block);
    w->live_bytes -= block->size;
    refuse_enter();
    if (block->heap == NULL && !block->aligned && random_below(&w->random, 4) == 0)
        kl_free_sized(block->start, block->size);
    else
        kl_free(block->start);
    refuse_leave();
    block->start = NULL;
}

static void resize(struct worker* w, struct block* block) {
    size_t size = pick_size(w);
    bool by_little = random_below(&w->random, 2) == 0;
    if (by_little && block->size >= LARGE) size = block->size + 4096 * random_below(&w->random, 16);
    size_t kept = size < block->size ? size : block->size;
    w->doing = "realloc";
    verify(w, block);
    refuse_enter();
    unsigned char* start = block->heap != NULL ? kl_heap_realloc(block->heap, block->start, size)
                                               : kl_realloc(block->start, size);
    refuse_leave();
    if (start == NULL) {
        if (!may_fail(w, block)) fail(w, block, "no memory");
        verify(w, block);
        return;
    }
    if (!pattern_holds(start, kept, block->size, block->seed)) {
        block->start = start;
        fail(w, block, "content lost by realloc");
    }
    w->live_bytes -= block->size;
    begin(w, block, start, size);
}

// Ends the thread's heap, and begins another one; some in an arena of their own.
static void turn_heap(struct worker* w) {
    bool destroys = random_below(&w->random, 2) == 0;
    w->doing = "heaps";
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct block* block = &w->blocks[i];
        if (block->start == NULL || block->heap == NULL) continue;
        verify(w, block);
        block->heap = NULL;
        if (!destroys && w->arena == NULL) continue;
        w->live_bytes -= block->size;
        if (w->arena != NULL && !destroys) kl_free(block->start);
        block->start = NULL;
    }
    refuse_enter();
    if (w->heap != NULL && destroys) kl_heap_destroy(w->heap);
    if (w->heap != NULL && !destroys) kl_heap_delete(w->heap);
    bool released = w->arena == NULL || kl_arena_release(w->arena);
    w->heap = NULL;
    w->arena = NULL;
    size_t most = plan.turns_arenas ? 32 : 5;
    if (plan.turns_arenas || random_below(&w->random, 3) == 0)
        w->arena = kl_reserve_os_memory((1 + random_below(&w->random, most)) * 2 * MIB,
                                        kl_memory_exclusive);
    w->heap = w->arena != NULL ? kl_heap_new_in_arena(w->arena) : kl_heap_new();
    refuse_leave();
    if (!released) fail(w, NULL, "an arena is in use");
}

// --- Between the threads -------------------------------------------------------------------------

static struct block exchange[EXCHANGE];
static pthread_mutex_t exchange_lock = PTHREAD_MUTEX_INITIALIZER;

static void swap_with_others(struct worker* w, struct block* block) {
    w->doing = "exchange";
    if (block->heap != NULL && block->start != NULL) return;
    verify(w, block);
    struct block* place = &exchange[random_below(&w->random, EXCHANGE)];
    (void)pthread_mutex_lock(&exchange_lock);
    struct block other = *place;
    *place = *block;
    (void)pthread_mutex_unlock(&exchange_lock);
    if (block->start != NULL) w->live_bytes -= block->size;
    *block = other;
    if (block->start != NULL) w->live_bytes += block->size;
    verify(w, block);
}

// --- Children of fork ----------------------------------------------------------------------------

static size_t anonymous_bytes(void) {
    char line[256];
    unsigned long kib = 0;
    FILE* file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Anonymous: %lu", &kib) == 1) break;
    if (file != NULL) (void)fclose(file);
    return (size_t)kib * KIB;
}

// All blocks are free. The debug flavour keeps records of them, and locked memory stays.
static void verify_memory(const struct worker* w, const char* what, size_t slack) {
    size_t now = anonymous_bytes();
    size_t expected = bytes_at_start + foreign_resident_bytes() + kept_resident_bytes() + slack;
    if (KEEL_DEBUG || plan.limit == LIMIT_LOCKED || now <= expected) return;
    dprintf(STDERR_FILENO, "torture: %zu KiB, at most %zu\n", now / KIB, expected / KIB);
    fail(w, NULL, what);
}

// The child has what the parent had, and nothing stays when it has freed all.
static void be_child(struct worker* w) {
    w->doing = "child";
    for (unsigned i = 0; i < BLOCKS; i++) verify(w, &w->blocks[i]);
    for (unsigned i = 0; i < BLOCKS; i++) {
        kl_free(w->blocks[i].start);
        w->blocks[i].start = NULL;
    }
    w->live_bytes = 0;
    if (w->heap != NULL) kl_heap_delete(w->heap);
    if (w->arena != NULL && !kl_arena_release(w->arena)) fail(w, NULL, "an arena is in use");
    w->heap = NULL;
    w->arena = NULL;
    plan.refusals.one_in = refusals.one_in = 0;
    kl_collect(true);
    verify_memory(w, "a child keeps memory", CHILD_SLACK);
    for (unsigned i = 0; i < BLOCKS; i++) allocate(w, &w->blocks[i]);
    for (unsigned i = 0; i < BLOCKS; i++) verify(w, &w->blocks[i]);
    if (!plan.keeper && !allocator_check()) fail(w, NULL, "an invariant does not hold");
    _exit(0);
}

static bool is_resident(unsigned char* page) {
    unsigned char resident = 0;
    return mincore(page, 4096, &resident) == 0 && (resident & 1) != 0;
}

// Waits until the keeper has begun to return a large mapping, so that it has it while this thread
// forks.
static void free_while_looked_at(struct worker* w) {
    const size_t bytes = 96 * MIB;
    unsigned char* block = kl_malloc(bytes);
    if (block == NULL) return;
    pattern_fill(block, bytes, 1);
    kl_free(block);
    unsigned char* last = (unsigned char*)(((uintptr_t)block + bytes - 2 * MIB) & ~(uintptr_t)4095);
    uint64_t tries = random_below(&w->random, 4) == 0 ? 0 : 4000;
    for (uint64_t i = 0; i < tries && is_resident(last); i++) (void)usleep(50);
}

static void fork_one(struct worker* w) {
    w->doing = "fork";
    if (plan.keeper && plan.limit == LIMIT_NONE) free_while_looked_at(w);
    pid_t child = fork();
    if (child == 0) be_child(w);
    int status = 0;
    if (child > 0 && (waitpid(child, &status, 0) != child || status != 0))
        fail(w, NULL, WIFSIGNALED(status) ? "a child was ended by a signal" : "a child failed");
}

// --- A round -------------------------------------------------------------------------------------

static void step(struct worker* w) {
    uint64_t kind = random_below(&w->random, 1000);
    struct block* block = &w->blocks[random_below(&w->random, BLOCKS)];
    size_t before = block->start == NULL ? 0 : block->size;
    if (kind < 5 || (plan.turns_arenas && w->number == 0 && kind < 500))
        turn_heap(w);
    else if (kind < 8 && plan.forks)
        fork_one(w);
    else if (kind < 10 && plan.forks)
        (void)usleep(1000 * (unsigned)random_below(&w->random, 40));
    else if (kind < 12)
        kl_collect(kind == 10);
    else if (kind < 100 && plan.threads > 1)
        swap_with_others(w, block);
    else if (block->start == NULL)
        allocate(w, block);
    else if (kind < 450)
        drop(w, block);
    else
        resize(w, block);
    if (before >= LARGE || (block->start != NULL && block->size >= LARGE)) {
        verify_usable(w);
        verify(w, &w->blocks[random_below(&w->random, BLOCKS)]);
    }
    if (w->operation % (plan.large_blocks ? 32 : 256) == 0) verify_all(w);
}

static void be_realtime(void) {
    struct sched_param parameter = {.sched_priority = 1};
    (void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter); // may be forbidden
    (void)kl_thread_set_realtime(256 * KIB);
}

static void* work(void* worker) {
    struct worker* w = worker;
    if (!refuse_prepare(plan.seed * 31 + w->number)) refusals = (struct refusals){0};
    if (plan.realtime && w->number == 1) be_realtime();
    for (w->operation = 1; w->operation <= plan.operations; w->operation++) step(w);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (w->blocks[i].start != NULL) drop(w, &w->blocks[i]);
    if (w->heap != NULL) kl_heap_delete(w->heap);
    if (w->arena != NULL) (void)kl_arena_release(w->arena);
    return NULL;
}

// As many mappings as the system allows but a few.
static void fill_mappings(unsigned left) {
    enum { PIECES = 100000 };
    char* start = mmap(NULL, (size_t)PIECES * 4096, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t i = 1;
    while (i < PIECES && mprotect(start + i * 4096, 4096, PROT_READ) == 0) i += 2;
    for (unsigned k = 0; k < left / 2 && i > 2; k++) {
        i -= 2;
        (void)mprotect(start + i * 4096, 4096, PROT_NONE);
    }
}

static void limit_addresses(size_t room) {
    unsigned long pages = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu", &pages) != 1) return;
    (void)fclose(file);
    struct rlimit limit = {pages * 4096 + room, pages * 4096 + room};
    (void)setrlimit(RLIMIT_AS, &limit);
}

static struct plan plan_of(uint64_t seed) {
    struct random random = {seed};
    static const unsigned delays[] = {1, 10, 50, 500};
    static const unsigned rates[] = {0, 0, 1, 5, 50};
    static const unsigned refused[] = {0, 0, 2, 6, 50};
    struct plan p = {.seed = seed};
    p.threads = random_below(&random, 3) == 0 ? 2 + (unsigned)random_below(&random, 5) : 1;
    p.limit =
        random_below(&random, 2) == 0 ? LIMIT_NONE : (enum limit)random_below(&random, LIMITS);
    p.mappings_left = 20 + (unsigned)random_below(&random, 80);
    p.keeper = random_below(&random, 2) == 0;
    p.delay_ms = delays[random_below(&random, 4)];
    p.guard_rate = rates[random_below(&random, 5)];
    p.large_blocks = random_below(&random, 3) == 0;
    p.forks = p.threads == 1 && random_below(&random, 2) == 0;
    p.realtime = random_below(&random, 4) == 0;
    p.zeroes = random_below(&random, 2) == 0;
    p.turns_arenas = p.threads > 1 && p.limit == LIMIT_NONE && random_below(&random, 2) == 0;
    p.refusals.one_in = refused[random_below(&random, 5)];
    p.refusals.occupies = random_below(&random, 2) == 0;
    p.refusals.age = (enum system_age)random_below(&random, 4);
    p.operations = p.large_blocks ? 600 : p.threads > 1 ? 2000 : 4000;
    return p;
}

static void set(const char* name, unsigned value) {
    char text[16];
    (void)snprintf(text, sizeof text, "%u", value);
    (void)setenv(name, text, 1);
}

static void set_environment(void) {
    (void)setenv("KEEL_KEEPER", plan.keeper ? "on" : "off", 1);
    set("KEEL_PURGE_DELAY_MS", plan.delay_ms);
    set("KEEL_GUARD_RATE", plan.guard_rate);
    set("KEEL_ZERO_ON_FREE", plan.zeroes);
}

static int run_round(void) {
    (void)alarm(ROUND_SECONDS);
    kl_free(kl_malloc(20 * MIB)); // what the first large block needs
    refusals = plan.refusals;
    bytes_at_start = anonymous_bytes();
    if (plan.limit == LIMIT_MAPPINGS) fill_mappings(plan.mappings_left);
    if (plan.limit == LIMIT_ADDRESSES) limit_addresses((size_t)200 << 20);
    if (plan.limit == LIMIT_LOCKED) (void)mlockall(MCL_CURRENT | MCL_FUTURE);
    pthread_t threads[THREADS_MAX];
    unsigned started = 1;
    for (unsigned i = 0; i < plan.threads; i++)
        workers[i] = (struct worker){.random = {plan.seed * 100 + i}, .number = i, .doing = ""};
    for (; started < plan.threads; started++)
        if (pthread_create(&threads[started], NULL, work, &workers[started]) != 0) break;
    (void)work(&workers[0]);
    for (unsigned i = 1; i < started; i++) (void)pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < EXCHANGE; i++) {
        verify(&workers[0], &exchange[i]);
        kl_free(exchange[i].start);
    }
    workers[0].doing = "end";
    kl_collect(true);
    verify_memory(&workers[0], "memory stays", (plan.threads + 1) * CHILD_SLACK);
    if (!foreign_holds()) fail(&workers[0], NULL, "foreign memory has changed");
    if (!plan.keeper && !allocator_check()) fail(&workers[0], NULL, "an invariant does not hold");
    return 0;
}

// In a process of its own, whose environment the allocator reads at its start.
static int round_in_process(const char* program, uint64_t seed) {
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    pid_t child = fork();
    if (child == 0) {
        plan = plan_of(seed);
        set_environment();
        (void)execl(program, program, "--in-process", text, (char*)NULL);
        _exit(127);
    }
    int status = 0;
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0) return 0;
    if (WIFSIGNALED(status)) {
        plan = plan_of(seed);
        dprintf(STDERR_FILENO, "torture: signal %d\n", WTERMSIG(status));
        print_plan();
    }
    dprintf(STDERR_FILENO, "torture: to repeat: %s --round %s\n", program, text);
    return 1;
}

int main(int count, char** arguments) {
    uint64_t seconds = 60;
    uint64_t seed = (uint64_t)time(NULL) * 1000;
    bool once = false;
    for (int i = 1; i + 1 < count; i += 2) {
        uint64_t value = strtoull(arguments[i + 1], NULL, 10);
        if (strcmp(arguments[i], "--seconds") == 0) seconds = value;
        if (strcmp(arguments[i], "--seed") == 0) seed = value;
        once |= strcmp(arguments[i], "--round") == 0;
        if (once) seed = value;
        if (strcmp(arguments[i], "--in-process") == 0) {
            plan = plan_of(value);
            return run_round();
        }
    }
    const char* program = "/proc/self/exe";
    char path[4096];
    ssize_t length = readlink(program, path, sizeof path - 1);
    if (length <= 0) return 2;
    path[length] = 0;
    if (once) return round_in_process(path, seed);
    time_t end = time(NULL) + (time_t)seconds;
    unsigned rounds = 0;
    unsigned failed = 0;
    printf("torture: seed %llu, %llu s\n", (unsigned long long)seed, (unsigned long long)seconds);
    (void)fflush(stdout);
    do {
        failed += round_in_process(path, seed + rounds++) != 0;
    } while (time(NULL) < end);
    printf("total: %u passed, %u failed, 0 skipped\n", rounds - failed, failed);
    return failed == 0 ? 0 : 1;
}
