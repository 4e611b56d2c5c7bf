// A process of one thread, by the default settings: it remains one for the C library and for the
// system, whatever it holds, so it may do what the system allows to such a process only. A second
// thread starts the keeper.
#include "check.h"
#include "memory.h"

#include <dirent.h>
#include <keel/keel.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t threads(void) {
    size_t count = 0;
    DIR* tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks))
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void hold(size_t bytes) {
    for (size_t held = 0; held < bytes; held += 1000) CHECK(kl_malloc(1000) != NULL);
}

// Small and large blocks, and longer than a young process.
static void grow(void) {
    hold(32u * MIB);
    for (int i = 0; i < 8; i++) memset(kl_malloc(6u * MIB), 1, 6u * MIB);
    sleep_ms(30);
    hold(1u * MIB);
}

TEST(a_process_that_grows_keeps_one_thread) {
    grow();
    CHECK_EQUAL(threads(), 1);
    CHECK(__libc_single_threaded);
}

static void* allocates(void* count) {
    for (size_t i = 0; i < 2000; i++) CHECK(kl_malloc(100) != NULL);
    *(size_t*)count = threads();
    return NULL;
}

static size_t threads_beside_a_second(void) {
    pthread_t thread;
    size_t count = 0;
    CHECK(pthread_create(&thread, NULL, allocates, &count) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return count;
}

TEST(a_second_thread_starts_a_keeper_if_the_process_has_grown) {
    CHECK_EQUAL(threads_beside_a_second(), 2);
    hold(3u * MIB);
    CHECK_EQUAL(threads_beside_a_second(), 3);
}

// Fills large blocks and frees them all, as the other threads do.
static void* allocates_large(void* unused) {
    (void)unused;
    for (size_t round = 0; round < 3; round++) {
        void* blocks[16];
        for (size_t i = 0; i < 16; i++) {
            size_t bytes = (i + 2) * 100 * KIB;
            CHECK((blocks[i] = kl_malloc(bytes)) != NULL);
            memset(blocks[i], 1, bytes);
        }
        for (size_t i = 0; i < 16; i++) kl_free(blocks[i]);
    }
    return NULL;
}

TEST(what_threads_with_large_blocks_only_leave_goes_back) {
    enum { THREADS = 16, TIMEOUT_MS = 20000 };
    pthread_t ended[THREADS];
    kl_free(kl_malloc(1));
    size_t before = resident_bytes();
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ended[i], NULL, allocates_large, NULL) == 0);
    for (size_t i = 0; i < THREADS; i++) CHECK(pthread_join(ended[i], NULL) == 0);
    for (int ms = 0; ms < TIMEOUT_MS && resident_bytes() > before + 8 * MIB; ms += 100)
        sleep_ms(100);
    CHECK_WITH(resident_bytes() <= before + 8 * MIB, "%zu KiB", resident_bytes() / KIB);
}

static void* holds_and_ends(void* has_keeper) {
    hold(3u * MIB);
    CHECK_EQUAL(threads(), 3);
    (void)pthread_barrier_wait(has_keeper);
    sleep_ms(50); // the first thread ends meanwhile
    hold(3u * MIB);
    return NULL;
}

// The C library ends the process when the last thread ends, which must not be the keeper.
TEST(a_process_whose_first_thread_ends_before_others_ends) {
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        static pthread_barrier_t has_keeper;
        CHECK(pthread_barrier_init(&has_keeper, NULL, 2) == 0);
        CHECK(pthread_create(&thread, NULL, holds_and_ends, &has_keeper) == 0);
        (void)pthread_barrier_wait(&has_keeper);
        pthread_exit(NULL);
    }
    CHECK_CHILD(child);
}

static void* forks_and_returns(void* child) {
    static pthread_barrier_t has_keeper;
    CHECK(pthread_barrier_init(&has_keeper, NULL, 2) == 0);
    pid_t forked = fork();
    pthread_t thread;
    if (forked != 0)
        *(pid_t*)child = forked;
    else if (pthread_create(&thread, NULL, holds_and_ends, &has_keeper) == 0)
        (void)pthread_barrier_wait(&has_keeper);
    return NULL;
}

static void* does_nothing(void* started) {
    (void)pthread_barrier_wait(started);
    return NULL;
}

// The forking thread has no heap, so only the start of the child can watch for its end. Stacks of
// ended threads are there, so that it creates a thread without an allocation.
TEST(a_child_whose_first_thread_never_allocates_ends) {
    pthread_t thread, ended[4];
    pthread_barrier_t started;
    pid_t child = 0;
    hold(1u * MIB);
    CHECK(pthread_barrier_init(&started, NULL, 4) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&ended[i], NULL, does_nothing, &started) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(ended[i], NULL) == 0);
    CHECK(pthread_create(&thread, NULL, forks_and_returns, &child) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_CHILD(child);
}

