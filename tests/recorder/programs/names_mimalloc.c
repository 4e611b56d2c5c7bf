// mimalloc's own functions.
// expect: +1001 +1002 -1001 +1003 -1002 +1004 -1003 +1005 -1004 -1005 +1006 +1007 -1006 -1007
// expect: +1008 +1009 -1009 +1010 -1008 -1010 +1011 -1011
// kinds: aligned=3 calloc=3
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void* mi_malloc(size_t size);
void* mi_zalloc(size_t size);
void* mi_calloc(size_t count, size_t size);
void* mi_realloc(void* block, size_t size);
void* mi_expand(void* block, size_t size);
void* mi_malloc_aligned(size_t size, size_t align);
void* mi_zalloc_aligned(size_t size, size_t align);
int mi_posix_memalign(void** block, size_t align, size_t size);
char* mi_strdup(const char* string);
void mi_free(void* block);
void mi_free_aligned(void* block, size_t align);
void* mi_heap_new(void);
void* mi_heap_malloc(void* heap, size_t size);
void* mi_heap_zalloc(void* heap, size_t size);
void* mi_heap_realloc(void* heap, void* block, size_t size);
void mi_heap_destroy(void* heap);
void* mi_heap_get_backing(void);

int main(void) {
    void* first = mi_malloc(1001);
    void* second = mi_zalloc(1002);
    mi_free(first);
    void* third = mi_calloc(17, 59);
    mi_free(second);
    void* fourth = mi_malloc_aligned(1004, 64);
    mi_free(third);
    void* fifth;
    if (mi_posix_memalign(&fifth, 64, 1005) != 0) return 1;
    mi_free_aligned(fourth, 64);
    free(fifth); // the library replaces malloc, too
    if (mi_expand(NULL, 5) != NULL) return 2;
    // A string of 1005 bytes.
    static char text[1006];
    memset(text, 'x', 1005);
    char* sixth = mi_strdup(text);
    void* seventh = mi_zalloc_aligned(1007, 64);
    mi_free(sixth);
    mi_free(seventh);
    void* heap = mi_heap_new();
    void* eighth = mi_heap_malloc(heap, 1008);
    void* ninth = mi_heap_zalloc(heap, 1009);
    ninth = mi_heap_realloc(heap, ninth, 1010);
    mi_heap_destroy(heap); // frees both
    void* last = mi_malloc(1011);
    mi_heap_destroy(NULL);
    mi_free(last);
    return eighth == NULL || ninth == NULL;
}
