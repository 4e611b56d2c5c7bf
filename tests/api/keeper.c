// KEEL_KEEPER=on: when a process gets the keeper's thread, and when it keeps one thread.
#include "check.h"
#include "memory.h"

#include <dirent.h>
#include <errno.h>
#include <keel/keel.h>
#include <keel/runtime.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Every thread's stack has to hold this, the keeper's too.
static _Thread_local volatile char thread_local_bytes[256 * KIB];

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
    for (size_t held = 0; held < bytes; held += 1024) CHECK(kl_malloc(1024) != NULL);
}

// Allocates a little of each size, as a program does when it starts.
static void begin(void) {
    thread_local_bytes[0] = 1;
    CHECK_EQUAL(kl_option_get(kl_option_keeper), 1);
    for (size_t size = 1; size < 300; size += 7) kl_free(kl_malloc(size));
    hold(500u * KIB);
}

TEST(a_small_program_keeps_one_thread) {
    begin();
    CHECK_EQUAL(threads(), 1);
}

TEST(a_program_that_holds_more_gets_a_keeper) {
    begin();
    hold(3u * MIB);
    CHECK_EQUAL(threads(), 2);
}

TEST(large_blocks_count_too) {
    CHECK(kl_malloc(1u * MIB) != NULL && kl_malloc(100000) != NULL);
    CHECK_EQUAL(threads(), 1);
    CHECK(kl_malloc(1u * MIB) != NULL && kl_malloc(100000) != NULL);
    CHECK_EQUAL(threads(), 2);
}

TEST(a_forked_child_has_no_keeper_until_it_grows) {
    hold(20u * MIB);
    CHECK_EQUAL(threads(), 2);
    pid_t child = fork();
    if (child == 0) {
        begin();
        CHECK_EQUAL(threads(), 1);
        hold(3u * MIB);
        CHECK_EQUAL(threads(), 2);
        _exit(0);
    }
    CHECK_CHILD(child);
}

TEST(errno_of_the_program_does_not_change) {
    hold(3u * MIB);
    for (int round = 0; round < 200; round++) {
        errno = 4711;
        void* block = kl_malloc(300u * KIB);
        memset(block, 1, 300u * KIB);
        if (round % 3 == 0) kl_free(block);
        if (round % 50 == 0) sleep_ms(20);
        CHECK_EQUAL(errno, 4711);
    }
}

TEST(a_copy_that_fork_did_not_make_has_no_keeper) {
    hold(3u * MIB);
    CHECK_EQUAL(threads(), 2);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        hold(4u * MIB);
        _exit(threads() == 1 ? 0 : 3);
    }
    check_child(__FILE__, __LINE__, child);
}

static int grows(void* unused) {
    (void)unused;
    hold(4u * MIB);
    return 0;
}

// Only the first thread of such a copy ends when its function returns.
TEST(a_copy_ends_when_its_first_function_returns) {
    static char stack[256 * KIB] __attribute__((aligned(16)));
    hold(3u * MIB);
    pid_t child = clone(grows, stack + sizeof stack, SIGCHLD, NULL);
    check_child(__FILE__, __LINE__, child);
}

static int grows_as_guest(void* unused) {
    (void)unused;
    static void* blocks[16 * KIB];
    for (unsigned i = 0; i < 16 * KIB; i++) blocks[i] = kl_malloc(1000);
    for (unsigned i = 0; i < 16 * KIB; i++) kl_free(blocks[i]);
    return 0;
}

// A child that uses this process's memory (like one of vfork) needs as much memory as gets a
// process a keeper. It must be able to end, and this process gets a keeper of its own later. Its
// first function returns, so that only its thread ends, and not its process.
TEST(a_child_in_the_same_memory_starts_no_keeper) {
    static char stack[256 * KIB] __attribute__((aligned(16)));
    pid_t child =
        clone(grows_as_guest, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    CHECK(child > 0);
    int result = 0;
    for (int waited = 0; waited < 20000 && waitpid(child, &result, WNOHANG) == 0; waited += 10)
        sleep_ms(10);
    CHECK(waitpid(child, &result, WNOHANG) < 0 && result == 0);
    // The debug flavour keeps 8 MiB of the freed blocks. There, the next allocation of this process
    // starts a keeper, also that of opendir in `threads`.
    if (!KEEL_DEBUG) CHECK_EQUAL(threads(), 1);
    hold(3u * MIB);
    CHECK_EQUAL(threads(), 2);
}

static int stays_in_list(struct dl_phdr_info* module, size_t size, void* inside) {
    (void)module;
    (void)size;
    __atomic_store_n((int*)inside, 1, __ATOMIC_RELEASE);
    sleep_ms(60000); // longer than the test
    return 0;
}

static void* looks_at_modules(void* inside) {
    (void)dl_iterate_phdr(stays_in_list, inside);
    return NULL;
}

// The C library's lock of the list of modules stays locked in the child.
TEST(a_child_gets_a_keeper_while_another_thread_looks_at_modules) {
    static int inside;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, looks_at_modules, &inside) == 0);
    while (__atomic_load_n(&inside, __ATOMIC_ACQUIRE) == 0) sleep_ms(1);
    pid_t child = fork();
    if (child == 0) {
        hold(3u * MIB);
        _exit(0);
    }
    CHECK_CHILD(child);
}
