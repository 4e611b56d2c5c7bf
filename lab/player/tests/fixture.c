/* An allocator for the player's tests: the C library's, with a fault that KEEL_FIXTURE names:
 *
 *     crash:N     a null pointer is written to in the N-th malloc
 *     hang:N      the N-th malloc never returns
 *     sleep:N     every N-th malloc sleeps for 2 ms
 *     refuse:N    from the N-th malloc on, NULL
 *     overlap:N   the N-th malloc returns the same block as the one before
 *     known:N     every N-th malloc, in turn: sleeps, takes 3 page faults, maps and unmaps,
 *                 signals its own thread; the others do nothing
 *     work:N      every N-th malloc computes for some 50 ms
 *     map         each malloc makes its own mapping of 4 KiB pages
 *     burn:N      a thread of the allocator's own uses N ms of CPU time during the first malloc
 *     peak:N      the first malloc maps and writes N MiB, and unmaps them
 *
 * At exit, the number of calls of each kind is written to the file KEEL_FIXTURE_COUNTS. What the
 * first malloc sees, and a thread that it creates, is written to the file KEEL_FIXTURE_SEEN:
 * whether it runs on the main thread, and whether the process has one thread; then, for the new
 * thread, its
 * timer slack (ns), scheduling policy, nice value and number of processors. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <time.h>
#include <unistd.h>

#include "bridge/bridge.h"

enum { MALLOC, FREE, CALLOC, REALLOC, ALIGNED, THREAD_INIT, THREAD_EXIT, KINDS };
static atomic_long calls[KINDS];
static char fault;
static long when;
static void* last;

static long count(int kind) {
    return atomic_fetch_add(&calls[kind], 1) + 1;
}

static void* map(size_t size) {
    size_t bytes = (size + 4095) & ~(size_t)4095;
    void* block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(block, bytes, MADV_NOHUGEPAGE);
    return block;
}

/* The actions of `known`. */
enum { KNOWN_PAGES = 3, KNOWN_TURNS = 10000 };
static char* untouched;
static char quiet[4096];

static void ignore(int signal) {
    (void)signal;
}

static void known_prepare(void) {
    size_t bytes = (size_t)KNOWN_TURNS * KNOWN_PAGES * 4096;
    untouched = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    madvise(untouched, bytes, MADV_NOHUGEPAGE);
    struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGUSR1, &action, NULL);
}

static void known_act(long turn) {
    switch (turn % 4) {
    case 0:
        usleep(100);
        break;
    case 1:
        for (int page = 0; page < KNOWN_PAGES; page++) {
            *(volatile char*)&untouched[(turn / 4 % KNOWN_TURNS * KNOWN_PAGES + page) * 4096] = 1;
        }
        break;
    case 2:
        munmap(map(65536), 65536);
        break;
    case 3:
        pthread_kill(pthread_self(), SIGUSR1);
        break;
    }
}

static void* burn(void* milliseconds) {
    struct timespec used;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    } while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < (intptr_t)milliseconds);
    return NULL;
}

static void in_a_thread(void* (*work)(void*), void* argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, argument) == 0) pthread_join(thread, NULL);
}

static void* see(void* file) {
    cpu_set_t processors;
    sched_getaffinity(0, sizeof processors, &processors);
    fprintf(file, "%d %d %d %d\n", prctl(PR_GET_TIMERSLACK), sched_getscheduler(0),
            getpriority(PRIO_PROCESS, 0), CPU_COUNT(&processors));
    return NULL;
}

static void see_all(void) {
    const char* path = getenv("KEEL_FIXTURE_SEEN");
    FILE* file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return;
    fprintf(file, "%d %d\n", gettid() == getpid(), __libc_single_threaded);
    in_a_thread(see, file);
    fclose(file);
}

static void compute(void) {
    for (volatile long step = 0; step < 50000000; step++)
        ;
}

static void* fixture_malloc(size_t size) {
    long number = count(MALLOC);
    if (number == 1) see_all();
    if (number == 1 && fault == 'b') in_a_thread(burn, (void*)(intptr_t)when);
    if (number == 1 && fault == 'p') {
        size_t bytes = (size_t)when << 20;
        char* spike = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        munmap(spike, bytes);
    }
    if (fault == 'k') {
        if (number % when == 0) known_act(number / when - 1);
        return quiet;
    }
    if (fault == 'c' && number == when) *(volatile int*)(intptr_t)(number - when) = 1;
    while (fault == 'h' && number == when) pause();
    if (fault == 's' && number % when == 0) usleep(2000);
    if (fault == 'w' && number % when == 0) compute();
    if (fault == 'r' && number >= when) return NULL;
    if (fault == 'o' && number == when) return last;
    if (fault == 'm') return map(size);
    return last = malloc(size);
}

static void fixture_free(void* block) {
    count(FREE);
    if (fault != 'm' && fault != 'k') free(block);
}

static void* fixture_calloc(size_t number, size_t size) {
    return count(CALLOC), calloc(number, size);
}
static void* fixture_realloc(void* block, size_t size) {
    return count(REALLOC), realloc(block, size);
}
static void* fixture_aligned(size_t alignment, size_t size) {
    return count(ALIGNED), memalign(alignment, size);
}
static void fixture_thread_init(void) {
    count(THREAD_INIT);
}
static void fixture_thread_exit(void) {
    count(THREAD_EXIT);
}
static void fixture_version(char* buffer, size_t size) {
    snprintf(buffer, size, "fixture 1.0");
}

static int fixture_init(void) {
    const char* order = getenv("KEEL_FIXTURE");
    if (order != NULL) {
        const char* colon = strchr(order, ':');
        fault = order[0];
        when = colon != NULL ? atol(colon + 1) : 0;
    }
    if (fault == 'k') known_prepare();
    return 0;
}

static void fixture_teardown(void) {
    const char* path = getenv("KEEL_FIXTURE_COUNTS");
    FILE* file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return;
    for (int kind = 0; kind < KINDS; kind++) fprintf(file, "%ld\n", atomic_load(&calls[kind]));
    fclose(file);
}

const struct bridge_table keel_peer = {
    .abi = 1,
    .version = fixture_version,
    .malloc = fixture_malloc,
    .free = fixture_free,
    .calloc = fixture_calloc,
    .realloc = fixture_realloc,
    .aligned = fixture_aligned,
    .usable_size = malloc_usable_size,
    .init = fixture_init,
    .thread_init = fixture_thread_init,
    .thread_exit = fixture_thread_exit,
    .teardown = fixture_teardown,
};
