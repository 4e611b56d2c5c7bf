/* An allocator whose every cost is known, for the test of the instrument. The C library's functions
 * are not called.
 *
 *     malloc(1)     100 multiplications, each of which needs the result of the one before
 *     malloc(10)    the same ten times
 *     malloc(SIZE)  otherwise an action, then a loop until the counter has moved by SIZE ticks:
 *                   SIZE % 10 is 6 for a page fault, 7 for a system call, 8 for a load of a line
 *                   that is in no cache, else for no action
 *     calloc        measures the multiplications: many in a row, with the clock read once
 *
 * The file KEEL_BIAS has, at the end, a line with the ticks of a reading of the counter, and of 100
 * multiplications; then for each malloc the ticks that it took by its own count, one a line. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include "bridge/bridge.h"

enum { MOST_CALLS = 1 << 20, PAGES = 1 << 14, PAGE = 4096, IN_A_ROW = 64, MOST_SAMPLES = 1 << 16 };

static uint64_t factor = 3;
static uint32_t* took;
static size_t calls;
static char *pages, *lines, block[4096];
static size_t pages_used, lines_used;
static double chains[MOST_SAMPLES], readings[MOST_SAMPLES];
static size_t samples;

/* Nothing before it is under way, and nothing after it has begun. */
static inline uint64_t now(void) {
    _mm_lfence();
    uint64_t ticks = __rdtsc();
    _mm_lfence();
    return ticks;
}

static __attribute__((noinline)) void multiply(void) {
    uint64_t product = factor;
    __asm__ volatile(".rept 100\n imul $5, %0, %0\n .endr" : "+r"(product));
    factor = product;
}

static void act(size_t kind) {
    if (kind == 6) *(volatile char*)&pages[pages_used++ % PAGES * PAGE] = 1;
    if (kind == 7) syscall(SYS_getppid);
    /* In an order that no prefetcher expects. */
    if (kind == 8) (void)*(volatile char*)&lines[lines_used++ * 40503 % PAGES * PAGE];
}

static void* timed_malloc(size_t size) {
    uint64_t begin = now(), end;
    act(size % 10);
    do end = now();
    while (end - begin < size);
    /* The processor expects one more turn; what this costs is a part of the call. */
    end = now();
    took[calls++ % MOST_CALLS] = (uint32_t)(end - begin);
    return block;
}

static void* bias_malloc(size_t size) {
    if (size == 1) {
        multiply();
        return block;
    }
    if (size != 10) return timed_malloc(size);
    for (int turn = 0; turn < 10; turn++) multiply();
    return block;
}

static void* bias_calloc(size_t number, size_t size) {
    (void)number, (void)size;
    uint64_t begin = now();
    for (int turn = 0; turn < IN_A_ROW; turn++) multiply();
    uint64_t middle = now();
    for (int turn = 0; turn < IN_A_ROW; turn++) now();
    uint64_t end = now();
    size_t at = samples++ % MOST_SAMPLES;
    readings[at] = (double)(end - middle) / (IN_A_ROW + 1);
    chains[at] = ((double)(middle - begin) - readings[at]) / IN_A_ROW;
    return block;
}

static void bias_free(void* freed) {
    (void)freed;
}
static void* bias_of_two(size_t first, size_t second) {
    (void)first, (void)second;
    return block;
}
static void* bias_realloc(void* old, size_t size) {
    (void)old, (void)size;
    return block;
}
static void bias_version(char* buffer, size_t size) {
    snprintf(buffer, size, "bias 1.0");
}

static char* map(size_t bytes, int flags) {
    char* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    return memory;
}

static int bias_init(void) {
    took = (uint32_t*)map(MOST_CALLS * sizeof *took, MAP_POPULATE);
    pages = map((size_t)PAGES * PAGE, 0);
    lines = map((size_t)PAGES * PAGE, 0);
    for (size_t line = 0; line < PAGES; line++) lines[line * PAGE] = 1;
    for (size_t line = 0; line < PAGES; line++) _mm_clflush(&lines[line * PAGE]);
    for (size_t at = 0; at < MOST_SAMPLES; at++) chains[at] = readings[at] = 0;
    return 0;
}

static int compare(const void* one, const void* other) {
    double a = *(const double*)one, b = *(const double*)other;
    return (a > b) - (a < b);
}

static double median(double* values) {
    size_t count = samples < MOST_SAMPLES ? samples : MOST_SAMPLES;
    qsort(values, count, sizeof *values, compare);
    return count > 0 ? values[count / 2] : 0;
}

static void bias_teardown(void) {
    const char* path = getenv("KEEL_BIAS");
    FILE* file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return;
    fprintf(file, "%f %f\n", median(readings), median(chains));
    for (size_t call = 0; call < calls && call < MOST_CALLS; call++) {
        fprintf(file, "%u\n", took[call]);
    }
    fclose(file);
}

const struct bridge_table keel_peer = {
    .abi = 1,
    .version = bias_version,
    .malloc = bias_malloc,
    .free = bias_free,
    .calloc = bias_calloc,
    .realloc = bias_realloc,
    .aligned = bias_of_two,
    .init = bias_init,
    .teardown = bias_teardown,
};
