// Synthetic workloads for `keel bench --suite synthetic`, all in one program.
//
//   keel-synthetic --list                               a line for each workload: name, about,
//                                                       stresses, source, not shown, with tabs
//   keel-synthetic NAME [--scale NUMBER] [--threads N]  runs it once and prints one line of JSON:
//                                                       elapsed_s and cpu_s of the workload alone
//                                                       (cpu_s of all threads of the process, the
//                                                       allocator's own included), checksum
//
// All random numbers are fixed, so that every run makes the same calls.
#include "synthetic.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct workload* const workloads[] = {
    &larson,
    &larson_sized,
    &mstress,
    &rptest,
    &xmalloc,
    &alloc_test,
    &alloc_test_threads,
    &sh6,
    &sh8,
    &simple,
    &simple_threads,
    &malloc_large,
    &mleak,
    &cache_scratch,
    &cache_thrash,
    &bignum,
    &boolean,
    &barnes_hut,
    &red_black,
    &broker,
    &ecs_frames,
    &json,
    &ast_pass,
    &lru_cache,
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads };

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// The processors that this process may use, from 2 to 8.
static unsigned default_threads(void) {
    cpu_set_t set;
    unsigned count = sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 2;
    return count < 2 ? 2 : count > 8 ? 8 : count;
}

// A bridge that times calls counts them from here on (in_process/bridge).
static void begin_timing(void) {
    void (*begin)(void) = NULL;
    void* found = dlsym(RTLD_DEFAULT, "keel_bridge_begin");
    memcpy(&begin, &found, sizeof begin);
    if (begin != NULL) begin();
}

static int run(const struct workload* workload, const struct extent* extent) {
    begin_timing();
    double elapsed = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t checksum = workload->run(extent);
    elapsed = seconds(CLOCK_MONOTONIC) - elapsed;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"elapsed_s\":%.9f,\"cpu_s\":%.9f,\"checksum\":\"%016llx\"}\n", elapsed, cpu,
           (unsigned long long)checksum);
    return 0;
}

static int list(void) {
    for (unsigned i = 0; i < WORKLOADS; i++)
        printf("%s\t%s\t%s\t%s\t%s\n", workloads[i]->name, workloads[i]->about,
               workloads[i]->stresses, workloads[i]->source, workloads[i]->not_shown);
    return 0;
}

int main(int count, char** words) {
    struct extent extent = {1, default_threads()};
    if (count == 2 && strcmp(words[1], "--list") == 0) return list();
    for (int i = 2; i + 1 < count; i += 2) {
        if (strcmp(words[i], "--scale") == 0)
            extent.scale = strtod(words[i + 1], NULL);
        else if (strcmp(words[i], "--threads") == 0)
            extent.threads = (unsigned)strtoul(words[i + 1], NULL, 10);
        else
            fail("the options are --scale NUMBER and --threads N");
    }
    if (extent.scale <= 0 || extent.threads < 2 || extent.threads > MOST_THREADS)
        fail("a scale above 0 and 2 to 64 threads are expected");
    for (unsigned i = 0; count > 1 && i < WORKLOADS; i++)
        if (strcmp(words[1], workloads[i]->name) == 0) return run(workloads[i], &extent);
    fail("name a workload of --list");
}
