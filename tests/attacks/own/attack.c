// attack KIND SIZE: attacks one block of the heap, once. own.py compares what happens with a table.
//
// Exit status 0: the attack had its effect and nobody noticed. 3: it had no effect.
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KIB = 1024, MIB = 1024 * KIB, STOPPED = 3 };

static size_t size;
static char* volatile block; // volatile: the compiler must not know what the addresses belong to
static volatile size_t zero_size = 0;
static char* volatile source; // 2 MiB that are not in the heap
static volatile char sink;

static void die(const char* what) {
    fprintf(stderr, "attack: %s\n", what);
    exit(2);
}
static void allocate(void) {
    block = malloc(size);
    if (block == NULL) die("no memory");
    memset(block, 'b', size);
}
static void stop_unless(int effect) {
    if (!effect) exit(STOPPED);
}

// Blocks of this size before and after, as programs have them.
static char* volatile around[16];
static void surround(void) {
    for (unsigned i = 0; i < 8; i++) around[i] = malloc(size);
    allocate();
    for (unsigned i = 8; i < 16; i++) around[i] = malloc(size);
}

// --- Behind the end -----------------------------------------------------------------------------

static void store_at(size_t offset) {
    block[offset] = (char)(block[offset] + 1);
}
static void free_all(void) {
    free(block);
    for (unsigned i = 0; i < 16; i++) free(around[i]);
}
static void store_1(void) {
    allocate();
    block[size] = 'a';
    free(block);
}
static void store_1_odd(void) { // behind a size that is not a multiple of 8
    size++;
    store_1();
}
static void store_1_shrunk(void) {
    allocate();
    block = realloc(block, size - 8);
    block[size - 8] = 'a';
    free(block);
}
static void store_32(void) {
    allocate();
    store_at(size + 32);
    free(block);
}
static void store_32_surrounded(void) {
    surround();
    store_at(size + 32);
    free_all();
}
static void store_run_32(void) {
    allocate();
    for (size_t i = 0; i < 32; i++) block[size + i] = 'a';
    free(block);
}
static void store_1m(void) {
    allocate();
    store_at(size + MIB);
    free(block);
}
static void store_run_1m(void) {
    allocate();
    for (size_t i = 0; i < MIB; i++) block[size + i] = 'a';
    free(block);
}
static void copy_1(void) {
    allocate();
    memcpy(block, source, size + 1);
    free(block);
}
static void copy_32(void) {
    allocate();
    memcpy(block, source, size + 32);
    free(block);
}
static void copy_1m(void) {
    allocate();
    memcpy(block, source, size + MIB);
    free(block);
}
static void copy_to_32(void) {
    allocate();
    memcpy(block + size + 32, source, 8);
    free(block);
}
static void copy_to_1m(void) {
    allocate();
    memcpy(block + size + MIB, source, 8);
    free(block);
}
static void set_32(void) {
    allocate();
    memset(block, 'a', size + 32);
    free(block);
}
static void move_32(void) {
    allocate();
    memmove(block, source, size + 32);
    free(block);
}
static void copy_from_32(void) {
    allocate();
    memcpy(source, block, size + 32);
}
static void copy_from_1m(void) {
    allocate();
    memcpy(source, block, size + MIB);
}
static void load_1m(void) {
    allocate();
    sink = block[size + MIB];
}

// --- Blocks of zero bytes -----------------------------------------------------------------------

static void allocate_zero(void) {
    block = malloc(zero_size);
    if (block == NULL) die("no memory");
}
static void zero_load(void) {
    allocate_zero();
    sink = *block;
}
static void zero_store(void) {
    allocate_zero();
    *block = 'a';
}
static void zero_copy(void) {
    allocate_zero();
    memcpy(block, source, 1);
    free(block);
}
static void zero_copy_from(void) {
    allocate_zero();
    memcpy(source, block, 1);
    free(block);
}
static void zero_load_after(void) {
    allocate_zero();
    free(block);
    sink = *block;
}
static void zero_store_after(void) {
    allocate_zero();
    free(block);
    *block = 'a';
}
static void zero_free_twice(void) {
    allocate_zero();
    free(block);
    free(block);
}

// --- After free ---------------------------------------------------------------------------------

