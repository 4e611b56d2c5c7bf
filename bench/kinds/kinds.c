// Small programs, each after a kind of real program, for bench/kinds/run.py.
//
//   kinds --list                  prints the names, with what each does
//   kinds NAME [REST_SECONDS]...  runs one and prints a line of JSON:
//
//     cpu_ns     processor time of all threads, the allocator's own included
//     wall_ns    elapsed time
//     peak_kib   VmHWM, less the files that were resident before
//     faults     page faults without input or output
//     rest_kib   what is resident after each REST_SECONDS, counted from the end of the work
//
// They hold live memory of a few KiB to 1 GiB, in one thread or in hundreds. Their results
// were seen while the policy for memory was made (docs/decisions/0012-warm-memory.md), so they are
// no test of it with unseen programs. All draw from one fixed random sequence.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

static _Thread_local uint64_t seed = 0x9E3779B97F4A7C15u;

static uint64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void rest_until(uint64_t wall_ns) {
    struct timespec t = {(time_t)(wall_ns / 1000000000u), (long)(wall_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) continue;
}
static void rest_ms(unsigned ms) {
    rest_until(now_ns(CLOCK_MONOTONIC) + ms * UINT64_C(1000000));
}

static uint64_t draw(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}
static size_t between(size_t low, size_t high) {
    return low + (size_t)(draw() % (high - low + 1));
}

// A block of which the program writes all.
static void* filled(size_t bytes) {
    void* block = malloc(bytes);
    if (block == NULL) exit(1);
    return memset(block, 1, bytes);
}
// A block of which it writes the beginning only.
static char* begun(size_t bytes, size_t written) {
    char* block = malloc(bytes);
    if (block == NULL) exit(1);
    memset(block, 1, written < bytes ? written : bytes);
    return block;
}
static void free_all(void** blocks, size_t count) {
    for (size_t i = 0; i < count; i++) free(blocks[i]);
}

static void run_threads(unsigned count, void* (*body)(void*)) {
    pthread_t threads[512];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * KIB);
    for (uintptr_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], &attributes, body, (void*)i) != 0) exit(1);
    for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

// --- Servers -------------------------------------------------------------------------------------

enum { CONNECTIONS = 100 };
struct connection {
    char *in, *out, *body;
    void* headers[12];
};

static void* event_loop(void* number) {
    struct connection* all = calloc(CONNECTIONS, sizeof *all);
    seed += (uintptr_t)number * 7919;
    for (unsigned event = 0; event < 20000; event++) {
        struct connection* c = &all[draw() % CONNECTIONS];
        if (c->in == NULL) { // accepted
            c->in = begun(16 * KIB, between(200, 3000));
            c->out = begun(between(4, 16) * KIB, 1000);
            continue;
        }
        for (unsigned i = 0; i < 12; i++) c->headers[i] = filled(between(16, 300));
        if (draw() % 4 == 0) c->body = filled(between(2, 60) * KIB);
        memset(c->in, 2, between(200, 3000));
        free(c->body);
        c->body = NULL;
        free_all(c->headers, 12);
        if (draw() % 16 == 0) { // closed
            free(c->in);
            free(c->out);
            c->in = NULL;
        }
    }
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        if (all[i].in == NULL) continue;
        free(all[i].in);
        free(all[i].out);
    }
    free(all);
    return NULL;
}
static void server_1(void) {
    run_threads(1, event_loop);
}
static void server_3(void) {
    run_threads(3, event_loop);
}
static void server_8(void) {
    run_threads(8, event_loop);
}

static void* one_request(void* number) {
    void* parts[40];
    seed += (uintptr_t)number * 104729;
    for (unsigned i = 0; i < 40; i++) parts[i] = filled(between(16, i % 8 == 0 ? 4000 : 400));
    free(begun(32 * KIB, 2000));
    free_all(parts, 40);
    return NULL;
}
static void short_threads(void) {
    for (unsigned i = 0; i < 200; i++) run_threads(4, one_request);
}

