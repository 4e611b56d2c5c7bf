// Errors and patterns of use for guarded sampling (KEEL_GUARD_RATE); run.py has what is expected.
//
//     guarded bug NAME BYTES            plants one bug and prints `address=0x..`
//     guarded trials NAME BYTES COUNT   plants it in COUNT children, each time in another
//                                       allocation, and prints how many the system ended
//     guarded count PATTERN COUNT       prints how many of COUNT allocations were guarded
//     guarded threads                   eight threads make the same error at once
//     guarded use                       uses guarded blocks correctly in every way
//     guarded maps                      keeps 200 blocks, and prints how many were guarded and how
//                                       many mappings the process has more than before
#include <fcntl.h>
#include <keel/heap.h>
#include <keel/keel.h>
#include <keel/statistics.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile char sink;

// --- Bugs ----------------------------------------------------------------------------------------

static __attribute__((noinline)) volatile char* allocates_here(size_t bytes) {
    return malloc(bytes);
}
static __attribute__((noinline)) void frees_here(volatile char* block) {
    free((void*)block);
}

// The keeper closes a freed block some time after the free.
static void wait_for_keeper(void) {
    if (getenv("GUARDED_WAIT") != NULL) usleep(100000);
}

static void read_behind(volatile char* block, size_t bytes) {
    sink = block[(bytes + 15) / 16 * 16];
}
static void write_behind(volatile char* block, size_t bytes) {
    block[(bytes + 15) / 16 * 16] = 1;
}
static void write_next_byte(volatile char* block, size_t bytes) {
    block[bytes] = 1;
    frees_here(block);
}
static void read_before(volatile char* block, size_t bytes) {
    (void)bytes;
    sink = block[-1];
}
static void write_before(volatile char* block, size_t bytes) {
    (void)bytes;
    block[-1] = 1;
    frees_here(block);
}
static void read_freed(volatile char* block, size_t bytes) {
    frees_here(block);
    wait_for_keeper();
    sink = block[bytes / 2];
}
static void write_freed(volatile char* block, size_t bytes) {
    frees_here(block);
    wait_for_keeper();
    block[bytes / 2] = 1;
}
static void free_twice(volatile char* block, size_t bytes) {
    (void)bytes;
    frees_here(block);
    frees_here(block);
}
static void free_inside(volatile char* block, size_t bytes) {
    frees_here(block + bytes / 2);
}
static void realloc_freed(volatile char* block, size_t bytes) {
    frees_here(block);
    sink = *(char*)realloc((void*)block, bytes + 1);
}

static const struct bug {
    const char* name;
    void (*plant)(volatile char* block, size_t bytes);
} bugs[] = {
    {"read-behind", read_behind},         {"write-behind", write_behind},
    {"write-next-byte", write_next_byte}, {"read-before", read_before},
    {"write-before", write_before},       {"read-freed", read_freed},
    {"write-freed", write_freed},         {"free-twice", free_twice},
    {"free-inside", free_inside},         {"realloc-freed", realloc_freed},
};

static const struct bug* bug_of(const char* name) {
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
        if (strcmp(bugs[i].name, name) == 0) return &bugs[i];
    }
    fprintf(stderr, "no bug %s\n", name);
    exit(2);
}

static __attribute__((noinline)) int one_bug(const struct bug* bug, size_t bytes) {
    volatile char* block = allocates_here(bytes);
    printf("address=%p\n", (void*)(uintptr_t)block);
    fflush(stdout);
    bug->plant(block, bytes);
    puts("survived");
    return 0;
}

// Eight threads make the same error at the same time.
static pthread_barrier_t all_ready;
static void* reads_freed(void* block) {
    frees_here(block);
    pthread_barrier_wait(&all_ready);
    sink = *(volatile char*)block;
    return NULL;
}
static int bug_of_threads(void) {
    pthread_t threads[8];
    pthread_barrier_init(&all_ready, NULL, 8);
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, reads_freed, (void*)allocates_here(100));
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    return 0;
}

// Child i plants the bug in allocation i of the same sequence.
static int trials(const struct bug* bug, size_t bytes, unsigned count) {
    unsigned caught = 0;
    for (unsigned i = 0; i < count; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            (void)freopen("/dev/null", "w", stderr);
            bug->plant(allocates_here(bytes), bytes);
            _exit(0);
        }
        waitpid(child, &status, 0);
        caught += WIFSIGNALED(status);
        frees_here(allocates_here(bytes));
    }
    printf("caught %u of %u\n", caught, count);
    return 0;
}

// --- Patterns ------------------------------------------------------------------------------------

static unsigned guarded, allocated;

// A guarded block has exactly the requested size, and no other block of these odd sizes has.
static void* counted(void* block, size_t bytes) {
    guarded += malloc_usable_size(block) == bytes;
    allocated++;
    return block;
}

