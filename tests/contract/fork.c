/* fork in a process with many threads: the child can always allocate and free, independent of the
 * state of the other threads.
 *
 * CHECK_FORKS: the number of forks of the test with handlers of another library, default 500. */
#include "check.h"
#include "memory.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "subject.h"

enum { WORKERS = 4, FORKS = 150, BLOCKS = 500 };

static _Atomic bool done;
static _Atomic(char*) shared[64];

static size_t size_for_any_part(struct random* random) {
    uint64_t kind = random_below(random, 200);
    size_t size = random_size(random, kind > 2 ? 3000 : 3u * MIB);
    return kind == 0 ? 4u * MIB + 16 * size : size;
}

// Uses every part of the allocator: small, large and huge blocks, frees from other threads.
static void* work(void* argument) {
    struct random random = {(uintptr_t)argument};
    while (!done) {
        size_t size = size_for_any_part(&random);
        char* p = malloc(size);
        CHECK(p != NULL);
        p[0] = p[size - 1] = 1;
        free(atomic_exchange(&shared[random_below(&random, 64)], p));
    }
    return NULL;
}

static void* allocate_once(void* argument) {
    free(malloc((uintptr_t)argument));
    return NULL;
}

// Starts and ends threads continuously, so that some forks happen while a thread starts or ends.
static void* start_threads(void* argument) {
    for (uintptr_t size = 1; !done; size = size * 2 % 100003) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            CHECK(pthread_create(&threads[i], NULL, allocate_once, (void*)size) == 0);
        for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    }
    return argument;
}

static pthread_t workers[WORKERS];

static void start_workers(void) {
    for (uintptr_t i = 0; i < WORKERS; i++) {
        void* (*run)(void*) = i == 0 ? start_threads : work;
        CHECK(pthread_create(&workers[i], NULL, run, (void*)(i + 1)) == 0);
    }
    sleep_ms(20);
}

static void stop_workers(void) {
    done = true;
    for (int i = 0; i < WORKERS; i++) CHECK(pthread_join(workers[i], NULL) == 0);
}

static char* blocks[BLOCKS];
static size_t sizes[BLOCKS];

static void fill_blocks(void) {
    struct random random = {99};
    for (size_t i = 0; i < BLOCKS; i++) {
        sizes[i] = random_size(&random, i % 50 ? 3000 : 2u * MIB);
        CHECK((blocks[i] = malloc(sizes[i])) != NULL);
        pattern_fill(blocks[i], sizes[i], i);
    }
}

static void check_and_free_blocks(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK_WITH(pattern_holds(blocks[i], sizes[i], sizes[i], i), "size %zu", sizes[i]);
        free(blocks[i]);
    }
}

static void* allocate_in_a_new_thread(void* argument) {
    (void)argument;
    for (size_t size = 1; size < 3000000; size = size * 3 + 1) {
        char* p = calloc(1, size);
        CHECK(p != NULL && is_zero(p, size));
        free(p);
    }
    return NULL;
}

// The timeout of a child. It is far longer than a child needs, even on a busy machine.
enum { TIMEOUT_SECONDS = 100 };

static void run_as_child(void) {
    struct random random = {5};
    alarm(TIMEOUT_SECONDS); // the child hangs on a lock that a thread of the parent holds
    check_and_free_blocks();
    for (int i = 0; i < 2000; i++) free(malloc(size_for_any_part(&random)));
    fill_blocks();
    pthread_t thread;
    if (!SUBJECT_CHILD_STARTS_NO_THREADS) {
        CHECK(pthread_create(&thread, NULL, allocate_in_a_new_thread, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    check_and_free_blocks();
    for (int i = 0; i < 64; i++) free(shared[i]); // the child does not have the threads of these
}

TEST(the_child_of_a_busy_process_allocates_and_frees_its_parents_blocks) {
    start_workers();
    fill_blocks();
    for (int i = 0; i < (SUBJECT_API ? 20 : FORKS); i++) {
        pid_t child = fork();
        if (child == 0) {
            run_as_child();
            _exit(0);
        }
        CHECK_CHILD(child);
    }
    stop_workers();
    check_and_free_blocks();
}

#if !SUBJECT_CHILD_STARTS_NO_THREADS
// Locks that are taken when a thread starts or ends are held only briefly. Therefore the test forks
// many times, so that some forks happen at such a moment: 2,000 times, or as many as 20 s allow. (A
// fork under libkeel-debug copies 1,200 pages, and takes 10 ms and more.)
TEST(a_child_can_start_threads_while_its_parent_starts_threads) {
    pthread_t threads[3], thread;
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, start_threads, NULL) == 0);
    const time_t end = time(NULL) + 20;
    for (int i = 0; i < 2000 && (i < 100 || time(NULL) < end); i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(TIMEOUT_SECONDS);
            if (pthread_create(&thread, NULL, allocate_once, (void*)100) != 0) _exit(2);
            _exit(pthread_join(thread, NULL));
        }
        CHECK_CHILD(child);
    }
    done = true;
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}
#endif

