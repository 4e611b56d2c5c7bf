// Rings of blocks whose sizes follow a fixed series. When a ring is full, a fifth of it survives
// and the rest is freed: the front in the order of allocation, the back in reverse. In sh8 one
// thread also allocates blocks that the others free.
#include "synthetic.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { SIX_PLACES = 10000, SIX_SERIES = 400, EIGHT_PLACES = 200000, EIGHT_BURSTS = 12000 };
enum { PASSED = 150000, PASSED_BYTES = 8 };

//            survivor   survivor_end
//   |  freed    |  survive  |   freed    |      when `at` has reached the end
//   ───────────▶             ◀────────────
// The next blocks fill the freed places, from the first one on.
struct ring {
    void** block;
    size_t places, at, survivor, survivor_end;
    uint64_t sum;
};

static struct ring ring_of(size_t places) {
    places -= places % 5;
    void** block = take_zeroed(places, sizeof *block);
    return (struct ring){.block = block, places, 0, places, places, 0};
}

static void free_forward(void** from, void** to) {
    while (from < to) free(*from++);
}
static void free_backward(void** from, void** to) {
    while (from > to) free(*--from);
}

// The full ring retains the fifth behind the one that survived before.
static void ring_turn(struct ring* r) {
    r->survivor = r->survivor_end == r->places ? 0 : r->survivor_end;
    r->survivor_end = r->survivor + r->places / 5;
    free_forward(r->block, r->block + r->survivor);
    free_backward(r->block + r->places, r->block + r->survivor_end);
    r->at = r->survivor == 0 ? r->survivor_end : 0;
}

// The work beside malloc is as little as in the original: the first and the last byte are written.
static inline void ring_put(struct ring* r, size_t bytes) {
    if (r->at == r->places) ring_turn(r);
    char* block = malloc(bytes);
    if (block == NULL) fail("the allocator returned no memory");
    block[0] = block[bytes - 1] = 1;
    r->block[r->at++] = block;
    if (r->at == r->survivor) r->at = r->survivor_end;
}
static void ring_put_many(struct ring* r, size_t bytes, unsigned count) {
    r->sum += bytes * count;
    while (count-- > 0) ring_put(r, bytes);
}

static void ring_free(struct ring* r) {
    free_forward(r->block, r->block + r->at);
    // Behind `at` only the survivors are live.
    if (r->at < r->survivor) free_forward(r->block + r->survivor, r->block + r->survivor_end);
    free(r->block);
}

struct member {
    struct ring ring;
    size_t steps; // series in sh6, bursts in sh8
    unsigned index, threads;
};

// Sizes from 1 to 1,000 and each halved down to 1; sizes below 100 five times as often.
static void six(void* argument) {
    struct member* m = argument;
    m->ring = ring_of(SIX_PLACES / m->threads);
    for (size_t series = 0; series < m->steps; series++)
        for (size_t most = 1; most < 1000; most += most / 2 + 1)
            for (size_t bytes = most; bytes > 0; bytes /= 2)
                ring_put_many(&m->ring, bytes, bytes < 100 ? 250 : 50);
    ring_free(&m->ring);
}

static uint64_t run_members(const struct extent* extent, void (*body)(void*), size_t steps) {
    struct member members[MOST_THREADS];
    uint64_t sum = 0;
    for (unsigned i = 0; i < extent->threads; i++)
        members[i] =
            (struct member){.steps = scaled(extent, steps), .index = i, .threads = extent->threads};
    in_threads(extent->threads, body, members, sizeof *members);
    for (unsigned i = 0; i < extent->threads; i++) sum += members[i].ring.sum;
    return sum;
}

static uint64_t run_six(const struct extent* extent) {
    return run_members(extent, six, SIX_SERIES);
}

// Blocks that the first thread allocates. Thread i frees those at i, i + threads, ...
static _Atomic(void*) passed[PASSED];
static size_t passed_count;

// Frees the blocks that have arrived. `next` is the place of the first that has not been freed.
static size_t free_passed(size_t next, unsigned threads) {
    void* block;
    while (next < passed_count &&
           (block = atomic_load_explicit(&passed[next], memory_order_acquire)) != NULL) {
        atomic_store_explicit(&passed[next], NULL, memory_order_relaxed);
        free(block);
        next += threads;
    }
    return next;
}

static void eight(void* argument) {
    static const struct {
        unsigned bytes, count;
    } bursts[] = {{8, 1000}, {16, 4000}, {32, 1200}, {64, 150}, {128, 100}, {256, 60},
                  {512, 15}, {1024, 6},  {4096, 3},  {8192, 1}, {32768, 1}, {131072, 1}};
    struct member* m = argument;
    size_t next = m->index;
    m->ring = ring_of(EIGHT_PLACES / m->threads);
    for (size_t i = 0; m->index == 0 && i < passed_count; i++)
        atomic_store_explicit(&passed[i], take(PASSED_BYTES), memory_order_release);
    for (size_t burst = 0; burst < m->steps; burst++) {
        next = free_passed(next, m->threads);
        size_t kind = burst % (sizeof bursts / sizeof *bursts);
        ring_put_many(&m->ring, bursts[kind].bytes, bursts[kind].count);
    }
    ring_free(&m->ring);
}

static uint64_t run_eight(const struct extent* extent) {
    passed_count = scaled(extent, PASSED);
    if (passed_count > PASSED) passed_count = PASSED;
    uint64_t sum = run_members(extent, eight, EIGHT_BURSTS);
    // What a thread had not seen before its last burst.
    for (size_t i = 0; i < passed_count; i++) free(atomic_exchange(&passed[i], NULL));
    return sum;
}

const struct workload sh6 = {
    "sh6",
    "each thread fills a ring of 10,000 blocks in all, of 1 to 1,000 B; four fifths are then freed",
    "the fast paths of small sizes, and free lists in the order and in the reverse of allocation",
    "MicroQuill's SmartHeap benchmark sh6bench",
    "frees by other threads, and blocks that live for long: a fifth survives one turn of the ring",
    run_six,
};

const struct workload sh8 = {
    "sh8",
    "threads with such rings of 200,000 blocks, most of 16 B; one in forty is another thread's",
    "long free lists of few sizes beside some blocks of up to 128 KiB; some remote frees",
    "MicroQuill's SmartHeap benchmark sh8bench",
    "random order: sizes and lifetimes follow a fixed series",
    run_eight,
};
