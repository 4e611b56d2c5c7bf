/*
 * A mixed load that runs for an hour, and fails if the resident memory grows.
 *
 *     soak [--seconds N] [--leak BYTES]        (60 or more seconds; default 3600)
 *
 * The load is a cycle of phases, which differ in the sizes of their blocks. In each phase three
 * threads allocate, resize, exchange and free blocks, groups of short-lived threads inherit the
 * blocks of their predecessors, children are forked, heaps are made and destroyed, and vectors
 * grow. One phase runs under a limit. A third of the long-lived blocks is replaced in each cycle.
 * Each block's contents are verified. Threads sleep, so that the load uses less than one processor.
 *
 * Two figures of a cycle are judged, and each is comparable between cycles:
 *
 *   - at rest: the resident memory at the end of the cycle. Then all blocks but the long-lived ones
 *     have been freed, no thread of the load runs, and the keeper has had three seconds (the purge
 *     delay is half a second). The long-lived blocks have the same sizes in each cycle.
 *   - mean: the mean of the resident memory at the ends of all phases, when their threads have
 *     ended, and at rest.
 *
 * A figure "after five minutes" is the median of the cycles that end in the second twelfth of the
 * time, which are 30 to 50 in an hour, and at least 3. A figure "at the end" is the median of as
 * many cycles at the end. Both change by some percent from cycle to cycle, and with what else the
 * machine does, because that determines how many threads run at the same moment. The program fails
 * if a figure at the end is above 1.05 times that after five minutes.
 * --leak loses so many bytes in each cycle, which shows that the program detects it.
 */
#include "load.h"

#include <keel/keel.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CYCLES = 1 << 16, REST_MS = 3000, HANG_SECONDS = 600 };
static const double allowed_growth = 1.05;

// name, sizes, operations, budget, long-lived blocks and their sizes, limited
static const struct phase phases[] = {
    {"tiny", 1, 112, 60000, 64 * MIB, 12000, 1, 112, false},
    {"small", 112, KIB, 50000, 64 * MIB, 4000, 112, KIB, false},
    {"medium", KIB, 16 * KIB, 12000, 64 * MIB, 400, KIB, 16 * KIB, false},
    {"pages", 16 * KIB, 64 * KIB, 4000, 72 * MIB, 72, 16 * KIB, 64 * KIB, false},
    {"large", 64 * KIB, 2 * MIB, 600, 80 * MIB, 24, 64 * KIB, 160 * KIB, false},
    {"jumbo", 4 * MIB, 24 * MIB, 60, 128 * MIB, 0, 0, 0, false},
    {"mixed", 0, 9 * MIB, 12000, 72 * MIB, 600, 16, 8 * KIB, false},
    {"limited", 0, MIB, 12000, 128 * MIB, 0, 0, 0, true},
};
enum { PHASES = sizeof phases / sizeof *phases };

struct cycle {
    double end; // seconds after the start
    double rest_mib, mean_mib;
};
static struct cycle cycles[MOST_CYCLES];
static size_t cycle_count;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double resident_mib(void) {
    return (double)resident_bytes() / MIB;
}

static double processor_seconds(void) {
    double seconds = 0;
    for (int who = 0; who < 2; who++) {
        struct rusage usage;
        getrusage(who == 0 ? RUSAGE_SELF : RUSAGE_CHILDREN, &usage);
        seconds += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
        seconds += (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    }
    return seconds;
}

static struct cycle run_cycle(double start) {
    struct cycle cycle = {0};
    for (unsigned i = 0; i < PHASES; i++) {
        alarm(HANG_SECONDS); // ends the process if a phase never ends
        load_run(&phases[i], i);
        cycle.mean_mib += resident_mib() / (PHASES + 1);
    }
    load_free_transient();
    sleep_ms(REST_MS);
    cycle.rest_mib = resident_mib();
    cycle.mean_mib += cycle.rest_mib / (PHASES + 1);
    cycle.end = now() - start;
    return cycle;
}

static void print_minute(const struct cycle* cycle, double start) {
    struct kl_process process;
    kl_process_info(&process);
    printf("%5.0f s: cycle %zu, resident at rest %.2f MiB, mean %.2f MiB, live %.2f MiB, held %.2f "
           "MiB, unused %.2f MiB, mappings %zu, processors %.2f; %llu operations, %llu threads, "
           "%llu children, %llu "
           "heaps, %llu refused\n",
           cycle->end, cycle_count, cycle->rest_mib, cycle->mean_mib,
           (double)atomic_load(&load_live) / MIB, (double)process.held_bytes / MIB,
           (double)process.unused_bytes / MIB, map_count(), processor_seconds() / (now() - start),
           atomic_load(&load_counts.operations), atomic_load(&load_counts.threads),
           atomic_load(&load_counts.forks), atomic_load(&load_counts.heaps),
           atomic_load(&load_counts.refused));
    fflush(stdout);
}

static int by_size(const void* left, const void* right) {
    double a = *(const double*)left, b = *(const double*)right;
    return a < b ? -1 : a > b;
}

// The median of a figure (at `offset` in struct cycle) of `count` cycles.
static double median(size_t first, size_t count, size_t offset) {
    double values[count];
    for (size_t i = 0; i < count; i++)
        memcpy(&values[i], (const char*)&cycles[first + i] + offset, sizeof values[i]);
    qsort(values, count, sizeof values[0], by_size);
    return values[count / 2];
}

static bool judge(const char* name, size_t offset, double seconds) {
    size_t first = 0, count = 0;
    while (first < cycle_count && cycles[first].end < seconds / 12) first++;
    while (first + count < cycle_count && cycles[first + count].end < seconds / 6) count++;
    if (count < 3) count = 3;
    if (first + 2 * count > cycle_count) {
        printf("FAIL %s: only %zu cycles after %.0f s\n", name, cycle_count - first, seconds / 12);
        return false;
    }
    double before = median(first, count, offset);
    double after = median(cycle_count - count, count, offset);
    bool good = after <= allowed_growth * before;
    printf(
        "%s resident %s: %.2f MiB after %.0f s, %.2f MiB after %.0f s: %.3f times (at most %.2f)\n",
        good ? "ok  " : "FAIL", name, before, cycles[first].end, after, cycles[cycle_count - 1].end,
        after / before, allowed_growth);
    return good;
}

int main(int argc, char** argv) {
    double seconds = 3600, start = now(), next_minute = 60;
    size_t leak = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--leak") == 0)
            leak = strtoul(argv[i + 1], NULL, 10);
    }
    if (argc % 2 == 0 || seconds < 60) {
        fprintf(stderr, "usage: soak [--seconds N, 60 or more] [--leak BYTES]\n");
        return 2;
    }
    void* probe = malloc(1);
    if (!kl_contains(probe)) load_fail("malloc does not belong to Keel");
    free(probe);
    while (now() - start < seconds && cycle_count < MOST_CYCLES) {
        struct cycle cycle = run_cycle(start);
        cycles[cycle_count++] = cycle;
        if (leak) pattern_fill(malloc(leak), leak, cycle_count);
        if (cycle.end >= next_minute || cycle_count == 1) {
            print_minute(&cycle, start);
            while (next_minute <= cycle.end) next_minute += 60;
        }
    }
    bool rest = judge("at rest", offsetof(struct cycle, rest_mib), seconds);
    bool mean = judge("mean of a cycle", offsetof(struct cycle, mean_mib), seconds);
    printf("total: %d passed, %d failed, 0 skipped\n", rest + mean, !rest + !mean);
    return rest && mean ? 0 : 1;
}
