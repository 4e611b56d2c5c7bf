// The functions of libkeel.
// expect: +1001 +1002 -1001 +1003 -1002 -1003 +1004 +1005 -1005 +1006 -1004 -1006
// expect: +1007 -1007 +1008 -1008 +1009 -1009
// kinds: aligned=2 free_sized=1 free_aligned_sized=1
#include <stdbool.h>
#include <stdlib.h>

void* kl_malloc(size_t size);
void* kl_calloc(size_t count, size_t size);
void* kl_realloc(void* block, size_t size);
void* kl_expand(void* block, size_t size);
void* kl_aligned_alloc(size_t align, size_t size);
void kl_free(void* block);
void kl_free_sized(void* block, size_t size);
void kl_free_aligned_sized(void* block, size_t align, size_t size);
void* kl_heap_new(void);
void* kl_heap_backing(void);
void* kl_heap_malloc(void* heap, size_t size);
void* kl_heap_calloc(void* heap, size_t count, size_t size);
void* kl_heap_realloc(void* heap, void* block, size_t size);
void* kl_heap_aligned_alloc(void* heap, size_t align, size_t size);
void kl_heap_destroy(void* heap);

int main(void) {
    void* first = kl_malloc(1001);
    void* second = kl_calloc(2, 501);
    void* third = kl_realloc(first, 1003);
    kl_free(second);
    kl_free_sized(third, 1003);
    void* heap = kl_heap_new();
    void* fourth = kl_heap_malloc(heap, 1004);
    void* fifth = kl_heap_calloc(heap, 5, 201);
    fifth = kl_heap_realloc(heap, fifth, 1006);
    kl_heap_destroy(heap);              // frees both
    kl_heap_destroy(kl_heap_backing()); // frees nothing
    void* seventh = kl_aligned_alloc(64, 1007);
    kl_free_aligned_sized(seventh, 64, 1007);
    void* eighth = kl_heap_aligned_alloc(kl_heap_backing(), 64, 1008);
    kl_free(eighth);
    void* ninth = kl_malloc(1009);
    if (kl_expand(ninth, 100000) != NULL) return 1;
    kl_free(ninth);
    return fourth == NULL || fifth == NULL;
}
