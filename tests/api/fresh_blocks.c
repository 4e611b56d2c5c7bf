// Large blocks on fresh memory: those that the program fills get huge pages, those that it touches
// here and there do not.
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

// Touches every page, in steps of `step` bytes, with time for the keeper to look.
static void fill(char* block, size_t bytes, size_t step, unsigned pause_ms) {
    for (size_t from = 0; from < bytes; from += step) {
        for (size_t at = from; at < from + step && at < bytes; at += 4 * KIB) block[at] = 1;
        sleep_ms(pause_ms);
    }
}

// Touches `count` pages here and there, with ten pauses for the keeper.
static void scatter(char* block, size_t bytes, int count) {
    struct random random = {11};
    for (int touch = 0; touch < count; touch++) {
        block[random_below(&random, bytes)] = 1;
        if (touch % (count / 10) == 0) sleep_ms(10);
    }
}

TEST(a_block_that_is_filled_gets_huge_pages) {
    if (!has_huge_pages()) return;
    size_t bytes = 100u * MIB;
    char* block = malloc(bytes);
    CHECK(block != NULL);
    fill(block, bytes, 4u * MIB, 20);
    CHECK_WITH(huge_bytes() > bytes / 2, "%zu KiB are huge", huge_bytes() / KIB);
    free(block);
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

// Blocks of a program that has filled many before.
TEST(a_block_that_stays_empty_ends_the_expectation) {
    for (int i = 0; i < 6; i++) {
        char* block = malloc(20u * MIB + (size_t)i * 4u * MIB);
        CHECK(block != NULL);
        fill(block, 20u * MIB, 1u * MIB, 4);
    }
    char* empty = malloc(64u * MIB);
    CHECK(empty != NULL);
    sleep_ms(500);
    size_t before = resident_bytes();
    for (size_t at = 0; at < 64u * MIB; at += 2u * MIB) empty[at] = 1;
    CHECK_WITH(resident_bytes() - before < 16u * MIB, "%zu KiB", (resident_bytes() - before) / KIB);
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
    if (has_huge_pages()) CHECK_WITH(huge_bytes() > 16u * MIB, "%zu KiB", huge_bytes() / KIB);
    size_t before = resident_bytes();
    for (int i = 0; i < SPARSE; i++) {
        sparse[i] = malloc(3u * MIB / 2);
        CHECK(sparse[i] != NULL);
        sparse[i][0] = sparse[i][MIB] = 1;
    }
    CHECK_WITH(resident_bytes() - before < 48u * MIB, "%zu KiB for 200 blocks",
               (resident_bytes() - before) / KIB);
    for (int i = 0; i < FILLED; i++) free(filled[i]);
    for (int i = 0; i < SPARSE; i++) free(sparse[i]);
}
