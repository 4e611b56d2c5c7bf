// Patterns of use that an allocator may meet, each a few lines, for bench/patterns/run.py.
//
//   patterns --list               prints a line for each pattern, with tabs: its name, what it
//                                 does, what it stresses, the source, and what it does not show
//   patterns random-N --describe  prints what the N-th random program does (random.h)
//   patterns NAME [--calls]       runs it, or a random program, once and prints one line of JSON:
//
//     wall_ns, cpu_ns   of the pattern alone; cpu_ns with all threads, the allocator's own included
//     peak_kib          high-water mark of the resident set, less the files that were resident
//                       before: what an allocator occupies before main counts as well
//     faults            page faults without input or output
//     calls             calls of the allocator
//     worst_ns          the slowest single call; 0 without --calls, which times each call
//     after_kib         with --after SECONDS: what is resident after a sleep of that length
//
// Every block is touched: its first byte, and one byte in each 4 KiB. All patterns draw from one
// fixed random sequence, so each run makes the same calls.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

static bool each_call;
static _Atomic uint64_t calls;
static _Atomic uint64_t worst_ns;
static _Thread_local uint64_t thread_calls;
static _Thread_local uint64_t thread_worst;
static _Thread_local uint64_t seed = 0x9E3779B97F4A7C15u;

static uint64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t draw(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}
static size_t between(size_t low, size_t high) {
    return low + (size_t)(draw() % (high - low + 1));
}

static uint64_t call_begin(void) {
    return each_call ? now_ns(CLOCK_MONOTONIC) : 0;
}
static void call_end(uint64_t begun) {
    thread_calls++;
    if (!each_call) return;
    uint64_t took = now_ns(CLOCK_MONOTONIC) - begun;
    if (took > thread_worst) thread_worst = took;
}
static void thread_sum(void) {
    atomic_fetch_add(&calls, thread_calls);
    uint64_t seen = atomic_load(&worst_ns);
    while (seen < thread_worst && !atomic_compare_exchange_weak(&worst_ns, &seen, thread_worst))
        continue;
    thread_calls = thread_worst = 0;
}

static void* must(void* block) {
    if (block != NULL) return block;
    fprintf(stderr, "patterns: no memory\n");
    exit(1);
}
static void touch(char* block, size_t from, size_t to) {
    for (size_t at = from; at < to; at += 4096) block[at] = 1;
}
static void* take_untouched(size_t bytes) {
    uint64_t begun = call_begin();
    void* block = malloc(bytes);
    call_end(begun);
    return must(block);
}
static void* take(size_t bytes) {
    char* block = take_untouched(bytes);
    touch(block, 0, bytes);
    return block;
}
static void give(void* block) {
    uint64_t begun = call_begin();
    free(block);
    call_end(begun);
}
static void give_all(void** slot, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (slot[i] != NULL) give(slot[i]);
}
static void* take_zeroed(size_t bytes) {
    uint64_t begun = call_begin();
    char* block = calloc(1, bytes);
    call_end(begun);
    touch(must(block), 0, bytes);
    return block;
}
static void* take_aligned(size_t alignment, size_t bytes) {
    uint64_t begun = call_begin();
    char* block = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    call_end(begun);
    touch(must(block), 0, bytes);
    return block;
}
static void* resize(void* old, size_t from, size_t to) {
    uint64_t begun = call_begin();
    char* block = realloc(old, to);
    call_end(begun);
    must(block);
    if (to > from) touch(block, from, to);
    return block;
}

// --- one thread ---

struct pattern;
typedef void pattern_run(const struct pattern* pattern);
struct pattern {
    const char* name;
    const char* text;
    pattern_run* run;
    size_t low, high; // sizes, bytes
    size_t slots;     // blocks held at once
    size_t count;     // operations
};

// Replaces a random block among `slots`, again and again.
static void replace(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t i = 0; i < p->count; i++) {
        size_t at = draw() % p->slots;
        if (slot[at] != NULL) give(slot[at]);
        slot[at] = take(between(p->low, p->high));
    }
    give_all(slot, p->slots);
    free(slot);
}