static pthread_barrier_t asleep, awake;
static size_t sleeper_blocks, sleeper_low, sleeper_high;
static void* sleeper(void* number) {
    void** blocks = calloc(sleeper_blocks, sizeof *blocks);
    seed += (uintptr_t)number * 15485863;
    for (size_t i = 0; i < sleeper_blocks; i++)
        blocks[i] = filled(between(sleeper_low, sleeper_high));
    pthread_barrier_wait(&asleep);
    pthread_barrier_wait(&awake);
    free_all(blocks, sleeper_blocks);
    free(blocks);
    return NULL;
}
static uint64_t rests[4]; // measured while they sleep
static uint64_t rest_kib[4];
static unsigned rest_count;
static void measure_rest(void);
static void sleep_threads(unsigned count, size_t blocks, size_t low, size_t high) {
    static pthread_t threads[512];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * KIB);
    sleeper_blocks = blocks;
    sleeper_low = low;
    sleeper_high = high;
    pthread_barrier_init(&asleep, NULL, count + 1);
    pthread_barrier_init(&awake, NULL, count + 1);
    for (uintptr_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], &attributes, sleeper, (void*)i) != 0) exit(1);
    pthread_barrier_wait(&asleep);
    measure_rest();
    pthread_barrier_wait(&awake);
    for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
}
static void sleepers_small(void) {
    sleep_threads(200, 6, 16, 300);
}
static void sleepers_wide(void) {
    sleep_threads(200, 180, 16, 1000);
}

// --- Threads that pass blocks --------------------------------------------------------------------

enum { LANE = 256 };
struct lane { // one producer, one consumer
    _Atomic(void*) slot[LANE];
};
static struct lane lanes[4];
static void lane_put(struct lane* lane, unsigned at, void* block) {
    while (atomic_load_explicit(&lane->slot[at % LANE], memory_order_acquire) != NULL) rest_ms(1);
    atomic_store_explicit(&lane->slot[at % LANE], block, memory_order_release);
}
static void* lane_get(struct lane* lane, unsigned at) {
    void* block;
    while ((block = atomic_exchange(&lane->slot[at % LANE], NULL)) == NULL) rest_ms(1);
    return block;
}

enum { TASKS = 60000 };
static void* worker(void* number) {
    void* kept[64] = {NULL};
    for (unsigned i = 0; i < TASKS; i++) {
        free(lane_get(&lanes[(uintptr_t)number - 1], i));
        void** at = &kept[draw() % 64];
        free(*at);
        *at = filled(between(32, 2000));
    }
    free_all(kept, 64);
    return NULL;
}
static void* pool_thread(void* number) {
    if (number != NULL) return worker(number);
    for (unsigned i = 0; i < TASKS; i++)
        for (unsigned lane = 0; lane < 3; lane++)
            lane_put(&lanes[lane], i, filled(between(48, 400)));
    return NULL;
}
static void thread_pool(void) {
    run_threads(4, pool_thread);
}

enum { BUFFERS = 6000 };
static void* stage(void* number) {
    uintptr_t n = (uintptr_t)number;
    for (unsigned i = 0; i < BUFFERS; i++) {
        if (n > 0) free(lane_get(&lanes[n - 1], i));
        if (n < 3) lane_put(&lanes[n], i, filled(between(4, 64) * KIB));
    }
    return NULL;
}
static void pipeline(void) {
    run_threads(4, stage);
}

// --- One thread, small blocks --------------------------------------------------------------------

static void daemon_work(void) {
    enum { COUNT = 30000 };
    void** blocks = calloc(COUNT, sizeof *blocks);
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = filled(between(16, 400));
    free_all(blocks, COUNT);
    free(blocks);
    for (unsigned i = 0; i < 20; i++) { // ten times a second
        void* parts[20];
        for (unsigned k = 0; k < 20; k++) parts[k] = filled(between(16, 500));
        free_all(parts, 20);
        rest_ms(100);
    }
}
static void tool(void) {
    void* blocks[3000];
    for (unsigned i = 0; i < 3000; i++) blocks[i] = filled(between(16, 700));
    for (unsigned i = 0; i < 3000; i += 3) free(blocks[i]);
    rest_ms(50);
}

