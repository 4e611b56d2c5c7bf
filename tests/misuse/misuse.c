// misuse MISUSE PLACE: misuses one block of the heap, once. run.py compares what happens with the
// table.
//
// Before the misuse the program prints its address and the numbers of the threads. If the program
// reaches its end, it prints `survived`.
#include <inttypes.h>
#include <keel/arena.h>
#include <keel/heap.h>
#include <keel/keel.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KIB = 1024, MIB = 1024 * KIB };

static void die(const char* what) {
    fprintf(stderr, "misuse: %s\n", what);
    exit(2);
}

// --- Places: where the block is from ------------------------------------------------------------

struct place {
    const char* name;
    size_t size;
    void* (*allocate)(size_t size);
};

static void* plain(size_t size) {
    return kl_malloc(size);
}

static void* zeroed(size_t size) {
    return kl_calloc(1, size);
}

static void* resized(size_t size) {
    return kl_realloc(kl_malloc(size / 2), size);
}

extern void* operator_new(size_t size) __asm__("_Znwm");
static void* by_new(size_t size) {
    return operator_new(size);
}

static void* aligned(size_t size) {
    return kl_aligned_alloc(4096, size);
}

static kl_heap_t* heap;
static void* in_heap(size_t size) {
    if (heap == NULL) heap = kl_heap_new();
    return kl_heap_malloc(heap, size);
}

static void* in_arena(size_t size) {
    if (heap == NULL) {
        kl_arena_t* arena = kl_reserve_os_memory(64 * MIB, kl_memory_exclusive);
        if (arena == NULL) die("no arena");
        heap = kl_heap_new_in_arena(arena);
    }
    return kl_heap_malloc(heap, size);
}

static long other_thread;
static pthread_barrier_t allocated;
static void* allocates(void* size) {
    other_thread = syscall(SYS_gettid);
    return kl_malloc((size_t)size);
}

static void* by_ended_thread(size_t size) {
    pthread_t thread;
    void* block;
    if (pthread_create(&thread, NULL, allocates, (void*)size) != 0) die("no thread");
    pthread_join(thread, &block);
    return block;
}

static void* block_of_thread;
static void* allocates_and_stays(void* size) {
    other_thread = syscall(SYS_gettid);
    block_of_thread = kl_malloc((size_t)size);
    pthread_barrier_wait(&allocated);
    pause();
    return NULL;
}

static void* by_other_thread(size_t size) {
    pthread_t thread;
    kl_free(kl_malloc(100)); // this thread has a heap
    pthread_barrier_init(&allocated, NULL, 2);
    if (pthread_create(&thread, NULL, allocates_and_stays, (void*)size) != 0) die("no thread");
    pthread_barrier_wait(&allocated);
    return block_of_thread;
}

// The rest of the program runs in the child.
static void* before_fork(size_t size) {
    void* block = kl_malloc(size);
    pid_t child = fork();
    if (child < 0) die("no child");
    if (child == 0) return block;
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    _exit(3);
}

static const struct place places[] = {
    {"small", 100, plain},
    {"smallest", 1, plain},
    {"medium", 4000, plain},
    {"wide", 40000, plain},
    {"large", 200000, plain},
    {"jumbo", 100 * MIB, plain},
    {"aligned", 5000, aligned},
    {"calloc", 100, zeroed},
    {"realloc", 100, resized},
    {"new", 100, by_new},
    {"heap", 100, in_heap},
    {"heap-large", 200000, in_heap},
    {"arena", 100, in_arena},
    {"arena-large", 200000, in_arena},
    {"thread", 100, by_other_thread},
    {"thread-large", 200000, by_other_thread},
    {"ended", 100, by_ended_thread},
    {"fork", 100, before_fork},
};

// --- Misuses ------------------------------------------------------------------------------------

static const struct place* place;
static size_t usable;
static char* first_byte; // of the block

static void announce(const void* address) {
    printf("address=0x%" PRIxPTR " block=0x%" PRIxPTR
           " offset=%td bytes=%zu half=%zu quarter=%zu more=%zu thread=%ld other=%ld\n",
           (uintptr_t)address, (uintptr_t)first_byte, (const char*)address - first_byte, usable,
           place->size / 2, place->size / 4, usable + 1, (long)syscall(SYS_gettid), other_thread);
    fflush(stdout);
}

// Frees the block. `address` is the one that the misuse is about.
static void free_first(void* block, const void* address) {
    announce(address);
    kl_free(block);
}

static void double_free(char* block) {
    free_first(block, block);
    kl_free(block);
}

static void double_free_later(char* block) {
    free_first(block, block);
    for (size_t i = 0; i < 2000; i++) {
        void* other = kl_malloc(i % 7 * 300 + 300);
        if (i % 3 != 0) kl_free(other);
    }
    kl_free(block);
}

static void free_inside(char* block) {
    announce(block + 16);
    kl_free(block + 16);
}

static void free_unaligned(char* block) {
    announce(block + 1);
    kl_free(block + 1);
}

static void free_far_inside(char* block) {
    char* address = block + (place->size / 2 & ~(size_t)15) + 64 * (place->size < 1000);
    announce(address);
    kl_free(address);
}

// Not by memset, which some flavours check.
static void store_8(char* to) {
    for (size_t i = 0; i < 8; i++) ((volatile char*)to)[i] = 0x41;
}

static void overflow(char* block) {
    announce(block);
    block[usable] = (char)~block[usable]; // another value than before
    kl_free(block);
}

static void overflow_long(char* block) {
    announce(block);
    store_8(block + usable);
    kl_free(block);
}

static void underflow(char* block) {
    announce(block);
    block[-1] = (char)~block[-1];
    kl_free(block);
}

static void underflow_long(char* block) {
    announce(block);
    store_8(block - 8);
    kl_free(block);
}