// As replace, with sizes drawn so that each power of two is equally frequent.
static void replace_log(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    unsigned doublings = 0;
    while (p->low << (doublings + 1) <= p->high) doublings++;
    for (size_t i = 0; i < p->count; i++) {
        size_t at = draw() % p->slots;
        size_t base = p->low << (draw() % doublings);
        if (slot[at] != NULL) give(slot[at]);
        slot[at] = take(between(base, 2 * base));
    }
    give_all(slot, p->slots);
    free(slot);
}

// One block after the other: allocated, touched, freed.
static void in_turn(const struct pattern* p) {
    for (size_t i = 0; i < p->count; i++) give(take(between(p->low, p->high)));
}
static void in_turn_untouched(const struct pattern* p) {
    for (size_t i = 0; i < p->count; i++) {
        char* block = take_untouched(between(p->low, p->high));
        *(volatile char*)block = 1;
        give(block);
    }
}

static void fill_and_free(const struct pattern* p, int order) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t round = 0; round < p->count / p->slots; round++) {
        for (size_t i = 0; i < p->slots; i++) slot[i] = take(between(p->low, p->high));
        for (size_t i = p->slots - 1; order == 2 && i > 0; i--) {
            size_t other = draw() % (i + 1);
            void* kept = slot[i];
            slot[i] = slot[other];
            slot[other] = kept;
        }
        for (size_t i = 0; i < p->slots; i++) give(slot[order == 0 ? p->slots - 1 - i : i]);
    }
    free(slot);
}
static void last_in_first_out(const struct pattern* p) {
    fill_and_free(p, 0);
}
static void first_in_first_out(const struct pattern* p) {
    fill_and_free(p, 1);
}
static void random_order(const struct pattern* p) {
    fill_and_free(p, 2);
}

// A queue of `slots` blocks: each step frees the oldest and allocates one.
static void queue(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t i = 0; i < p->count; i++) {
        size_t at = i % p->slots;
        if (slot[at] != NULL) give(slot[at]);
        slot[at] = take(between(p->low, p->high));
    }
    give_all(slot, p->slots);
    free(slot);
}

static void zeroed(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t i = 0; i < p->count; i++) {
        size_t at = draw() % p->slots;
        if (slot[at] != NULL) give(slot[at]);
        slot[at] = take_zeroed(between(p->low, p->high));
    }
    give_all(slot, p->slots);
    free(slot);
}

static void aligned_to(const struct pattern* p, size_t alignment) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t i = 0; i < p->count; i++) {
        size_t at = draw() % p->slots;
        if (slot[at] != NULL) give(slot[at]);
        slot[at] = take_aligned(alignment, between(p->low, p->high));
    }
    give_all(slot, p->slots);
    free(slot);
}
static void aligned_64(const struct pattern* p) {
    aligned_to(p, 64);
}
static void aligned_4k(const struct pattern* p) {
    aligned_to(p, 4096);
}
static void aligned_64k(const struct pattern* p) {
    aligned_to(p, 65536);
}
static void aligned_2m(const struct pattern* p) {
    aligned_to(p, 2 * MIB);
}

// Grows a block from `low` to `high` by doubling; `slots` of them in turn.
static void double_up(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t round = 0; round < p->count; round++) {
        for (size_t i = 0; i < p->slots; i++) slot[i] = take(p->low);
        for (size_t size = p->low; size < p->high; size *= 2)
            for (size_t i = 0; i < p->slots; i++) slot[i] = resize(slot[i], size, 2 * size);
        for (size_t i = 0; i < p->slots; i++) give(slot[i]);
    }
    free(slot);
}
// Grows by `low` bytes at a time up to `high`.
static void step_up(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t round = 0; round < p->count; round++) {
        for (size_t i = 0; i < p->slots; i++) slot[i] = take(p->low);
        for (size_t size = p->low; size < p->high; size += p->low)
            for (size_t i = 0; i < p->slots; i++) slot[i] = resize(slot[i], size, size + p->low);
        for (size_t i = 0; i < p->slots; i++) give(slot[i]);
    }
    free(slot);
}
// Allocates `high` bytes, uses all, and shrinks the block to a random part of it.
static void shrink(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t i = 0; i < p->count; i++) {
        size_t at = draw() % p->slots;
        if (slot[at] != NULL) give(slot[at]);
        slot[at] = resize(take(p->high), p->high, between(p->low, p->high / 2));
    }
    give_all(slot, p->slots);
    free(slot);
}
// Resizes random blocks to random sizes.
static void resize_random(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    size_t* size = calloc(p->slots, sizeof *size);
    for (size_t i = 0; i < p->count; i++) {
        size_t at = draw() % p->slots;
        size_t to = between(p->low, p->high);
        slot[at] = slot[at] != NULL ? resize(slot[at], size[at], to) : take(to);
        size[at] = to;
    }
    give_all(slot, p->slots);
    free(size);
    free(slot);
}