static void* fork_from_here(void* argument) {
    (void)argument;
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            run_as_child();
            _exit(0);
        }
        CHECK_CHILD(child);
    }
    return NULL;
}

TEST(a_thread_other_than_the_first_forks) {
    pthread_t thread;
    start_workers();
    fill_blocks();
    CHECK(pthread_create(&thread, NULL, fork_from_here, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    stop_workers();
}

static void fork_deeper(int levels) {
    fill_blocks();
    pid_t child = levels > 0 ? fork() : -1;
    if (levels > 0 && child == 0) {
        check_and_free_blocks();
        fork_deeper(levels - 1);
        _exit(0);
    }
    if (levels > 0) CHECK_CHILD(child);
    check_and_free_blocks();
}

TEST(children_fork_children) {
    start_workers();
    fork_deeper(8);
    stop_workers();
}

TEST(a_child_that_ends_normally_runs_its_exit_handlers) {
    start_workers();
    fill_blocks();
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(TIMEOUT_SECONDS);
            check_and_free_blocks();
            exit(0);
        }
        CHECK_CHILD(child);
    }
    stop_workers();
}

TEST(other_programs_can_be_started_from_a_busy_process) {
    extern char** environ;
    char* arguments[] = {(char*)"true", NULL};
    start_workers();
    for (int i = 0; i < 30; i++) {
        pid_t child;
        CHECK(posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0);
        CHECK_CHILD(child);
        child = vfork();
        if (child == 0) {
            execvp("true", arguments);
            _exit(126);
        }
        CHECK_CHILD(child);
    }
    stop_workers();
}

TEST(a_busy_process_can_become_another_program) {
    char* arguments[] = {(char*)"true", NULL};
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            // No worker starts threads here, because the system refuses new threads while the
            // process is replaced.
            for (uintptr_t k = 1; k < WORKERS; k++)
                CHECK(pthread_create(&workers[k], NULL, work, (void*)(k + 1)) == 0);
            sleep_ms((unsigned)i);
            execvp("true", arguments);
            _exit(126);
        }
        CHECK_CHILD(child);
    }
}

TEST(a_child_does_not_change_its_parents_memory) {
    fill_blocks();
    pid_t child = fork();
    if (child == 0) {
        for (size_t i = 0; i < BLOCKS; i++) memset(blocks[i], 0xFF, sizes[i]);
        for (size_t i = 0; i < BLOCKS; i++) free(blocks[i]);
        fill_blocks();
        _exit(0);
    }
    CHECK_CHILD(child);
    check_and_free_blocks();
}

// ---- handlers of another library (pthread_atfork) that allocate ----
//
// The library has registered one set of handlers before every constructor, and thus normally before
// the allocator has registered its own, and one set after the allocator.

enum { EARLY = 1, LATE = 2 };
static _Atomic int handlers_on; // which sets do something
static _Atomic unsigned handler_calls;