static void overflow_and_check(char* block) {
    announce(block);
    block[usable] = (char)~block[usable];
    kl_check_all();
}

static char outside[200 * MIB];

static void copy_beyond(char* block) {
    announce(block);
    memcpy(block, outside, usable + 1);
    kl_free(block);
}

static void copy_from_beyond(char* block) {
    announce(block);
    memmove(outside, block, usable + 1);
}

static void set_beyond(char* block) {
    announce(block + usable - 1);
    memset(block + usable - 1, 0x41, 2);
    kl_free(block);
}

static void copy_after_free(char* block) {
    free_first(block, block);
    memcpy(block, outside, 8);
}

// Allocates and frees so many blocks that each free block of the page is reused.
static void reuse_all(void) {
    static char* others[64];
    for (size_t i = 0; i < 20000; i++) {
        kl_free(others[i % 64]);
        char* other = others[i % 64] = heap != NULL ? kl_heap_malloc(heap, place->size)
                                       : place->allocate == aligned ? aligned(place->size)
                                                                    : kl_malloc(place->size);
        if (other == NULL) die("no memory");
    }
}

static void write_after_free_begin(char* block) {
    free_first(block, block);
    store_8(block);
    reuse_all();
}

static void write_after_free_middle(char* block) {
    free_first(block, block);
    block[place->size / 2] = 0x41;
    reuse_all();
}

// Written as at the beginning, but never reused: the memory goes back to the system.
static void write_after_free_purge(char* block) {
    free_first(block, block);
    store_8(block);
    if (heap != NULL) kl_heap_collect(heap, true);
    kl_collect(true);
}

static void read_after_free(char* block) {
    free_first(block, block);
    volatile char byte = block[place->size / 2];
    (void)byte;
}

static void realloc_after_free(char* block) {
    free_first(block, block);
    void* resized = kl_realloc(block, place->size + 1);
    (void)resized;
}

static void realloc_inside(char* block) {
    announce(block + 16);
    void* resized = kl_realloc(block + 16, place->size + 1);
    (void)resized;
}

static void size_after_free(char* block) {
    free_first(block, block);
    (void)kl_usable_size(block);
}

static void size_inside(char* block) {
    announce(block + 16);
    (void)kl_usable_size(block + 16);
}

static void free_with_size_too_small(char* block) {
    announce(block);
    kl_free_sized(block, place->size / 4);
}

static void free_with_size_too_large(char* block) {
    announce(block);
    kl_free_sized(block, kl_usable_size(block) + 1);
}

static void free_never_allocated(char* block) {
    size_t distance = usable + 8; // of two blocks, unless the usable size is the requested one
    if (usable == place->size && usable > 1000) distance = (distance + 4095) & ~(size_t)4095;
    distance = place->size > 64 * KIB ? (size_t)2048 * MIB : 2 * distance;
    char* address = block + distance;
    announce(address);
    kl_free(address);
}

static void free_of_stack(char* block) {
    _Alignas(64) char bytes[256] = {0};
    (void)block;
    announce(bytes);
    kl_free(bytes);
}

static void free_of_global(char* block) {
    _Alignas(64) static char bytes[256];
    (void)block;
    announce(bytes);
    kl_free(bytes);
}

static void free_of_mapping(char* block) {
    char* map = mmap(NULL, 3 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)block;
    announce(map + 4096);
    kl_free(map + 4096);
}

static void free_of_impossible_address(char* block) {
    char* address = (char*)((uintptr_t)block | (uintptr_t)1 << 50);
    announce(address);
    kl_free(address);
}

static void free_after_destroy(char* block) {
    if (heap == NULL) die("not in a heap");
    announce(block);
    kl_heap_destroy(heap);
    kl_free(block);
}

static const struct {
    const char* name;
    void (*run)(char* block);
} misuses[] = {
    {"double-free", double_free},
    {"double-free-later", double_free_later},
    {"free-inside", free_inside},
    {"free-unaligned", free_unaligned},
    {"free-far-inside", free_far_inside},
    {"overflow-1", overflow},
    {"overflow-8", overflow_long},
    {"overflow-check", overflow_and_check},
    {"underflow-1", underflow},
    {"underflow-8", underflow_long},
    {"copy-beyond", copy_beyond},
    {"copy-from-beyond", copy_from_beyond},
    {"set-beyond", set_beyond},
    {"copy-after-free", copy_after_free},
    {"write-after-free-begin", write_after_free_begin},
    {"write-after-free-middle", write_after_free_middle},
    {"write-after-free-purge", write_after_free_purge},
    {"read-after-free", read_after_free},
    {"realloc-after-free", realloc_after_free},
    {"realloc-inside", realloc_inside},
    {"size-after-free", size_after_free},
    {"size-inside", size_inside},
    {"size-too-small", free_with_size_too_small},
    {"size-too-large", free_with_size_too_large},
    {"never-allocated", free_never_allocated},
    {"stack", free_of_stack},
    {"global", free_of_global},
    {"mapping", free_of_mapping},
    {"impossible-address", free_of_impossible_address},
    {"after-destroy", free_after_destroy},
};

int main(int count, char** arguments) {
    if (count != 3) die("usage: misuse MISUSE PLACE");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (strcmp(places[i].name, arguments[2]) == 0) place = &places[i];
    }
    if (place == NULL) die("no such place");
    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
        if (strcmp(misuses[i].name, arguments[1]) != 0) continue;
        char* block = place->allocate(place->size);
        if (block == NULL) die("no memory");
        memset(block, 1, place->size);
        usable = kl_usable_size(block);
        first_byte = block;
        misuses[i].run(block);
        puts("survived");
        fflush(stdout);
        _exit(0);
    }
    die("no such misuse");
}