// Holds `slots` bytes in blocks of one size, frees them all, and goes on with the next of eight
// sizes.
static void phases(const struct pattern* p) {
    size_t most = p->slots / p->low + 1;
    void** slot = calloc(most, sizeof *slot);
    for (size_t round = 0; round < p->count; round++) {
        size_t bytes = p->low;
        for (unsigned step = 0; step < 8; step++, bytes = bytes + (p->high - p->low) / 8) {
            size_t n = p->slots / bytes;
            for (size_t i = 0; i < n; i++) slot[i] = take(bytes);
            for (size_t i = 0; i < n; i++) give(slot[i]);
        }
    }
    free(slot);
}
// Grows to `slots` bytes, shrinks to nothing, and again.
static void sawtooth(const struct pattern* p) {
    size_t n = p->slots / ((p->low + p->high) / 2);
    void** slot = calloc(n, sizeof *slot);
    for (size_t round = 0; round < p->count; round++) {
        for (size_t i = 0; i < n; i++) slot[i] = take(between(p->low, p->high));
        for (size_t i = n; i > 0; i--) give(slot[i - 1]);
    }
    free(slot);
}
// Frees all but every eighth block, then allocates other sizes into the holes.
static void holes(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    void** late = calloc(p->slots, sizeof *late);
    for (size_t round = 0; round < p->count; round++) {
        for (size_t i = 0; i < p->slots; i++) slot[i] = take(p->low);
        for (size_t i = 0; i < p->slots; i++)
            if (i % 8 != 0) give(slot[i]);
        size_t n = p->slots * p->low / p->high * 7 / 8;
        for (size_t i = 0; i < n; i++) late[i] = take(p->high);
        for (size_t i = 0; i < n; i++) give(late[i]);
        for (size_t i = 0; i < p->slots; i += 8) give(slot[i]);
    }
    free(late);
    free(slot);
}
// Frees every other block, refills the gaps with the same size.
static void checkerboard(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t i = 0; i < p->slots; i++) slot[i] = take(p->low);
    for (size_t round = 0; round < p->count; round++) {
        for (size_t i = round % 2; i < p->slots; i += 2) give(slot[i]);
        for (size_t i = round % 2; i < p->slots; i += 2) slot[i] = take(between(p->low, p->high));
    }
    for (size_t i = 0; i < p->slots; i++) give(slot[i]);
    free(slot);
}
// A frame of a game: `slots` short-lived blocks on top of a set that grows slowly.
static void frames(const struct pattern* p) {
    size_t kept_count = 0;
    void** slot = calloc(p->slots, sizeof *slot);
    void** kept = calloc(p->count * 4, sizeof *kept);
    for (size_t frame = 0; frame < p->count; frame++) {
        for (size_t i = 0; i < p->slots; i++) slot[i] = take(between(p->low, p->high));
        for (unsigned i = 0; i < 4; i++) kept[kept_count++] = take(between(p->low, p->high));
        for (size_t i = 0; i < p->slots; i++) give(slot[i]);
    }
    for (size_t i = 0; i < kept_count; i++) give(kept[i]);
    free(kept);
    free(slot);
}
// Small blocks all the while, and a large one now and then.
static void small_and_large(const struct pattern* p) {
    void** slot = calloc(p->slots, sizeof *slot);
    void* large = NULL;
    for (size_t i = 0; i < p->count; i++) {
        size_t at = draw() % p->slots;
        if (slot[at] != NULL) give(slot[at]);
        slot[at] = take(between(16, 512));
        if (i % 512 != 0) continue;
        if (large != NULL) give(large);
        large = take(between(p->low, p->high));
    }
    give(large);
    give_all(slot, p->slots);
    free(slot);
}
// A tree of nodes is built in random order and freed from its root.
struct node {
    struct node* child[2];
    uint64_t key;
};
static void tree_free(struct node* node) {
    if (node == NULL) return;
    tree_free(node->child[0]);
    tree_free(node->child[1]);
    give(node);
}
static void tree(const struct pattern* p) {
    for (size_t round = 0; round < p->count; round++) {
        struct node* root = NULL;
        for (size_t i = 0; i < p->slots; i++) {
            struct node** at = &root;
            uint64_t key = draw();
            while (*at != NULL) at = &(*at)->child[key > (*at)->key];
            *at = take(sizeof(struct node));
            **at = (struct node){{NULL, NULL}, key};
        }
        tree_free(root);
    }
}

