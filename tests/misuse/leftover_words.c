// The secure flavour's links and state words reveal its key. No new block may contain one, although
// the program can read blocks that it has not written to.
//
// The program fills each block with one byte before it frees it. Every other word that it finds in
// a new block is one of Keel's.
#include <keel/heap.h>
#include <keel/keel.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define BLOCKS 3000
#define FILL 0x55

static const size_t sizes[] = {8, 40, 100, 1000, 5000, 20000, 70000, 300000};
#define SIZES (sizeof sizes / sizeof *sizes)
static unsigned char* blocks[BLOCKS];
static unsigned long read_words, other_words;

static unsigned count_of(size_t size) {
    return size <= 1000 ? BLOCKS : size <= 20000 ? BLOCKS / 10 : BLOCKS / 100;
}

static void look_into(const unsigned char* block) {
    for (size_t at = 0; at + 8 <= kl_usable_size(block); at += 8) {
        uint64_t word, fill;
        memcpy(&word, block + at, 8);
        memset(&fill, FILL, 8);
        read_words += word == fill;
        other_words += word != 0 && word != fill;
    }
}

static void use(kl_heap_t* heap, size_t size) {
    for (unsigned i = 0; i < count_of(size); i++) {
        blocks[i] = heap != NULL ? kl_heap_malloc(heap, size) : kl_malloc(size);
        look_into(blocks[i]);
        memset(blocks[i], FILL, kl_usable_size(blocks[i]));
    }
    // Every third block of a heap stays until the heap is destroyed.
    for (unsigned i = 0; i < count_of(size); i++)
        if (heap == NULL || i % 3 != 0) kl_free(blocks[i]);
    if (heap != NULL) kl_heap_destroy(heap);
}

int main(void) {
    for (unsigned round = 0; round < 12; round++) {
        for (size_t i = 0; i < SIZES; i++) {
            use(NULL, sizes[(i * 3 + round) % SIZES]);
            use(kl_heap_new(), sizes[(i * 5 + round) % SIZES]);
            if (i % 3 == 0) kl_collect(false);
        }
    }
    int passed = other_words == 0 && read_words > 10000;
    if (!passed) printf("FAIL %lu words of Keel, %lu of the program\n", other_words, read_words);
    printf("%d passed, %d failed, 0 skipped\n", passed, !passed);
    return !passed;
}