static void free_load(void) {
    allocate();
    free(block);
    sink = block[size / 2];
    stop_unless(sink == 'b');
}
static void free_store(void) {
    allocate();
    free(block);
    block[size / 2] = 'a';
}
static void free_store_reused(void) {
    allocate();
    free(block);
    block[size / 2] = 'a';
    for (unsigned i = 0; i < 100000; i++) {
        char* other = malloc(size);
        other[0] = 1;
        free(other);
    }
}
static void free_copy(void) {
    allocate();
    free(block);
    memcpy(block, source, size);
}
static void free_copy_from(void) {
    allocate();
    free(block);
    memcpy(source, block, size);
    stop_unless(source[size / 2] == 'b');
}
static void free_not_zero(void) {
    allocate();
    free(block);
    for (size_t i = 0; i < size; i++) {
        if (block[i] != 0) return;
    }
    exit(STOPPED);
}
static void malloc_not_zero(void) {
    for (unsigned i = 0; i < 4096; i++) {
        allocate();
        free(block);
        char* other = malloc(size);
        for (size_t at = 0; at < size; at++) {
            if (other[at] != 0) return;
        }
        free(other);
        if (size > 64 * KIB && i > 64) break;
    }
    exit(STOPPED);
}
static void reused_at_once(void) {
    allocate();
    free(block);
    char* other = malloc(size);
    stop_unless(other == block);
}
static void grown_in_place(void) {
    allocate();
    char* grown = realloc(block, size + 1);
    stop_unless(grown == block);
}
static void doubled_in_place(void) {
    allocate();
    char* grown = realloc(block, 2 * size);
    stop_unless(grown == block);
}
static void reallocated_and_reused(void) {
    allocate();
    char* grown = realloc(block, 2 * size);
    char* other = malloc(size);
    sink = grown[0];
    stop_unless(other == block);
}
static void reallocated_store(void) {
    allocate();
    char* grown = realloc(block, 2 * size);
    stop_unless(grown != block);
    block[size / 2] = 'a';
    free(grown);
}

// --- Frees --------------------------------------------------------------------------------------

static void free_twice(void) {
    allocate();
    free(block);
    free(block);
}
static void free_inside(void) {
    allocate();
    free(block + 16);
}
static void size_of_nothing(void) {
    sink = (char)malloc_usable_size((void*)(uintptr_t)1);
}

static const struct {
    const char* name;
    void (*run)(void);
    int sized; // runs with each size; else with none
} attacks[] = {
    {"store-1", store_1, 1},
    {"store-1-odd", store_1_odd, 1},
    {"store-1-shrunk", store_1_shrunk, 1},
    {"store-32", store_32, 1},
    {"store-32-surrounded", store_32_surrounded, 1},
    {"store-run-32", store_run_32, 1},
    {"store-1m", store_1m, 1},
    {"store-run-1m", store_run_1m, 1},
    {"load-1m", load_1m, 1},
    {"copy-1", copy_1, 1},
    {"copy-32", copy_32, 1},
    {"copy-1m", copy_1m, 1},
    {"copy-to-32", copy_to_32, 1},
    {"copy-to-1m", copy_to_1m, 1},
    {"set-32", set_32, 1},
    {"move-32", move_32, 1},
    {"copy-from-32", copy_from_32, 1},
    {"copy-from-1m", copy_from_1m, 1},
    {"free-load", free_load, 1},
    {"free-store", free_store, 1},
    {"free-store-reused", free_store_reused, 1},
    {"free-copy", free_copy, 1},
    {"free-copy-from", free_copy_from, 1},
    {"free-not-zero", free_not_zero, 1},
    {"malloc-not-zero", malloc_not_zero, 1},
    {"reused-at-once", reused_at_once, 1},
    {"grown-in-place", grown_in_place, 1},
    {"doubled-in-place", doubled_in_place, 1},
    {"reallocated-and-reused", reallocated_and_reused, 1},
    {"reallocated-store", reallocated_store, 1},
    {"free-twice", free_twice, 1},
    {"free-inside", free_inside, 1},
    {"zero-load", zero_load, 0},
    {"zero-store", zero_store, 0},
    {"zero-copy", zero_copy, 0},
    {"zero-copy-from", zero_copy_from, 0},
    {"zero-load-after", zero_load_after, 0},
    {"zero-store-after", zero_store_after, 0},
    {"zero-free-twice", zero_free_twice, 0},
    {"size-of-nothing", size_of_nothing, 0},
};

int main(int count, char** arguments) {
    static char bytes[2 * MIB];
    const size_t attack_count = sizeof attacks / sizeof *attacks;
    source = bytes;
    memset(bytes, 'c', sizeof bytes);
    if (count == 1) { // the list
        for (size_t i = 0; i < attack_count; i++)
            printf("%s %s\n", attacks[i].name, attacks[i].sized ? "small medium large" : "none");
        return 0;
    }
    if (count != 3) die("usage: attack KIND small|medium|large|none");
    const char* name = arguments[2];
    size = name[0] == 's' ? 40 : name[0] == 'm' ? 4096 : 256 * KIB;
    for (size_t i = 0; i < attack_count; i++) {
        if (strcmp(attacks[i].name, arguments[1]) != 0) continue;
        attacks[i].run();
        fflush(stdout);
        return 0;
    }
    die("no such attack");
}