static pid_t task_beside(pid_t first, pid_t second) {
    pid_t found = 0;
    DIR* tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        pid_t number = (pid_t)strtol(task->d_name, NULL, 10);
        if (number != 0 && number != first && number != second) found = number;
    }
    closedir(tasks);
    return found;
}

// The thread that the calling one, a second one, starts by its allocations.
static pid_t keeper_started(void) {
    hold(3u * MIB);
    pid_t keeper = task_beside(getpid(), (pid_t)syscall(SYS_gettid));
    CHECK(keeper != 0);
    return keeper;
}

static void* allocates_as_realtime(void* refused) {
    struct sched_param priority = {.sched_priority = 1};
    *(bool*)refused = sched_setscheduler(0, SCHED_FIFO, &priority) != 0;
    if (*(bool*)refused) return NULL;
    pid_t keeper = keeper_started();
    for (int ms = 0; ms < 5000 && sched_getscheduler(keeper) != SCHED_OTHER; ms++) sleep_ms(1);
    CHECK_EQUAL(sched_getscheduler(keeper), SCHED_OTHER);
    return NULL;
}

TEST(the_keeper_is_no_realtime_thread) {
    pthread_t thread;
    bool refused = false;
    CHECK(pthread_create(&thread, NULL, allocates_as_realtime, &refused) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    if (refused) SKIP("the system permits no realtime threads");
}

static void* allocates_on_last_processor(void* usual) {
    cpu_set_t last, keeper_set;
    unsigned processor = CPU_SETSIZE - 1;
    while (!CPU_ISSET(processor, (cpu_set_t*)usual)) processor--;
    CPU_ZERO(&last);
    CPU_SET(processor, &last);
    CHECK(sched_setaffinity(0, sizeof last, &last) == 0);
    pid_t keeper = keeper_started();
    for (int ms = 0; ms < 5000; ms++) {
        CHECK(sched_getaffinity(keeper, sizeof keeper_set, &keeper_set) == 0);
        if (CPU_EQUAL(&keeper_set, (cpu_set_t*)usual)) break;
        sleep_ms(1);
    }
    CHECK(CPU_EQUAL(&keeper_set, (cpu_set_t*)usual));
    return NULL;
}

TEST(the_keeper_runs_where_the_first_thread_may) {
    cpu_set_t usual;
    pthread_t thread;
    CHECK(sched_getaffinity(0, sizeof usual, &usual) == 0);
    CHECK(pthread_create(&thread, NULL, allocates_on_last_processor, &usual) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

TEST(a_forked_child_keeps_one_thread) {
    grow();
    pid_t child = fork();
    if (child == 0) {
        grow();
        CHECK_EQUAL(threads(), 1);
        _exit(0);
    }
    CHECK_CHILD(child);
}

static bool may_unshare(int flags) {
    pid_t child = fork();
    if (child == 0) _exit(unshare(flags) == 0 ? 0 : 1);
    int result = 0;
    CHECK(waitpid(child, &result, 0) == child);
    return WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

TEST(a_process_that_has_grown_enters_a_user_namespace) {
    if (!may_unshare(CLONE_NEWUSER)) return; // the system permits it to no process
    grow();
    // Not through the C library: nothing notices the call.
    CHECK_EQUAL(syscall(SYS_unshare, CLONE_NEWUSER), 0);
    grow();
}

// Waits at most 20 s, so that a child that hangs fails the test. Returns its wait status.
static int ended(pid_t child) {
    int result = 0;
    for (int waited = 0; waited < 20000; waited += 10) {
        if (waitpid(child, &result, WNOHANG) == child) return result;
        sleep_ms(10);
    }
    (void)kill(child, SIGKILL);
    CHECK(waitpid(child, &result, 0) == child);
    return result;
}

TEST(a_sandbox_that_forbids_threads_does_not_end_the_program) {
    static struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(1);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0) _exit(2);
        grow();
        _exit(0);
    }
    CHECK_EQUAL(ended(child), 0);
}

// Ends the process's only thread, but not the process: in strict mode of seccomp, programs have no
// other way to end.
TEST(a_process_that_has_grown_ends_with_its_thread) {
    pid_t child = fork();
    if (child == 0) {
        grow();
        (void)syscall(SYS_exit, 7);
    }
    CHECK_EQUAL(ended(child), 7 << 8);
}