static void in_pairs(unsigned count) {
    for (unsigned i = 0; i < count; i++) free(counted(malloc(101), 101));
}
static void in_batches(unsigned count) {
    enum { BATCH = 1000 };
    static void* blocks[BATCH];
    while (allocated < count) {
        for (unsigned i = 0; i < BATCH; i++) blocks[i] = counted(malloc(3), 3);
        for (unsigned i = 0; i < BATCH; i++) free(blocks[i]);
    }
}
static void of_all_sizes(unsigned count) {
    for (uint32_t random = 1; allocated < count;) {
        random = random * 1664525 + 1013904223;
        size_t bytes = (random >> 8) % (1u << (random >> 28)) * 2 + 1;
        free(counted(malloc(bytes), bytes));
    }
}
// Each large allocation takes a slow path, and most small ones do not.
static void in_turn(unsigned count) {
    while (allocated < count) {
        free(counted(malloc(29), 29));
        free(malloc(100001));
    }
}
static void large(unsigned count) {
    while (allocated < count) free(counted(malloc(200001), 200001));
}
static void zeroed(unsigned count) {
    while (allocated < count) {
        char* block = counted(calloc(7, 43), 7 * 43);
        for (unsigned i = 0; i < 7 * 43; i++) {
            if (block[i] != 0) exit(3);
        }
        memset(block, 1, 7 * 43);
        free(block);
    }
}
static void aligned(unsigned count) {
    while (allocated < count) {
        char* block = counted(memalign(256, 701), 701);
        if ((uintptr_t)block % 256 != 0) exit(3);
        free(block);
    }
}
static void in_user_heap(unsigned count) {
    while (allocated < count) {
        kl_heap_t* heap = kl_heap_new();
        for (unsigned i = 0; i < 50; i++) counted(kl_heap_malloc(heap, 501), 501);
        kl_heap_destroy(heap);
    }
}
static void* run_thread(void* argument) {
    for (unsigned i = 0; i < 20; i++) free(counted(malloc(61), 61));
    return argument;
}
static void in_threads(unsigned count) {
    while (allocated < count) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run_thread, NULL) != 0) exit(3);
        pthread_join(thread, NULL);
    }
}
// Three allocations of each size: no bin is ever refilled a second time.
static void few_of_each(unsigned count) {
    for (size_t bytes = 17; allocated < count && bytes < 60000; bytes += bytes / 8 + 2) {
        for (unsigned i = 0; i < 3; i++) counted(malloc(bytes | 1), bytes | 1);
    }
}
static void never_freed(unsigned count) {
    while (allocated < count) counted(malloc(77), 77);
}

static const struct pattern {
    const char* name;
    void (*run)(unsigned count);
} patterns[] = {
    {"in-pairs", in_pairs},
    {"in-batches", in_batches},
    {"of-all-sizes", of_all_sizes},
    {"in-turn", in_turn},
    {"large", large},
    {"zeroed", zeroed},
    {"aligned", aligned},
    {"in-user-heap", in_user_heap},
    {"in-threads", in_threads},
    {"few-of-each", few_of_each},
    {"never-freed", never_freed},
};

static int count_guarded(const char* name, unsigned count) {
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (strcmp(patterns[i].name, name) != 0) continue;
        patterns[i].run(count);
        printf("guarded %u of %u\n", guarded, allocated);
        return 0;
    }
    fprintf(stderr, "no pattern %s\n", name);
    return 2;
}

// --- Correct use ---------------------------------------------------------------------------------

#define LIVE 400u

struct owned {
    unsigned char* block;
    size_t bytes;
};

static void fill(struct owned* owned) {
    memset(owned->block, (int)(owned->bytes % 251), owned->bytes);
}
static void verify(const struct owned* owned, size_t bytes, size_t value) {
    for (size_t i = 0; i < bytes; i++) {
        if (owned->block[i] != value % 251) {
            printf("byte %zu of %zu is wrong\n", i, owned->bytes);
            exit(3);
        }
    }
}

static void resize(struct owned* owned, size_t bytes) {
    size_t before = owned->bytes;
    owned->block = realloc(owned->block, bytes);
    owned->bytes = bytes;
    verify(owned, before < bytes ? before : bytes, before);
    if (malloc_usable_size(owned->block) < bytes) exit(3);
    fill(owned);
}

