/* A program that declares mimalloc's functions itself, as other languages do. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void* mi_malloc(size_t size);
void* mi_zalloc_aligned(size_t size, size_t alignment);
void* mi_realloc_aligned(void* block, size_t size, size_t alignment);
void mi_free(void* block);
size_t mi_usable_size(const void* block);
bool mi_is_in_heap_region(const void* block);
int mi_version(void);
struct heap;
struct heap* mi_heap_new(void);
char* mi_heap_strdup(struct heap* heap, const char* text);
bool mi_heap_contains_block(struct heap* heap, const void* block);
void mi_heap_destroy(struct heap* heap);

int main(void) {
    char* block = mi_malloc(100);
    unsigned char* aligned = mi_zalloc_aligned(1000, 512);
    bool well = mi_is_in_heap_region(block) && mi_usable_size(block) >= 100 && mi_version() == 163;
    well = well && (uintptr_t)aligned % 512 == 0 && aligned[0] == 0 && aligned[999] == 0;
    aligned[999] = 7;
    aligned = mi_realloc_aligned(aligned, 100000, 512);
    well = well && (uintptr_t)aligned % 512 == 0 && aligned[999] == 7;
    struct heap* heap = mi_heap_new();
    char* text = mi_heap_strdup(heap, "on a heap");
    well = well && strcmp(text, "on a heap") == 0 && mi_heap_contains_block(heap, text);
    well = well && !mi_heap_contains_block(heap, block);
    mi_heap_destroy(heap);
    mi_free(aligned);
    mi_free(block);
    puts(well ? "mimalloc's symbols are Keel's" : "something differs from mimalloc");
    return !well;
}
