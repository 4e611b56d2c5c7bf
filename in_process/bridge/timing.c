// See timing.h. A bucket of the histogram has a width of a 32nd of its power of two. A thread adds
// to one of several tables, each on cache lines of its own. More threads share a table, so that
// tables need no owner and no end of a thread.
#include "timing.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { PARTS_BITS = 5, PARTS = 1 << PARTS_BITS, BUCKETS = (64 - PARTS_BITS + 1) * PARTS };
enum { TABLES = 16, PAIRS = 1000 };

static struct table {
    _Alignas(64) _Atomic uint32_t count[BUCKETS];
    _Atomic uint64_t worst;
} own_tables[TABLES];
static struct table* tables = own_tables;
static _Atomic unsigned threads;
static _Thread_local unsigned own __attribute__((tls_model("initial-exec"))); // from 1; 0: none yet
static uint64_t shortest_pair, start_ticks, start_ns;

static uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t timing_begin(void) {
#if defined(__x86_64__)
    _mm_lfence();
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(ticks)::"memory");
    return ticks;
#else
    return clock_ns();
#endif
}

static uint64_t timing_now(void) {
#if defined(__x86_64__)
    unsigned processor;
    uint64_t ticks = __rdtscp(&processor);
    _mm_lfence();
    return ticks;
#else
    return timing_begin();
#endif
}

// 0 to 31 have a bucket each; from there on, each power of two has 32.
static unsigned bucket_of(uint64_t ticks) {
    if (ticks < PARTS) return (unsigned)ticks;
    unsigned above = 63u - (unsigned)__builtin_clzll(ticks) - PARTS_BITS;
    return (above + 1) * PARTS + (unsigned)((ticks >> above) - PARTS);
}
// The middle of a bucket.
static double ticks_of(unsigned bucket) {
    if (bucket < PARTS) return bucket;
    unsigned above = bucket / PARTS - 1;
    double width = (double)((uint64_t)1 << above);
    return ((double)(bucket % PARTS + PARTS) + 0.5) * width;
}

void timing_end(uint64_t begun) {
    uint64_t now = timing_now(), ticks = now > begun ? now - begun : 0;
    if (own == 0) own = 1 + atomic_fetch_add(&threads, 1) % TABLES;
    struct table* table = &tables[own - 1];
    atomic_fetch_add_explicit(&table->count[bucket_of(ticks)], 1, memory_order_relaxed);
    uint64_t worst = atomic_load_explicit(&table->worst, memory_order_relaxed);
    while (worst < ticks && !atomic_compare_exchange_weak(&table->worst, &worst, ticks)) continue;
}

bool timing_share(const char* file) {
    int descriptor = open(file, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return false;
    // Each process does this; the file already has this size then.
    void* place = MAP_FAILED;
    if (ftruncate(descriptor, sizeof own_tables) == 0)
        place = mmap(NULL, sizeof own_tables, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (place == MAP_FAILED) return false;
    tables = place;
    return true;
}

void timing_start(void) {
    // Shared tables contain the calls of other processes.
    for (unsigned at = 0; at < TABLES && tables == own_tables; at++) {
        for (unsigned i = 0; i < BUCKETS; i++) tables[at].count[i] = 0;
        tables[at].worst = 0;
    }
    shortest_pair = UINT64_MAX;
    for (unsigned i = 0; i < PAIRS; i++) {
        uint64_t begun = timing_begin(), ticks = timing_now() - begun;
        if (ticks < shortest_pair) shortest_pair = ticks;
    }
    start_ns = clock_ns();
    start_ticks = timing_begin();
}

static uint64_t count_in(unsigned bucket) {
    uint64_t sum = 0;
    for (unsigned at = 0; at < TABLES; at++) sum += tables[at].count[bucket];
    return sum;
}

// The time, in ticks, that a share of all calls does not exceed.
static double percentile(uint64_t calls, double share) {
    double wanted = (double)calls * share;
    uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        seen += count_in(bucket);
        if (seen > 0 && (double)seen >= wanted) return ticks_of(bucket);
    }
    return 0;
}

void timing_write(const char* file) {
    uint64_t calls = 0, worst = 0, ns = clock_ns() - start_ns;
    uint64_t ticks = timing_begin() - start_ticks;
    double each = ticks > 0 ? (double)ns / (double)ticks : 1;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) calls += count_in(bucket);
    for (unsigned at = 0; at < TABLES; at++)
        if (tables[at].worst > worst) worst = tables[at].worst;
    FILE* output = fopen(file, "w");
    if (output == NULL) return;
    fprintf(output,
            "{\"calls\": %llu, \"p50_ns\": %.1f, \"p99_ns\": %.1f, \"p999_ns\": %.1f, "
            "\"worst_ns\": %.0f, \"pair_ns\": %.1f}\n",
            (unsigned long long)calls, each * percentile(calls, 0.5),
            each * percentile(calls, 0.99), each * percentile(calls, 0.999), each * (double)worst,
            each * (double)shortest_pair);
    fclose(output);
}
