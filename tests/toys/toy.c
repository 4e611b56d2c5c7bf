/*
 * A small allocator with one deliberate fault. It proves that the contract tests can fail.
 *
 * Block sizes are powers of two. Blocks come from free lists and are carved from chunks of 1 MiB.
 * Blocks of 256 KiB and more are mapped separately. With TOY_NONE the allocator is correct, except
 * that it never returns the memory of small blocks to the system. With each other value it has one
 * fault.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    TOY_NONE,
    TOY_MISALIGNED,        // blocks of 100 to 200 bytes begin 8 bytes late
    TOY_OVERLAPPING,       // a size class is too small for its largest blocks
    TOY_DIRTY_CALLOC,      // calloc assumes that memory is new
    TOY_CUT_REALLOC,       // realloc copies one byte too few when it moves
    TOY_NO_ERRNO,          // errno is not set
    TOY_WRAPPED_SIZE,      // rounding a size up may wrap around
    TOY_WRAPPED_PRODUCT,   // calloc and reallocarray do not check the product
    TOY_LYING_USABLE_SIZE, // malloc_usable_size includes the first bytes of the next block
    TOY_WEAK_ALIGNMENT,    // alignments above a system page become one system page
    TOY_FORGETFUL,         // free never unmaps mapped blocks
    TOY_RACING,            // no lock
    TOY_LOCKED_IN_CHILD,   // in a forked child the lock stays taken
    TOY_QUIET_NEW          // for the C++ suite: malloc(huge) "succeeds" with a small block
};
#define HAS(fault) (TOY_FAULT == (fault))
#define EXPORT __attribute__((visibility("default")))

enum { HEADER = 32, PIECE = 1 << 20, ALONE = 1 << 18, CLASSES = 20, PAGE = 4096 };

// The header directly before each block.
struct header {
    size_t capacity; // usable bytes
    void* mapping;   // the mapping of a block that is mapped separately, else NULL
    size_t mapped;   // the bytes of this mapping
    unsigned log2;   // class of a small block
    unsigned magic;
};

static struct free_block { struct free_block* next; } * lists[CLASSES];
static char *piece, *piece_end;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void enter(void) {
    if (!HAS(TOY_RACING)) pthread_mutex_lock(&lock);
}

static void leave(void) {
    if (!HAS(TOY_RACING)) pthread_mutex_unlock(&lock);
}

static void unlock_in_child(void) {
    pthread_mutex_init(&lock, NULL);
}

__attribute__((constructor)) static void register_fork(void) {
    // If a thread holds the lock during a fork, an allocator without fork handling leaves the lock
    // taken. Here a thread always holds it.
    pthread_atfork(enter, leave, HAS(TOY_LOCKED_IN_CHILD) ? NULL : unlock_in_child);
}

static void* refuse(void) {
    if (!HAS(TOY_NO_ERRNO)) errno = ENOMEM;
    return NULL;
}

static void* map(size_t size) {
    void* p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static struct header* header_of(void* block) {
    return (struct header*)((char*)block - HEADER);
}

static void* allocate_alone(size_t size, size_t alignment) {
    size_t mapped = size + alignment + PAGE;
    char* mapping = map(mapped);
    if (!mapping) return refuse();
    char* block = (char*)(((uintptr_t)mapping + HEADER + alignment - 1) & ~(alignment - 1));
    *header_of(block) =
        (struct header){(size_t)(mapping + mapped - block), mapping, mapped, 0, 0x7074};
    return block;
}

static void* cut(unsigned log2) {
    size_t size = (size_t)1 << log2;
    if ((size_t)(piece_end - piece) < size) {
        piece = map(PIECE);
        piece_end = piece ? piece + PIECE : NULL;
        if (!piece) return NULL;
    }
    piece += size;
    return piece - size;
}

static void* allocate_small(size_t size) {
    unsigned log2 = 6;
    size_t needed = size + HEADER - (HAS(TOY_OVERLAPPING) && size > 300 ? 8 : 0);
    while (((size_t)1 << log2) < needed) log2++;
    enter();
    char* whole = (char*)lists[log2];
    if (whole) {
        struct free_block* next = lists[log2]->next;
        if (HAS(TOY_RACING)) sched_yield(); // makes the race more likely
        lists[log2] = next;
    } else {
        whole = cut(log2);
    }
    leave();
    if (!whole) return refuse();
    char* block = whole + HEADER;
    size_t capacity = ((size_t)1 << log2) - HEADER;
    if (HAS(TOY_MISALIGNED) && size >= 100 && size < 200 && capacity >= size + 8)
        block += 8, capacity -= 8;
    *header_of(block) =
        (struct header){capacity + (HAS(TOY_LYING_USABLE_SIZE) ? 16 : 0), NULL, 0, log2, 0x7074};
    return block;
}

EXPORT void* memalign(size_t alignment, size_t size) {
    if (HAS(TOY_QUIET_NEW) && size > PTRDIFF_MAX / 2) size = 64;
    if (HAS(TOY_WRAPPED_SIZE) && size > SIZE_MAX - 100) size += 100;
    if (size > PTRDIFF_MAX / 2 || alignment > PTRDIFF_MAX / 2) return refuse();
    if (alignment & (alignment - 1)) {
        errno = EINVAL;
        return NULL;
    }
    if (HAS(TOY_WEAK_ALIGNMENT) && alignment > PAGE) alignment = PAGE;
    if (alignment <= 16 && size < ALONE) return allocate_small(size);
    return allocate_alone(size, alignment < 16 ? 16 : alignment);
}

EXPORT void* malloc(size_t size) {
    return memalign(16, size);
}

EXPORT void free(void* block) {
    if (!block) return;
    struct header* header = header_of(block);
    if (header->mapping) {
        int error = errno;
        if (!HAS(TOY_FORGETFUL)) munmap(header->mapping, header->mapped);
        errno = error;
        return;
    }
    uintptr_t whole = (uintptr_t)header & ~(uintptr_t)15;
    if (HAS(TOY_MISALIGNED)) whole &= ~(uintptr_t)31;
    unsigned log2 = header->log2;
    struct free_block* freed = (struct free_block*)whole;
    enter();
    freed->next = lists[log2];
    lists[log2] = freed;
    leave();
}

static bool multiply(size_t a, size_t b, size_t* product) {
    bool wrapped = __builtin_mul_overflow(a, b, product);
    return HAS(TOY_WRAPPED_PRODUCT) || !wrapped;
}

EXPORT void* calloc(size_t count, size_t size) {
    size_t bytes;
    if (!multiply(count, size, &bytes)) return refuse();
    void* block = malloc(bytes);
    bool is_new = block && header_of(block)->mapping;
    if (block && !is_new && !HAS(TOY_DIRTY_CALLOC)) memset(block, 0, bytes);
    return block;
}

EXPORT size_t malloc_usable_size(void* block) {
    return block ? header_of(block)->capacity : 0;
}

EXPORT void* realloc(void* block, size_t size) {
    size_t old = malloc_usable_size(block);
    if (block && size == 0) {
        free(block);
        return NULL;
    }
    if (block && size <= old && size >= old / 2) return block;
    void* moved = malloc(size);
    if (!moved || !block) return moved;
    size_t kept = size < old ? size : old;
    memcpy(moved, block, kept - (HAS(TOY_CUT_REALLOC) ? 1 : 0));
    free(block);
    return moved;
}

EXPORT void* reallocarray(void* block, size_t count, size_t size) {
    size_t bytes;
    return multiply(count, size, &bytes) ? realloc(block, bytes) : refuse();
}

EXPORT int posix_memalign(void** out, size_t alignment, size_t size) {
    int error = errno;
    if (alignment < sizeof(void*) || (alignment & (alignment - 1))) return EINVAL;
    void* block = memalign(alignment, size);
    errno = error;
    if (!block) return ENOMEM;
    *out = block;
    return 0;
}

EXPORT void* aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}
EXPORT void* valloc(size_t size) {
    return memalign(PAGE, size);
}

void* pvalloc(size_t size); // not every C library declares it
EXPORT void* pvalloc(size_t size) {
    return size > SIZE_MAX - PAGE ? refuse()
                                  : memalign(PAGE, (size + PAGE - 1) & ~(size_t)(PAGE - 1));
}
