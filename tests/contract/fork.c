/* fork in a process with many threads: the child can always allocate and free, independent of the
 * state of the other threads. */
#include "check.h"
#include "memory.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
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

// Starts and ends threads all the time, so that some forks happen during their start or end.
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
// many times, so that some forks happen at such a moment.
TEST(a_child_can_start_threads_while_its_parent_starts_threads) {
    pthread_t threads[3], thread;
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, start_threads, NULL) == 0);
    for (int i = 0; i < 2000; i++) {
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