static void interpreter(void) {
    enum { LIVE = 120000 };
    void** objects = calloc(LIVE, sizeof *objects);
    for (unsigned i = 0; i < 3000000; i++) {
        void** at = &objects[draw() % (i / 20 + 100 < LIVE ? i / 20 + 100 : LIVE)];
        free(*at);
        *at = filled(draw() % 16 == 0 ? between(100, 1200) : between(16, 96));
        if (draw() % 8 == 0) free(filled(between(24, 512)));
    }
    free_all(objects, LIVE);
    free(objects);
}
static void compiler(void) {
    enum { CHUNKS = 400, NODES = 200 };
    static void *chunks[CHUNKS], *nodes[CHUNKS * NODES];
    for (unsigned i = 0; i < CHUNKS; i++) {
        chunks[i] = filled(64 * KIB);
        for (unsigned k = 0; k < NODES; k++) nodes[i * NODES + k] = filled(between(24, 240));
        free(filled(between(1, 256) * KIB)); // scratch
    }
    free_all(chunks, CHUNKS);
    free_all(nodes, CHUNKS * NODES);
}
static void documents(void) {
    enum { NODES = 60000 };
    void** nodes = calloc(NODES, sizeof *nodes);
    for (unsigned round = 0; round < 20; round++) {
        size_t count = between(2000, NODES);
        for (size_t i = 0; i < count; i++) nodes[i] = filled(i % 3 == 0 ? between(8, 120) : 72);
        free_all(nodes, count);
    }
    free(nodes);
}
static void database(void) {
    enum { PAGES = 6000, ROWS = 50000 };
    void** pages = calloc(PAGES, sizeof *pages);
    void** rows = calloc(ROWS, sizeof *rows);
    for (unsigned i = 0; i < 400000; i++) {
        if (draw() % 16 == 0) {
            void** page = &pages[draw() % PAGES];
            free(*page);
            *page = filled(8 * KIB);
        }
        void** row = &rows[draw() % ROWS];
        free(*row);
        *row = filled(between(40, 900));
    }
    free_all(pages, PAGES);
    free_all(rows, ROWS);
    free(pages);
    free(rows);
}
static void game(void) {
    enum { ENTITIES = 40000, FRAME = 800 };
    void** entities = calloc(ENTITIES, sizeof *entities);
    void* frame[FRAME];
    for (unsigned i = 0; i < 1500; i++) {
        for (unsigned k = 0; k < FRAME; k++)
            frame[k] = filled(between(16, k % 50 == 0 ? 30000 : 400));
        for (unsigned k = 0; k < 30; k++) {
            void** at = &entities[draw() % ENTITIES];
            free(*at);
            *at = filled(between(64, 1500));
        }
        free_all(frame, FRAME);
    }
    free_all(entities, ENTITIES);
    free(entities);
}
static void burst(void) {
    enum { COUNT = 400000 };
    void** blocks = calloc(COUNT, sizeof *blocks);
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = filled(between(200, 1100));
    free_all(blocks, COUNT);
    free(blocks);
    for (unsigned i = 0; i < 20000; i++) free(filled(between(16, 300)));
}

// --- Large blocks --------------------------------------------------------------------------------

static void tiles(void) {
    enum { TILES = 200 };
    void* tile[TILES] = {NULL};
    for (unsigned i = 0; i < 3000; i++) {
        void** at = &tile[draw() % TILES];
        free(*at);
        *at = filled(between(1, 4) * 128 * KIB);
    }
    free_all(tile, TILES);
}
static void planes(void) {
    for (unsigned i = 0; i < 40; i++) {
        void* plane[6];
        for (unsigned k = 0; k < 6; k++) plane[k] = filled(between(2, 12) * MIB);
        free_all(plane, 6);
    }
}
static void tables(void) {
    for (unsigned i = 0; i < 24; i++) {
        size_t bytes = between(8, 64) * MIB;
        char* table = calloc(bytes, 1);
        for (unsigned k = 0; k < 3000; k++) table[draw() % bytes] = 1;
        free(table);
    }
}
static void vector(void) {
    free(filled((size_t)200 * MIB));
}
static void vector_grown(void) {
    size_t bytes = 4 * KIB;
    char* data = filled(bytes);
    while (bytes < (size_t)200 * MIB) {
        data = realloc(data, bytes * 3 / 2);
        if (data == NULL) exit(1);
        memset(data + bytes, 1, bytes * 3 / 2 - bytes);
        bytes = bytes * 3 / 2;
    }
    free(data);
}
static void renderer(void) {
    enum { COUNT = 1500 };
    static void* blocks[COUNT];
    size_t total = 0;
    unsigned count = 0;
    while (total < (size_t)KIB * MIB && count < COUNT) {
        size_t bytes = draw() % 3 == 0 ? between(1, 3) * MIB : between(64, 800) * KIB;
        blocks[count++] = filled(bytes);
        total += bytes;
    }
    free_all(blocks, count);
}
static void sparse(bool regular) {
    enum { COUNT = 100, TOUCHES = 50 };
    static char* blocks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        size_t bytes = 6 * MIB;
        blocks[i] = malloc(bytes);
        for (unsigned k = 0; k < TOUCHES; k++)
            blocks[i][regular ? bytes / TOUCHES * k : draw() % bytes] = 1;
    }
    free_all((void**)blocks, COUNT);
}
static void sparse_strided(void) {
    sparse(true);
}
static void sparse_random(void) {
    sparse(false);
}
static void half_filled(void) {
    enum { COUNT = 300 };
    static void* blocks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        size_t bytes = between(100, 900) * KIB;
        blocks[i] = begun(bytes, bytes / 4);
    }
    free_all(blocks, COUNT);
}

