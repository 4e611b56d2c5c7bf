// See synthetic.h.
#include "synthetic.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

size_t scaled(const struct extent* extent, size_t count) {
    double wanted = (double)count * extent->scale;
    return wanted < 1 ? 1 : (size_t)wanted;
}

uint64_t draw(uint64_t* state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

size_t between(uint64_t* state, size_t low, size_t high) {
    return low + (size_t)(draw(state) % (high - low + 1));
}

size_t between_log(uint64_t* state, size_t low, size_t high) {
    unsigned doublings = 0;
    while (low << (doublings + 1) <= high) doublings++;
    if (doublings == 0) return between(state, low, high);
    size_t base = low << (draw(state) % doublings);
    return between(state, base, 2 * base - 1);
}

void fail(const char* message) {
    fprintf(stderr, "keel-synthetic: %s\n", message);
    exit(1);
}

static void* must(void* block) {
    if (block == NULL) fail("the allocator returned no memory");
    return block;
}

void* take(size_t bytes) {
    char* block = must(malloc(bytes));
    for (size_t at = 0; at < bytes; at += 4096) block[at] = 1;
    return block;
}

void* take_zeroed(size_t count, size_t size) {
    return must(calloc(count, size));
}

void* resize(void* block, size_t bytes) {
    return must(realloc(block, bytes));
}

uint64_t fill(void* block, size_t bytes) {
    uint64_t* word = block;
    for (size_t i = 0; i < bytes / sizeof *word; i++) word[i] = bytes - i;
    return bytes;
}

uint64_t sum_words(const void* block, size_t bytes) {
    const uint64_t* word = block;
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes / sizeof *word; i++) sum += word[i];
    return sum;
}

struct start {
    void (*body)(void*);
    void* argument;
};

static void* begin(void* argument) {
    struct start* start = argument;
    start->body(start->argument);
    return NULL;
}

void in_threads(unsigned count, void (*body)(void*), void* arguments, size_t stride) {
    pthread_t thread[MOST_THREADS];
    struct start start[MOST_THREADS];
    if (count > MOST_THREADS) fail("too many threads");
    for (unsigned i = 0; i < count; i++) {
        start[i] = (struct start){body, (char*)arguments + i * stride};
        if (pthread_create(&thread[i], NULL, begin, &start[i]) != 0) fail("no thread");
    }
    for (unsigned i = 0; i < count; i++) pthread_join(thread[i], NULL);
}
