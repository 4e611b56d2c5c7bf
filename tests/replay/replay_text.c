/*
 * Replays a text journal of a real program and verifies every block: aligned, zeroed by calloc,
 * kept by realloc, and still holding its pattern when it is freed. One real thread for each of the
 * journal's; an operation waits until the block that it needs has been made.
 *
 *     replay_text [--most OPERATIONS] < JOURNAL
 *
 * Lines: `a SIZE PTR TID NS` · `f PTR TID NS` · `c TOTAL PTR TID NS` · `r NEWSIZE OLD NEW TID NS` ·
 * `m ALIGN SIZE PTR TID NS` Prints the counts, which depend on the journal alone.
 */
#include "memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "subject.h"

enum { MOST_THREADS = 64, MOST_OPERATIONS = 30 * 1000 * 1000 };

// An object is one block's life, numbered in the order of allocation; its facts are in tables
// outside of the heap.
struct operation {
    uint64_t size;
    uint32_t object; // made, or freed by 'f'
    uint32_t old;    // consumed by 'r', or 0
    uint32_t alignment;
    uint8_t kind;
    uint8_t thread;
};

struct object {
    _Atomic(void*) block; // NULL until it is made
    size_t size;
};

// Address -> live object while reading: open addressing, deletion by shifting back would be slow,
// so by tombstones that are the entry itself with object 0 (addresses recur, and find their old
// entry again).
struct entry {
    uint64_t address;
    uint32_t object;
};
enum { TABLE = 1 << 25 };

static struct operation* operations;
static struct object* objects;
static struct entry* table;
static size_t operation_count, thread_count;
static uint32_t object_count;

static __attribute__((noreturn)) void fail(const char* what, size_t operation) {
    dprintf(STDERR_FILENO, "replay_text: %s (operation %zu)\n", what, operation + 1);
    _exit(1);
}

static void* reserve(size_t bytes) {
    void* p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) fail("no address space for the journal", 0);
    return p;
}

static struct entry* find(uint64_t address) {
    uint64_t at = (address * 0x9E3779B97F4A7C15u) >> 39;
    while (table[at].address != 0 && table[at].address != address) at = (at + 1) % TABLE;
    table[at].address = address;
    return &table[at];
}

static uint32_t bear(uint64_t address) {
    return find(address)->object = ++object_count;
}

static uint32_t bury(uint64_t address) {
    struct entry* entry = find(address);
    uint32_t object = entry->object;
    if (object == 0) fail("the journal frees what is not live", operation_count);
    entry->object = 0;
    return object;
}

static bool parse(const char* line, struct operation* operation) {
    unsigned long long field[5];
    int fields = sscanf(line + 1, "%llu %llx %llu", &field[0], &field[1], &field[2]);
    operation->kind = (uint8_t)line[0];
    switch (line[0]) {
    case 'a':
    case 'c':
        if (fields < 3) return false;
        operation->size = field[0];
        operation->object = bear(field[1]);
        operation->thread = (uint8_t)field[2];
        return true;
    case 'f':
        if (sscanf(line + 1, "%llx %llu", &field[0], &field[1]) < 2) return false;
        operation->object = bury(field[0]);
        operation->thread = (uint8_t)field[1];
        return true;
    case 'r':
        if (sscanf(line + 1, "%llu %llx %llx %llu", &field[0], &field[1], &field[2], &field[3]) < 4)
            return false;
        operation->size = field[0];
        operation->old = field[1] ? bury(field[1]) : 0;
        operation->object = bear(field[2]);
        operation->thread = (uint8_t)field[3];
        return true;
    case 'm':
        if (sscanf(line + 1, "%llu %llu %llx %llu", &field[0], &field[1], &field[2], &field[3]) < 4)
            return false;
        operation->alignment = (uint32_t)field[0];
        operation->size = field[1];
        operation->object = bear(field[2]);
        operation->thread = (uint8_t)field[3];
        return true;
    default:
        return false;
    }
}

static void read_journal(size_t most) {
    char line[256];
    while (operation_count < most && fgets(line, sizeof line, stdin)) {
        struct operation* operation = &operations[operation_count];
        if (!parse(line, operation)) fail("a line that is no operation", operation_count);
        if (operation->thread >= MOST_THREADS) fail("too many threads", operation_count);
        if (operation->thread >= thread_count) thread_count = (size_t)operation->thread + 1;
        operation_count++;
    }
}

static void* await(uint32_t object) {
    void* block;
    while (!(block = atomic_load_explicit(&objects[object].block, memory_order_acquire)))
        sched_yield();
    return block;
}

static void check_contents(uint32_t object, const void* block, size_t size, size_t at) {
    if (!pattern_holds(block, size, objects[object].size, object)) fail("contents are damaged", at);
}

static void* make(const struct operation* operation, size_t at) {
    void* block = NULL;
    if (operation->kind == 'a') block = malloc(operation->size);
    if (operation->kind == 'm') block = memalign(operation->alignment, operation->size);
    if (operation->kind == 'c') {
        block = calloc(1, operation->size);
        if (block && !is_zero(block, operation->size))
            fail("calloc returned memory that is not zero", at);
    }
    if (operation->kind == 'r') {
        void* old = operation->old ? await(operation->old) : NULL;
        size_t kept = objects[operation->old].size < operation->size ? objects[operation->old].size
                                                                     : operation->size;
        if (old) check_contents(operation->old, old, objects[operation->old].size, at);
        block = realloc(old, operation->size);
        if (block && old) check_contents(operation->old, block, kept, at);
    }
    return block;
}

static void execute(const struct operation* operation, size_t at) {
    struct object* object = &objects[operation->object];
    if (operation->kind == 'f') {
        void* block = await(operation->object);
        check_contents(operation->object, block, object->size, at);
        free(block);
        return;
    }
    void* block = make(operation, at);
    size_t alignment = operation->alignment ? operation->alignment : operation->size <= 8 ? 8 : 16;
    if (!block) fail("no memory", at);
    if (!is_aligned(block, alignment)) fail("a block is not aligned", at);
    if (malloc_usable_size(block) < operation->size)
        fail("the usable size is less than the requested size", at);
    pattern_fill(block, operation->size, operation->object);
    object->size = operation->size;
    atomic_store_explicit(&object->block, block, memory_order_release);
}

static void* run_thread(void* argument) {
    uint8_t thread = (uint8_t)(uintptr_t)argument;
    for (size_t at = 0; at < operation_count; at++) {
        if (operations[at].thread == thread) execute(&operations[at], at);
    }
    return NULL;
}

int main(int argc, char** argv) {
    pthread_t threads[MOST_THREADS];
    size_t most =
        argc == 3 && strcmp(argv[1], "--most") == 0 ? strtoull(argv[2], NULL, 10) : MOST_OPERATIONS;
    if ((argc != 1 && argc != 3) || most > MOST_OPERATIONS) {
        fprintf(stderr, "usage: replay_text [--most OPERATIONS, up to %d] < JOURNAL\n",
                MOST_OPERATIONS);
        return 2;
    }
    operations = reserve(MOST_OPERATIONS * sizeof *operations);
    objects = reserve(MOST_OPERATIONS * sizeof *objects);
    table = reserve(TABLE * sizeof *table);
    read_journal(most);
    for (uintptr_t i = 0; i < thread_count; i++) {
        if (pthread_create(&threads[i], NULL, run_thread, (void*)i) != 0)
            fail("cannot start a thread", 0);
    }
    for (size_t i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
    printf("%zu operations, %u objects, %zu threads, all contents verified\n", operation_count,
           object_count, thread_count);
    return 0;
}