static void* use_blocks(void* argument) {
    struct owned owned[LIVE] = {{NULL, 0}};
    uint32_t random = (uint32_t)(uintptr_t)argument;
    for (unsigned i = 0; i < 30000; i++) {
        random = random * 1664525 + 1013904223;
        struct owned* each = &owned[(random >> 8) % LIVE];
        size_t bytes = (random >> 10) % (1u << (random >> 28)) * 3 + 1;
        if (each->block != NULL && (random & 64) != 0) {
            resize(each, bytes);
            continue;
        }
        if (each->block != NULL) verify(each, each->bytes, each->bytes);
        free(each->block);
        each->bytes = bytes;
        size_t alignment = (size_t)16 << (random & 15) % 12;
        each->block = (random & 32) != 0 ? memalign(alignment, bytes) : calloc(1, bytes);
        if ((random & 32) != 0 && (uintptr_t)each->block % alignment != 0) exit(3);
        fill(each);
    }
    for (unsigned i = 0; i < LIVE; i++) free(owned[i].block);
    return NULL;
}

static void use_in_child(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        use_blocks((void*)7);
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (status != 0) exit(4);
}

static bool count_visited(const struct kl_heap_area* area, void* block, void* argument) {
    if (block != NULL) *(size_t*)argument += area->block_bytes;
    return true;
}

static bool add_size(const struct kl_size_stats* size, void* used) {
    *(uint64_t*)used += size->used;
    return size->allocated == size->used + size->freed;
}
static void use_statistics(kl_heap_t* heap) {
    static const size_t sizes[] = {0, 100, 70000, 200000, 3u << 20, 100u << 20};
    uint64_t before = 0, used = 0;
    if (!kl_heap_stats_visit(heap, add_size, &before)) exit(7);
    for (unsigned i = 0; i < 6; i++) (void)!kl_heap_malloc(heap, sizes[i]);
    if (!kl_heap_stats_visit(heap, add_size, &used) || used != before + 6) exit(8);
}

static void use_heap(void) {
    kl_heap_t* heap = kl_heap_new();
    size_t visited = 0;
    for (unsigned i = 0; i < 200; i++) {
        char* block = kl_heap_malloc(heap, 40 + i);
        if (!kl_contains(block)) exit(5);
        if (i % 3 == 0) kl_free(block);
    }
    kl_heap_visit(heap, true, count_visited, &visited);
    if (visited < 133 * 40) exit(6);
    use_statistics(heap);
    kl_heap_destroy(heap);
}

static int use(void) {
    pthread_t threads[3];
    use_blocks((void*)1);
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, use_blocks, (void*)(uintptr_t)(i + 2));
    for (unsigned i = 0; i < 4; i++) use_in_child();
    for (unsigned i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    use_heap();
    static char json[65536];
    kl_stats_json(json, sizeof json);
    const char* events = strstr(json, "\"guarded\"");
    puts(events == NULL ? "no count" : "used");
    if (events != NULL) printf("%.*s\n", (int)strcspn(events, ",}\n"), events);
    return 0;
}

// --- The program's own handler -------------------------------------------------------------------

static sigjmp_buf back;

static void on_fault(int signal) {
    siglongjmp(back, signal);
}

static int handled(void) {
    volatile char* block = malloc(48);
    frees_here(block);
    if (sigsetjmp(back, 1) == 0) sink = *block;
    puts("handled");
    return 0;
}
// Before Keel's constructor: the library's own runs first if it is linked, and last if preloaded.
__attribute__((constructor)) static void install(void) {
    if (getenv("GUARDED_HANDLER") != NULL) signal(SIGSEGV, on_fault);
}

static unsigned mappings(void) {
    char buffer[4096];
    unsigned lines = 0;
    int file = open("/proc/self/maps", O_RDONLY);
    for (ssize_t got; (got = read(file, buffer, sizeof buffer)) > 0;)
        for (ssize_t i = 0; i < got; i++) lines += buffer[i] == '\n';
    close(file);
    return lines;
}
static int use_mappings(void) {
    static void* blocks[200];
    unsigned before = mappings();
    for (unsigned i = 0; i < 200; i++) blocks[i] = counted(malloc(101), 101);
    unsigned after = mappings();
    for (unsigned i = 0; i < 200; i++) free(blocks[i]);
    printf("%u guarded, %u mappings more\n", guarded, after - before);
    return 0;
}

int main(int count, char** arguments) {
    const char* mode = count > 1 ? arguments[1] : "";
    if (count == 4 && strcmp(mode, "bug") == 0)
        return one_bug(bug_of(arguments[2]), strtoul(arguments[3], NULL, 10));
    if (count == 5 && strcmp(mode, "trials") == 0)
        return trials(bug_of(arguments[2]), strtoul(arguments[3], NULL, 10),
                      (unsigned)atoi(arguments[4]));
    if (count == 4 && strcmp(mode, "count") == 0)
        return count_guarded(arguments[2], (unsigned)atoi(arguments[3]));
    if (strcmp(mode, "threads") == 0) return bug_of_threads();
    if (strcmp(mode, "use") == 0) return use();
    if (strcmp(mode, "handled") == 0) return handled();
    if (strcmp(mode, "maps") == 0) return use_mappings();
    fprintf(stderr, "see the head of guarded.c\n");
    return 2;
}
