/* An allocator for the player's tests: the C library's, with a fault to order. KEEL_FIXTURE says which:
 *
 *     crash:N     a null pointer is written to in the N-th malloc
 *     hang:N      the N-th malloc never returns
 *     sleep:N     every N-th malloc sleeps for 2 ms
 *     refuse:N    from the N-th malloc on, NULL
 *     overlap:N   the N-th malloc returns the same block as the one before
 *     map         each malloc is a mapping of its own, of 4 KiB pages
 *
 * KEEL_FIXTURE_COUNTS names a file into which the number of calls of each kind is written at the end. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* lab/allocators/src/table.rs */
struct table {
    uint32_t abi, reserved;
    void (*version)(char*, size_t);
    void* (*malloc)(size_t);
    void (*free)(void*);
    void* (*calloc)(size_t, size_t);
    void* (*realloc)(void*, size_t);
    void* (*aligned)(size_t, size_t);
    size_t (*usable_size)(void*);
    int (*init)(void);
    void (*thread_init)(void);
    void (*thread_exit)(void);
    void (*teardown)(void);
};

enum { MALLOC, FREE, CALLOC, REALLOC, ALIGNED, THREAD_INIT, THREAD_EXIT, KINDS };
static atomic_long calls[KINDS];
static char fault;
static long when;
static void* last;

static long count(int kind) {
    return atomic_fetch_add(&calls[kind], 1) + 1;
}

static void* map(size_t size) {
    size_t bytes = (size + 4095) & ~(size_t)4095;
    void* block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(block, bytes, MADV_NOHUGEPAGE);
    return block;
}

static void* fixture_malloc(size_t size) {
    long number = count(MALLOC);
    if (fault == 'c' && number == when) *(volatile int*)(intptr_t)(number - when) = 1;
    while (fault == 'h' && number == when) pause();
    if (fault == 's' && number % when == 0) usleep(2000);
    if (fault == 'r' && number >= when) return NULL;
    if (fault == 'o' && number == when) return last;
    if (fault == 'm') return map(size);
    return last = malloc(size);
}

static void fixture_free(void* block) {
    count(FREE);
    if (fault != 'm') free(block);
}

static void* fixture_calloc(size_t number, size_t size) {
    return count(CALLOC), calloc(number, size);
}
static void* fixture_realloc(void* block, size_t size) {
    return count(REALLOC), realloc(block, size);
}
static void* fixture_aligned(size_t alignment, size_t size) {
    return count(ALIGNED), memalign(alignment, size);
}
static void fixture_thread_init(void) {
    count(THREAD_INIT);
}
static void fixture_thread_exit(void) {
    count(THREAD_EXIT);
}
static void fixture_version(char* buffer, size_t size) {
    snprintf(buffer, size, "fixture 1.0");
}

static int fixture_init(void) {
    const char* order = getenv("KEEL_FIXTURE");
    if (order != NULL) {
        const char* colon = strchr(order, ':');
        fault = order[0];
        when = colon != NULL ? atol(colon + 1) : 0;
    }
    return 0;
}

static void fixture_teardown(void) {
    const char* path = getenv("KEEL_FIXTURE_COUNTS");
    FILE* file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return;
    for (int kind = 0; kind < KINDS; kind++) fprintf(file, "%ld\n", atomic_load(&calls[kind]));
    fclose(file);
}

const struct table keel_peer = {
    .abi = 1,
    .version = fixture_version,
    .malloc = fixture_malloc,
    .free = fixture_free,
    .calloc = fixture_calloc,
    .realloc = fixture_realloc,
    .aligned = fixture_aligned,
    .usable_size = malloc_usable_size,
    .init = fixture_init,
    .thread_init = fixture_thread_init,
    .thread_exit = fixture_thread_exit,
    .teardown = fixture_teardown,
};
