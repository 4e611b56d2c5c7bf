// Page faults of programs that allocate large blocks and fill them, after a first part in which
// they show that they do. The counts are exact but for the places at which blocks are looked at.
// Each bound is about one and a half times what was counted.
#include "base/options.h"
#include "base/random.h"
#include "check.h"
#include "keel/keel.h"
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static uint64_t drawn;

static size_t between(size_t low, size_t high) {
    return low + random_next(&drawn) % (high - low);
}

static char* filled(size_t bytes) {
    char* block = kl_malloc(bytes);
    CHECK(block != NULL);
    for (size_t i = 0; i < bytes; i += 4 * KIB) block[i] = 1;
    return block;
}

static long faults_so_far(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

// A vector that doubles to 16 MiB and is freed: the next one needs no new memory.
static void vectors(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char* block = filled(64);
        for (size_t bytes = 64; bytes < 16 * MIB; bytes *= 2) {
            block = kl_realloc(block, 2 * bytes);
            CHECK(block != NULL);
            for (size_t at = bytes; at < 2 * bytes; at += 4 * KIB) block[at] = 1;
        }
        kl_free(block);
    }
}

// One block at a time, of 1 KiB to 8 MiB: now slices, now a mapping.
static void one_at_a_time(unsigned count) {
    for (unsigned i = 0; i < count; i++)
        kl_free(filled(between(KIB, 2 * KIB) << random_next(&drawn) % 13));
}

#define HELD_MAX 200u
static void* held[HELD_MAX];

static void replaced(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        void** place = &held[random_next(&drawn) % HELD_MAX];
        kl_free(*place);
        *place = filled(between(64 * KIB, 512 * KIB));
    }
}
// 64 KiB blocks of which seven in eight are freed, and then blocks of 512 KiB.
static void holes(unsigned count) {
    enum { BLOCKS = 1000 };
    static void* blocks[BLOCKS];
    for (unsigned round = 0; round < count; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = filled(64 * KIB);
        for (unsigned i = 0; i < BLOCKS; i++)
            if (i % 8 != 0) kl_free(blocks[i]);
        for (unsigned i = 0; i < 100; i++) held[i] = filled(512 * KIB);
        for (unsigned i = 0; i < 100; i++) kl_free(held[i]);
        for (unsigned i = 0; i < BLOCKS; i += 8) kl_free(blocks[i]);
    }
}

static const struct program {
    const char* name;
    void (*run)(unsigned count);
    unsigned first; // before the faults are counted
    unsigned count;
    long most;
} programs[] = {
    {"vectors that double", vectors, 2, 20, 60},
    {"one block at a time", one_at_a_time, 100, 400, 900},
    {"64 to 512 KiB, 200 held", replaced, 1000, 4000, 3300},
    {"holes of 64 KiB", holes, 2, 10, 50000},
};

static bool holds(const struct program* program) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    option_set(OPTION_RESET_DELAY, 600000); // nothing gets too old
    drawn = 1;
    program->run(program->first);
    long before = faults_so_far();
    program->run(program->count);
    long faults = faults_so_far() - before;
    printf("%-26s %8ld page faults, at most %ld\n", program->name, faults, program->most);
    fflush(stdout);
    return faults <= program->most;
}

// Each one in a process of its own.
int main(void) {
    bool all_hold = true;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        int status = 0;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) _exit(holds(&programs[i]) ? 0 : 1);
        CHECK(waitpid(child, &status, 0) == child);
        all_hold &= status == 0;
    }
    return all_hold ? 0 : 1;
}
