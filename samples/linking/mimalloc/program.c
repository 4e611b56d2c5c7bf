/* A program written for mimalloc, in C. */
#include <mimalloc.h>
#include <stdio.h>
#include <string.h>

static bool count(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t block_size,
                  void* argument) {
    (void)heap, (void)area, (void)block_size;
    *(int*)argument += block != NULL;
    return true;
}

int main(void) {
    mi_option_set(mi_option_reset_delay, 100);
    mi_heap_t* heap = mi_heap_new();
    char* text = mi_heap_strdup(heap, "on a heap");
    int* numbers = mi_heap_calloc_tp(heap, int, 100);
    int blocks = 0;
    bool well = mi_heap_visit_blocks(heap, true, count, &blocks) && blocks == 2;
    well = well && mi_heap_check_owned(heap, numbers) && strcmp(text, "on a heap") == 0;
    well = well && mi_is_in_heap_region(text) && kl_contains(text);
    mi_heap_destroy(heap);
    void* aligned = mi_malloc_aligned(1000, 256);
    aligned = mi_realloc(aligned, 2000);
    well = well && mi_usable_size(aligned) >= 2000;
    mi_free(aligned);
    puts(well ? "mimalloc's names are Keel's" : "something differs from mimalloc");
    return !well;
}