// Small blocks of many classes, a large block, a mapping, and blocks of other threads.
static void handler_allocates(void) {
    static const size_t handler_sizes[] = {1, 24, 100, 900, 5000, 60000, 70000, 3u * MIB, 9u * MIB};
    enum { SIZES = sizeof handler_sizes / sizeof *handler_sizes };
    char* p[SIZES];
    handler_calls++;
    for (int i = 0; i < SIZES; i++) {
        CHECK((p[i] = calloc(1, handler_sizes[i])) != NULL && p[i][handler_sizes[i] - 1] == 0);
        p[i][0] = p[i][handler_sizes[i] - 1] = 1;
    }
    free(atomic_exchange(&shared[handler_calls % 64], p[2]));
    p[2] = NULL;
    for (int i = 0; i < SIZES; i++) CHECK((p[i] = realloc(p[i], handler_sizes[i] * 3 / 2)) != NULL);
    for (int i = 0; i < SIZES; i++) free(p[i]);
}

// A handler that forks: two levels.
static _Atomic int fork_in_handler;
static void handler_forks(void) {
    if (!atomic_exchange(&fork_in_handler, false)) return;
    pid_t child = fork();
    if (child == 0) _exit(0);
    CHECK_CHILD(child);
    handler_allocates();
}

static void early_handler(void) {
    if ((handlers_on & EARLY) != 0) handler_allocates();
}
static void late_handler(void) {
    if ((handlers_on & LATE) != 0) handler_allocates();
}

static void early_prepare_handler(void) {
    handler_forks();
    early_handler();
}

static void register_early(void) {
    CHECK(pthread_atfork(early_prepare_handler, early_handler, early_handler) == 0);
}
CHECK_AT_START(register_early);

static void register_late(void) {
    CHECK(pthread_atfork(late_handler, late_handler, late_handler) == 0);
}

// Its first allocation is the one in the prepare handler: it has no heap before.
static void* fork_without_a_heap(void* argument) {
    (void)argument;
    pid_t child = fork();
    if (child == 0) {
        alarm(TIMEOUT_SECONDS);
        if (!SUBJECT_CHILD_STARTS_NO_THREADS) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, allocate_once, (void*)100) != 0) _exit(2);
            if (pthread_join(thread, NULL) != 0) _exit(3);
        }
        free(malloc(100000));
        _exit(handler_calls >= 2 ? 0 : 4); // one before the fork and one in the child
    }
    CHECK_CHILD(child);
    return NULL;
}

// Like `work`, with pauses that leave the processors to the forks.
static void* work_at_intervals(void* argument) {
    struct random random = {(uintptr_t)argument};
    while (!done) {
        for (int i = 0; i < 50; i++) {
            char* p = malloc(size_for_any_part(&random) % (1u * MIB) + 1);
            CHECK(p != NULL);
            p[0] = 1;
            free(atomic_exchange(&shared[random_below(&random, 64)], p));
        }
        sleep_ms(1);
    }
    return NULL;
}

TEST(handlers_of_other_libraries_allocate_in_forks_of_a_thread_without_a_heap) {
    const char* wanted = getenv("CHECK_FORKS");
    int forks = wanted != NULL ? atoi(wanted) : SUBJECT_API ? 50 : 500;
    pthread_t busy[8], thread;
    register_late();
    for (uintptr_t i = 0; i < 8; i++)
        CHECK(pthread_create(&busy[i], NULL, work_at_intervals, (void*)(i + 1)) == 0);
    for (int i = 0; i < forks; i++) {
        handlers_on = i % 3 + 1; // early, late, both
        handler_calls = 0;
        CHECK(pthread_create(&thread, NULL, fork_without_a_heap, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_EQUAL(handler_calls, handlers_on == (EARLY | LATE) ? 4 : 2);
    }
    handlers_on = 0;
    done = true;
    for (int i = 0; i < 8; i++) CHECK(pthread_join(busy[i], NULL) == 0);
}

TEST(a_handler_of_another_library_forks) {
    pthread_t thread;
    register_late();
    start_workers();
    for (int i = 0; i < 10; i++) {
        handlers_on = i % 3 + 1;
        handler_calls = 0;
        fork_in_handler = true;
        CHECK(pthread_create(&thread, NULL, fork_without_a_heap, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    handlers_on = 0;
    stop_workers();
}