// -------------------------------------------------------------------------------------------------

static const struct kind {
    const char* name;
    void (*run)(void);
    const char* what;
} kinds[] = {
    {"server-1", server_1, "an event loop: 100 connections with buffers of 16 KiB"},
    {"server-3", server_3, "the same in 3 threads"},
    {"server-8", server_8, "the same in 8 threads"},
    {"short-threads", short_threads, "800 threads, 4 at a time, one request each"},
    {"sleepers-small", sleepers_small, "200 sleeping threads with 0.2 MiB live together"},
    {"sleepers-wide", sleepers_wide, "200 sleeping threads with 18 MiB live together"},
    {"thread-pool", thread_pool, "one thread makes tasks, three free them"},
    {"pipeline", pipeline, "buffers of 4 to 64 KiB through four threads"},
    {"daemon", daemon_work, "frees 6 MiB, then wakes ten times a second"},
    {"tool", tool, "holds 1 MiB"},
    {"interpreter", interpreter, "small objects, most live shortly"},
    {"compiler", compiler, "many small nodes that stay, chunks of 64 KiB, scratch buffers"},
    {"documents", documents, "parses a document, frees it, the next"},
    {"database", database, "a cache of pages of 8 KiB, and rows"},
    {"game", game, "frames of temporary blocks, entities that stay"},
    {"burst", burst, "frees 256 MiB of small blocks, then goes on small"},
    {"tiles", tiles, "filled blocks of 128 to 512 KiB"},
    {"planes", planes, "filled blocks of 2 to 12 MiB, six at a time"},
    {"tables", tables, "zeroed tables of 8 to 64 MiB, 3,000 random touches each"},
    {"vector", vector, "one block of 200 MiB, written once"},
    {"vector-grown", vector_grown, "a vector that grows to 200 MiB"},
    {"renderer", renderer, "fills 1 GiB in blocks of 64 KiB to 3 MiB"},
    {"sparse-strided", sparse_strided, "blocks of 6 MiB with 50 touches at a regular stride"},
    {"sparse-random", sparse_random, "blocks of 6 MiB with 50 touches at random"},
    {"half-filled", half_filled, "blocks of 100 to 900 KiB of which a quarter is written"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static uint64_t status_kib(const char* key) {
    char line[128];
    unsigned long value = 0;
    FILE* file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0) value = strtoul(line + strlen(key) + 1, NULL, 10);
    if (file != NULL) fclose(file);
    return value;
}

static uint64_t files_kib;
static uint64_t without_files(uint64_t kib) {
    return kib > files_kib ? kib - files_kib : 0;
}
static bool rest_is_measured;
static void measure_rest(void) {
    uint64_t begun_ns = now_ns(CLOCK_MONOTONIC);
    if (rest_is_measured) return;
    rest_is_measured = true;
    for (unsigned i = 0; i < rest_count; i++) {
        rest_until(begun_ns + rests[i] * UINT64_C(1000000000));
        rest_kib[i] = without_files(status_kib("VmRSS"));
    }
}

static int run(const struct kind* kind) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    unsigned long faults = (unsigned long)usage.ru_minflt;
    files_kib = status_kib("RssFile");
    uint64_t wall = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    kind->run();
    wall = now_ns(CLOCK_MONOTONIC) - wall;
    cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    getrusage(RUSAGE_SELF, &usage);
    faults = (unsigned long)usage.ru_minflt - faults;
    uint64_t peak = without_files(status_kib("VmHWM"));
    measure_rest();
    printf("{\"kind\":\"%s\",\"wall_ns\":%llu,\"cpu_ns\":%llu,\"peak_kib\":%llu,\"faults\":%lu,"
           "\"rest_kib\":[",
           kind->name, (unsigned long long)wall, (unsigned long long)cpu, (unsigned long long)peak,
           faults);
    for (unsigned i = 0; i < rest_count; i++)
        printf("%s%llu", i > 0 ? "," : "", (unsigned long long)rest_kib[i]);
    printf("]}\n");
    return 0;
}

int main(int count, char** words) {
    if (count == 2 && strcmp(words[1], "--list") == 0) {
        for (unsigned i = 0; i < KINDS; i++) printf("%s\t%s\n", kinds[i].name, kinds[i].what);
        return 0;
    }
    for (int i = 2; i < count && rest_count < 4; i++)
        rests[rest_count++] = strtoull(words[i], NULL, 10);
    for (unsigned i = 0; count > 1 && i < KINDS; i++)
        if (strcmp(words[1], kinds[i].name) == 0) return run(&kinds[i]);
    fprintf(stderr, "kinds: name a kind of --list\n");
    return 2;
}
