// A program that contains its allocator, whose functions call each other by name. It writes how
// often the program called each of them with 1000 to 1999 bytes to the file of its first argument.
// The second one is the number of threads. With -DNAME(function)=... the functions are named so.
// TEXT: a text that the program contains.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef NAME
#define NAME(function) function
#endif
// The compiler must neither copy the functions nor put them into others.
#define FUNCTION __attribute__((noipa))

enum kind { MALLOC, CALLOC, REALLOC, ALIGNED, FREE, KINDS };
static atomic_long counts[KINDS];
static _Thread_local int depth;

// Before each block. `offset`: of an aligned block in the one that contains it.
struct header {
    size_t size;
    size_t offset;
    struct header* next;
    size_t unused;
};

static atomic_flag lock = ATOMIC_FLAG_INIT;
static struct header* freed;
static char* heap;
static size_t used;

static void count(enum kind kind, size_t size) {
    if (depth == 0 && size >= 1000 && size < 2000) counts[kind]++;
}

static void enter(void) {
    while (atomic_flag_test_and_set(&lock)) sched_yield();
}

static struct header* take(size_t size) {
    enum { HEAP_BYTES = 1 << 28 };
    for (struct header** link = &freed; *link != NULL; link = &(*link)->next) {
        struct header* found = *link;
        if (found->size != size) continue;
        *link = found->next;
        return found;
    }
    if (heap == NULL)
        heap = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct header* header = (struct header*)(heap + used);
    used += (sizeof *header + size + 15) & ~(size_t)15;
    return header;
}

void* NAME(malloc)(size_t size);
void* NAME(mallocx)(size_t size, int flags);
void* NAME(calloc)(size_t count, size_t size);
void* NAME(realloc)(void* block, size_t size);
int NAME(posix_memalign)(void** block, size_t align, size_t size);
void NAME(free)(void* block);
void NAME(sdallocx)(void* block, size_t size, int flags);

FUNCTION void* NAME(malloc)(size_t size) {
    count(MALLOC, size);
    enter();
    struct header* header = take(size);
    *header = (struct header){.size = size};
    atomic_flag_clear(&lock);
    return header + 1;
}

FUNCTION void* NAME(calloc)(size_t number, size_t size) {
    count(CALLOC, number * size);
    depth++;
    void* block = NAME(malloc)(number * size);
    depth--;
    return memset(block, 0, number * size);
}

FUNCTION void* NAME(realloc)(void* block, size_t size) {
    count(REALLOC, size);
    depth++;
    void* moved = NAME(malloc)(size);
    if (block != NULL) {
        size_t before = ((struct header*)block - 1)->size;
        memcpy(moved, block, before < size ? before : size);
        NAME(free)(block);
    }
    depth--;
    return moved;
}

FUNCTION int NAME(posix_memalign)(void** block, size_t align, size_t size) {
    count(ALIGNED, size);
    depth++;
    char* whole = NAME(malloc)(size + 2 * align);
    depth--;
    char* aligned = (char*)(((size_t)whole + 2 * align - 1) & ~(align - 1));
    ((struct header*)aligned)[-1] =
        (struct header){.size = size, .offset = (size_t)(aligned - whole)};
    *block = aligned;
    return 0;
}

FUNCTION void NAME(free)(void* block) {
    if (block == NULL) return;
    struct header* header = (struct header*)block - 1;
    count(FREE, header->size);
    if (header->offset != 0) {
        depth++;
        NAME(free)((char*)block - header->offset);
        depth--;
        return;
    }
    enter();
    header->next = freed;
    freed = header;
    atomic_flag_clear(&lock);
}

// jemalloc's, by which its names with a prefix are known.
FUNCTION void* NAME(mallocx)(size_t size, int flags) {
    (void)flags;
    return NAME(malloc)(size);
}
FUNCTION void NAME(sdallocx)(void* block, size_t size, int flags) {
    (void)size;
    (void)flags;
    NAME(free)(block);
}

static void* work(void* unused) {
    enum { ROUNDS = 1000 };
    for (int i = 0; i < ROUNDS; i++) {
        void* aligned;
        void* first = NAME(malloc)(1001);
        void* second = NAME(calloc)(2, 501);
        first = NAME(realloc)(first, 1003);
        if (NAME(posix_memalign)(&aligned, 64, 1004) != 0 || (size_t)aligned % 64 != 0) abort();
        NAME(free)(aligned);
        NAME(free)(first);
        NAME(sdallocx)(second, 1002, 0);
        NAME(free)(NAME(realloc)(NULL, 1006));
    }
    return unused;
}

int main(int count, char** arguments) {
    pthread_t threads[16];
    int thread_count = count > 2 ? atoi(arguments[2]) : 0;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 25; i++) NAME(free)(NAME(malloc)(1005));
        _exit(0);
    }
    for (int i = 0; i < thread_count; i++) pthread_create(&threads[i], NULL, work, NULL);
    work(NULL);
    for (int i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
    int status = 1;
    waitpid(child, &status, 0);
#ifdef TEXT
    if (count > 16) puts(TEXT);
#endif
    FILE* file = fopen(arguments[1], "w");
    for (int i = 0; i < KINDS; i++) fprintf(file, "%ld ", counts[i]);
    return fclose(file) != 0 || status != 0;
}
