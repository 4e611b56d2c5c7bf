// checked MODE: makes one error with a block, or none.
#include <keel/heap.h>
#include <keel/keel.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/modes.h"

#ifdef ONLY_KL // malloc is that of AddressSanitizer
#define malloc kl_malloc
#define calloc kl_calloc
#define realloc kl_realloc
#define free kl_free
#endif

static volatile char sink;
static volatile int taken;

__attribute__((noinline)) static char* allocates_here(size_t bytes) {
    char* block = malloc(bytes);
    memset(block, 1, bytes);
    return block;
}
__attribute__((noinline)) static void frees_here(char* block) {
    free(block);
}

static void read_behind(void) {
    char* block = allocates_here(100);
    sink = block[100];
    frees_here(block);
}
static void write_before(void) {
    char* block = allocates_here(100);
    char before = block[-1];
    block[-1] = before;
    frees_here(block);
}
static void read_freed(void) {
    char* block = allocates_here(100);
    frees_here(block);
    sink = block[50];
}
static void read_freed_large(void) {
    char* block = allocates_here(3000000);
    frees_here(block);
    sink = block[1500000];
}
static void read_behind_shrunk(void) {
    char* block = realloc(allocates_here(100), 60);
    sink = block[60];
    frees_here(block);
}
static void read_behind_grown(void) {
    char* block = realloc(allocates_here(100000), 110000);
    block = realloc(block, 111000); // in place
    memset(block, 1, 111000);
    sink = block[111000];
    frees_here(block);
}
static void read_in_destroyed_heap(void) {
    kl_heap_t* heap = kl_heap_new();
    char* block = kl_heap_malloc(heap, 100);
    memset(block, 1, 100);
    sink = block[100];
    kl_heap_destroy(heap);
}
static void use_uninitialised(void) {
    char* block = malloc(100);
    if (block[50] == 1) taken++;
    frees_here(block);
}
static void use_uninitialised_grown(void) {
    char* block = realloc(allocates_here(100000), 110000);
    block = realloc(block, 111000);
    if (block[110500] == 1) taken++;
    frees_here(block);
}
static void leak(void) {
    allocates_here(4321);
}

// Everything that a correct program may do, with enough memory for a keeper.
static void* works(void* argument) {
    enum { LIVE = 300 };
    char* blocks[LIVE] = {NULL};
    size_t sizes[LIVE] = {0};
    uint32_t random = (uint32_t)(uintptr_t)argument;
    for (int i = 0; i < 6000; i++) {
        random = random * 1664525 + 1013904223;
        unsigned at = (random >> 8) % LIVE;
        size_t size = 1 + (random >> 10) % ((random >> 28) == 0 ? 400000u : 900u);
        char* block = (random & 3) == 0   ? kl_aligned_alloc((size_t)16 << (random >> 28), size)
                      : (random & 3) == 1 ? calloc(1, size)
                                          : realloc(blocks[at], size);
        if ((random & 3) > 1) {
            size_t kept = size < sizes[at] ? size : sizes[at];
            for (size_t j = 0; j < kept; j++) taken += block[j] != 7;
        } else {
            for (size_t j = 0; (random & 3) == 1 && j < size; j++) taken += block[j] != 0;
            free(blocks[at]);
        }
        blocks[at] = memset(block, 7, size);
        sizes[at] = size;
        if (i % 1000 == 0) (void)kl_check_all();
    }
    for (int i = 0; i < LIVE; i++) free(blocks[i]);
    return NULL;
}
static void correct(void) {
    pthread_t threads[2];
    works((void*)1);
    for (uintptr_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, works, (void*)(i + 2));
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    kl_heap_t* heap = kl_heap_new();
    for (int i = 0; i < 1000; i++) {
        char* block = kl_heap_malloc(heap, 100);
        memset(block, 7, 100);
        if (i % 3 == 0) free(block);
    }
    kl_heap_destroy(heap);
    // Other blocks get the memory of those above.
    works((void*)4);
    kl_collect(true);
    printf("wrong %d\n", taken);
}

static const struct mode modes[] = {
    {"read-behind", read_behind},
    {"write-before", write_before},
    {"read-freed", read_freed},
    {"read-freed-large", read_freed_large},
    {"read-behind-shrunk", read_behind_shrunk},
    {"read-behind-grown", read_behind_grown},
    {"read-in-destroyed-heap", read_in_destroyed_heap},
    {"use-uninitialised", use_uninitialised},
    {"use-uninitialised-grown", use_uninitialised_grown},
    {"leak", leak},
    {"correct", correct},
};

int main(int count, char** arguments) {
    return mode_run(modes, sizeof modes / sizeof *modes, count, arguments);
}
