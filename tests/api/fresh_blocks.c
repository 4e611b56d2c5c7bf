// Large blocks on fresh memory: where the program fills such blocks they get huge pages, where it
// touches them here and there they do not.
#include "check.h"
#include "memory.h"

#include <keel/keel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t huge_bytes(void) {
    char line[256];
    size_t kib = 0;
    FILE* file = fopen("/proc/self/smaps_rollup", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "AnonHugePages:", 14) == 0) kib = strtoul(line + 14, NULL, 10);
    }
    (void)fclose(file);
    return kib * KIB;
}

// False where the system gives no huge pages to those that ask for them.
static bool has_huge_pages(void) {
    char line[128] = "";
    FILE* file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (file == NULL) return false;
    bool read = fgets(line, sizeof line, file) != NULL;
    (void)fclose(file);
    return read && strstr(line, "[never]") == NULL;
}

// Touches every page, in steps of `step` bytes, with pauses.
static void fill(char* block, size_t bytes, size_t step, unsigned pause_ms) {
    for (size_t from = 0; from < bytes; from += step) {
        for (size_t at = from; at < from + step && at < bytes; at += 4 * KIB) block[at] = 1;
        sleep_ms(pause_ms);
    }
}

// Touches `count` pages here and there, with ten pauses.
static void scatter(char* block, size_t bytes, int count) {
    struct random random = {11};
    for (int touch = 0; touch < count; touch++) {
        block[random_below(&random, bytes)] = 1;
        if (touch % (count / 10) == 0) sleep_ms(10);
    }
}

// The first block shows what the program does.
TEST(a_block_after_one_that_was_filled_gets_huge_pages) {
    if (!has_huge_pages()) return;
    size_t bytes = 100u * MIB;
    char* first = malloc(bytes);
    CHECK(first != NULL);
    fill(first, bytes, bytes, 0);
    char* second = malloc(bytes);
    CHECK(second != NULL);
    fill(second, bytes, bytes, 0);
    CHECK_WITH(huge_bytes() > bytes / 2, "%zu KiB are huge", huge_bytes() / KIB);
    free(first);
    free(second);
}

TEST(a_block_that_is_touched_here_and_there_does_not) {
    size_t bytes = 512u * MIB;
    size_t before = resident_bytes();
    char* block = malloc(bytes);
    CHECK(block != NULL);
    scatter(block, bytes, 2000);
    CHECK_WITH(resident_bytes() - before < 32u * MIB, "%zu KiB for 2,000 pages",
               (resident_bytes() - before) / KIB);
    free(block);
}

// The first 4 MiB of a block are filled, and then pages here and there.
TEST(a_filled_head_does_not_give_huge_pages_to_a_very_large_block) {
    size_t bytes = 1024u * MIB;
    size_t before = resident_bytes();
    char* block = malloc(bytes);
    CHECK(block != NULL);
    fill(block, 4u * MIB, 256u * KIB, 5);
    scatter(block, bytes, 500);
    CHECK_WITH(resident_bytes() - before < 32u * MIB, "%zu KiB", (resident_bytes() - before) / KIB);
    free(block);
}

// Blocks of a program that has filled many of this size before.
TEST(smaller_blocks_that_stay_sparse_get_few_huge_pages) {
    enum { FILLED = 40, SPARSE = 200 };
    static char* filled[FILLED];
    static char* sparse[SPARSE];
    for (int i = 0; i < FILLED; i++) {
        filled[i] = malloc(3u * MIB / 2);
        CHECK(filled[i] != NULL);
        fill(filled[i], 3u * MIB / 2, 3u * MIB / 2, 2);
    }
    size_t before = resident_bytes();
    for (int i = 0; i < SPARSE; i++) {
        sparse[i] = malloc(3u * MIB / 2);
        CHECK(sparse[i] != NULL);
        sparse[i][0] = sparse[i][MIB] = 1;
    }
    CHECK_WITH(resident_bytes() - before < 32u * MIB, "%zu KiB for 200 blocks",
               (resident_bytes() - before) / KIB);
    for (int i = 0; i < FILLED; i++) free(filled[i]);
    for (int i = 0; i < SPARSE; i++) free(sparse[i]);
}

// Touches at a regular stride, which fixed places of a look could meet each time.
TEST(sparse_blocks_occupy_little_whatever_the_stride) {
    enum { BLOCKS = 100 };
    static char* blocks[BLOCKS];
    static const size_t touches[] = {5, 8, 10, 50};
    for (unsigned t = 0; t < sizeof touches / sizeof *touches; t++) {
        size_t before = resident_bytes();
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(6u * MIB);
            CHECK(blocks[i] != NULL);
            for (size_t k = 0; k < touches[t]; k++) blocks[i][6u * MIB / touches[t] * k] = 1;
        }
        size_t taken = resident_bytes() - before;
        CHECK_WITH(taken < 40u * MIB, "%zu KiB for %zu touches", taken / KIB, touches[t]);
        for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    }
}
