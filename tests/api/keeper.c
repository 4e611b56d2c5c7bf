// KEEL_KEEPER=on: when a process gets the keeper's thread, and when it keeps one thread.
#include "check.h"
#include "memory.h"

#include <dirent.h>
#include <keel/keel.h>
#include <keel/runtime.h>
#include <pthread.h>
#include <string.h>
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

// A joined thread may still be on the system's list for a moment.
static void expect_threads(size_t expected) {
    for (int waited = 0; waited < 60000 && threads() > expected; waited += 10) sleep_ms(10);
    CHECK_EQUAL(threads(), expected);
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

static void* allocates_little(void* count) {
    for (size_t i = 0; i < 2000; i++) CHECK(kl_malloc(100) != NULL);
    *(size_t*)count = threads();
    return NULL;
}

TEST(a_second_thread_that_allocates_starts_the_keeper) {
    begin();
    pthread_t thread;
    size_t count = 0;
    CHECK(pthread_create(&thread, NULL, allocates_little, &count) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQUAL(count, 3);
    expect_threads(2);
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