#include "threads.h"

// These use what is above.
#include "adverse.h"
#include "pattern_notes.h"
#include "random.h"

static const struct pattern patterns[] = {
#include "pattern_table.h"
};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

static uint64_t status_kib(const char* key) {
    char line[128];
    unsigned long value = 0;
    FILE* file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0) value = strtoul(line + strlen(key) + 1, NULL, 10);
    if (file != NULL) fclose(file);
    return value;
}

static unsigned long faults_so_far(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (unsigned long)usage.ru_minflt;
}

static int run(const struct pattern* p, double after) {
    // A bridge that times calls counts them from here on (in_process/bridge).
    void (*begin_timing)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "keel_bridge_begin");
    if (begin_timing != NULL) begin_timing();
    unsigned long faults = faults_so_far();
    uint64_t before = status_kib("RssFile");
    uint64_t wall = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    p->run(p);
    wall = now_ns(CLOCK_MONOTONIC) - wall;
    cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    faults = faults_so_far() - faults;
    thread_sum();
    uint64_t peak = status_kib("VmHWM");
    printf("{\"pattern\":\"%s\",\"wall_ns\":%llu,\"cpu_ns\":%llu,\"peak_kib\":%llu,\"calls\":%llu,"
           "\"worst_ns\":%llu,\"faults\":%lu",
           p->name, (unsigned long long)wall, (unsigned long long)cpu,
           (unsigned long long)(peak > before ? peak - before : 0),
           (unsigned long long)atomic_load(&calls), (unsigned long long)atomic_load(&worst_ns),
           faults);
    if (after > 0) {
        struct timespec rest = {(time_t)after, (long)((after - (double)(time_t)after) * 1e9)};
        nanosleep(&rest, NULL);
        uint64_t left = status_kib("VmRSS");
        printf(",\"after_kib\":%llu", (unsigned long long)(left > before ? left - before : 0));
    }
    printf("}\n");
    return 0;
}

// The number of a random program; 0: the name is another one.
static uint64_t random_number(const char* name) {
    return strncmp(name, "random-", 7) == 0 ? strtoull(name + 7, NULL, 10) : 0;
}

int main(int count, char** words) {
    double after = 0;
    if (count == 2 && strcmp(words[1], "--list") == 0) return pattern_list(patterns, PATTERNS);
    for (int i = 2; i < count; i++) {
        if (strcmp(words[i], "--calls") == 0)
            each_call = true;
        else if (strcmp(words[i], "--after") == 0 && i + 1 < count)
            after = strtod(words[++i], NULL);
    }
    uint64_t number = count > 1 ? random_number(words[1]) : 0;
    if (number > 0) {
        plan_program(number);
        if (count == 3 && strcmp(words[2], "--describe") == 0) return describe_program();
        const struct pattern program = {.name = words[1], .run = random_program};
        return run(&program, after);
    }
    for (unsigned i = 0; count > 1 && i < PATTERNS; i++)
        if (strcmp(words[1], patterns[i].name) == 0) return run(&patterns[i], after);
    fprintf(stderr, "patterns: name a pattern of --list\n");
    return 2;
}
