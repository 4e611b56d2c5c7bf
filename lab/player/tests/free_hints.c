/* An allocator for the tests whose free functions take sizes and alignments, under names with a
 * prefix. It stores the requested size and alignment of each block, and counts the frees of each
 * kind and the frees with a wrong hint. KEEL_FIXTURE_COUNTS names a file for the counts. With
 * -DOPERATORS it is for LD_PRELOAD, and receives the hints through C++ operators. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef OPERATORS
extern void* __libc_malloc(size_t);
extern void __libc_free(void*);
#define NAME(name) name
#define FREE_SIZED _ZdlPvm
#define FREE_ALIGNED _ZdlPvSt11align_val_t
#else
#define __libc_malloc malloc
#define __libc_free free
#define NAME(name) own_##name
#define FREE_SIZED own_free_size
#define FREE_ALIGNED own_free_aligned
#endif

enum { FREE, SIZED, ALIGNED, ALIGNED_SIZED, WRONG, KINDS };
static atomic_long counts[KINDS];

struct head {
    void* base;
    size_t size, align;
};

static void* place(size_t align, size_t size, size_t hint_align) {
    size_t room = size + align + sizeof(struct head);
    void* base = room >> 32 == 0 ? __libc_malloc(room)
                                 : mmap(NULL, room, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == NULL || base == MAP_FAILED) return NULL;
    uintptr_t at = ((uintptr_t)base + sizeof(struct head) + align - 1) & ~(uintptr_t)(align - 1);
    ((struct head*)at)[-1] = (struct head){base, size, hint_align};
    return (void*)at;
}

/* SIZE_MAX: the call passed no size or no alignment. */
static void release(int kind, void* block, size_t align, size_t size) {
    if (block == NULL) return;
    struct head head = ((struct head*)block)[-1];
    counts[kind]++;
    if (size != SIZE_MAX && size != head.size) counts[WRONG]++;
    if (align != SIZE_MAX && align != head.align) counts[WRONG]++;
    if (head.size >> 32 == 0) __libc_free(head.base);
}

void* NAME(malloc)(size_t size) {
    return place(16, size, 0);
}
void NAME(free)(void* block) {
    release(FREE, block, SIZE_MAX, SIZE_MAX);
}
void* NAME(calloc)(size_t count, size_t size) {
    void* block = place(16, count * size, 0);
    return block != NULL ? memset(block, 0, count * size) : NULL;
}
void* NAME(memalign)(size_t align, size_t size) {
    return place(align < 16 ? 16 : align, size, align);
}
void* NAME(realloc)(void* old, size_t size) {
    void* block = place(16, size, 0);
    if (old == NULL || block == NULL) return block;
    struct head head = ((struct head*)old)[-1];
    memcpy(block, old, head.size < size ? head.size : size);
    __libc_free(head.base);
    return block;
}
void FREE_SIZED(void* block, size_t size) {
    release(SIZED, block, 0, size);
}
void FREE_ALIGNED(void* block, size_t align) {
    release(ALIGNED, block, align, SIZE_MAX);
}
#ifdef OPERATORS
void _ZdlPvmSt11align_val_t(void* block, size_t size, size_t align) {
    release(ALIGNED_SIZED, block, align, size);
}
#else
void own_free_aligned_sized(void* block, size_t align, size_t size) {
    release(ALIGNED_SIZED, block, align, size);
}
#endif

__attribute__((destructor)) static void write_counts(void) {
    const char* path = getenv("KEEL_FIXTURE_COUNTS");
    long now[KINDS];
    for (int kind = 0; kind < KINDS; kind++) now[kind] = counts[kind];
    FILE* file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return;
    for (int kind = 0; kind < KINDS; kind++) fprintf(file, "%ld\n", now[kind]);
    fclose(file);
}
