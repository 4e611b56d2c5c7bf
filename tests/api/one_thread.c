// The keeper of a process with one thread, by the default settings: when it exists, what it may do,
// and that the process remains one of one thread for the C library and for the system.
#include "check.h"
#include "memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <keel/keel.h>
#include <keel/runtime.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t threads(long* other) {
    size_t count = 0;
    DIR* tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        if (task->d_name[0] == '.') continue;
        count++;
        if (other != NULL && atol(task->d_name) != (long)getpid()) *other = atol(task->d_name);
    }
    closedir(tasks);
    return count;
}

static void hold(size_t bytes) {
    for (size_t held = 0; held < bytes; held += 1000) CHECK(kl_malloc(1000) != NULL);
}

// A line of a thread's status file, without its name.
static void status(long thread, const char* name, char* value, size_t size) {
    char path[64], line[256];
    (void)snprintf(path, sizeof path, "/proc/self/task/%ld/status", thread);
    FILE* file = fopen(path, "r");
    CHECK(file != NULL);
    *value = '\0';
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, strlen(name)) != 0 || line[strlen(name)] != ':') continue;
        line[strcspn(line, "\n")] = '\0';
        (void)snprintf(value, size, "%s", line + strlen(name) + 2); // ":\t"
    }
    (void)fclose(file);
}

// Waits for the keeper to have done its first work, and returns its thread.
static long keeper_of(size_t bytes) {
    long keeper = 0;
    char filter[32] = "";
    hold(bytes);
    CHECK_EQUAL(threads(&keeper), 2);
    for (int waited = 0; waited < 10000 && strcmp(filter, "2") != 0; waited += 10) {
        sleep_ms(10);
        status(keeper, "Seccomp", filter, sizeof filter);
    }
    return keeper;
}

TEST(a_small_process_keeps_one_thread) {
    hold(2u * MIB);
    CHECK_EQUAL(threads(NULL), 1);
}

TEST(the_keeper_can_only_manage_memory) {
    char value[64];
    long keeper = keeper_of(16u * MIB);
    status(keeper, "Name", value, sizeof value);
    CHECK(strcmp(value, "keel-keeper") == 0);
    status(keeper, "Seccomp", value, sizeof value);
    CHECK(strcmp(value, "2") == 0);
    status(keeper, "NoNewPrivs", value, sizeof value);
    CHECK(strcmp(value, "1") == 0);
    status(getpid(), "NoNewPrivs", value, sizeof value);
    CHECK(strcmp(value, "0") == 0);
    status(getpid(), "Seccomp", value, sizeof value);
    CHECK(strcmp(value, "0") == 0);
    status(keeper, "SigBlk", value, sizeof value);
    CHECK(strcmp(value, "0000000000000000") != 0);
}

TEST(the_c_library_still_knows_one_thread) {
    (void)keeper_of(16u * MIB);
    CHECK(__libc_single_threaded);
}

static size_t populated_slices(void) {
    static char json[64 * KIB];
    static const char name[] = "\"populated_slices\":";
    CHECK(kl_stats_json(json, sizeof json) < sizeof json);
    const char* found = strstr(json, name);
    CHECK(found != NULL);
    return (size_t)atol(found + sizeof name - 1);
}

TEST(the_keeper_prepares_memory) {
    (void)keeper_of(32u * MIB);
    for (int waited = 0; waited < 10000 && populated_slices() == 0; waited += 10) {
        hold(100u * KIB);
        sleep_ms(10);
    }
    CHECK(populated_slices() > 0);
}

TEST(errno_of_the_program_does_not_change) {
    (void)keeper_of(16u * MIB);
    for (int round = 0; round < 200; round++) {
        errno = 4711;
        void* block = kl_malloc(300u * KIB);
        memset(block, 1, 300u * KIB);
        if (round % 3 == 0) kl_free(block);
        if (round % 50 == 0) sleep_ms(20);
        CHECK_EQUAL(errno, 4711);
    }
}

TEST(a_fork_ends_the_keeper) {
    (void)keeper_of(16u * MIB);
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQUAL(threads(NULL), 1);
        hold(16u * MIB);
        CHECK_EQUAL(threads(NULL), 2);
        _exit(0);
    }
    CHECK_CHILD(child);
    for (int waited = 0; waited < 10000 && threads(NULL) > 1; waited += 10) sleep_ms(10);
    CHECK_EQUAL(threads(NULL), 1);
    sleep_ms(50);
    hold(1u * MIB);
    CHECK_EQUAL(threads(NULL), 2); // required again
}

TEST(a_copy_of_the_process_gets_a_keeper_of_its_own) {
    (void)keeper_of(16u * MIB);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        hold(1u * MIB);
        if (threads(NULL) != 1) _exit(2);
        (void)keeper_of(16u * MIB);
        _exit(0);
    }
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
    if (!KEEL_DEBUG) CHECK_EQUAL(threads(NULL), 1);
    (void)keeper_of(16u * MIB);
}

TEST(forks_in_succession_start_few_keepers) {
    (void)keeper_of(16u * MIB);
    for (int i = 0; i < 200; i++) {
        hold(200u * KIB);
        pid_t child = fork();
        if (child == 0) _exit(threads(NULL) == 1 ? 0 : 1);
        CHECK_CHILD(child);
    }
}

static bool may_unshare(int flags) {
    pid_t child = fork();
    if (child == 0) _exit(unshare(flags) == 0 ? 0 : 1);
    int result = 0;
    CHECK(waitpid(child, &result, 0) == child);
    return WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

TEST(a_process_with_a_keeper_enters_a_user_namespace) {
    if (!may_unshare(CLONE_NEWUSER)) return; // the system permits it to no process
    (void)keeper_of(16u * MIB);
    CHECK_EQUAL(unshare(CLONE_NEWUSER), 0);
    CHECK_EQUAL(threads(NULL), 1);
    sleep_ms(50);
    hold(1u * MIB);
    CHECK_EQUAL(threads(NULL), 2);
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

TEST(the_keeper_holds_none_of_the_programs_files) {
    if (syscall(SYS_close_range, ~0u, ~0u, 0) != 0) return; // an older system: it shares them
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/task/%ld/fd", keeper_of(16u * MIB));
    DIR* files = opendir(path);
    CHECK(files != NULL);
    int count = 0;
    for (struct dirent* file = readdir(files); file != NULL; file = readdir(files))
        count += file->d_name[0] != '.';
    closedir(files);
    CHECK(count <= 1); // the process's state, in /proc
}

TEST(files_of_the_program_keep_their_numbers) {
    for (int round = 0; round < 50; round++) {
        pid_t child = fork();
        if (child == 0) {
            int number = open("/dev/null", O_RDONLY);
            for (int i = 0; i < 20000; i++) {
                if (i < 5000) hold(1000);
                if (close(number) != 0 || open("/dev/null", O_RDONLY) != number) _exit(1);
            }
            _exit(0);
        }
        CHECK_EQUAL(ended(child), 0);
    }
}

// Ends the process's only thread, but not the process: in strict mode of seccomp, programs have no
// other way to end.
TEST(a_keeper_does_not_outlive_the_program) {
    pid_t child = fork();
    if (child == 0) {
        (void)keeper_of(16u * MIB);
        (void)syscall(SYS_exit, 7);
    }
    CHECK_EQUAL(ended(child), 7 << 8);
}

TEST(a_program_that_gives_up_privileges_has_no_keeper) {
    (void)keeper_of(16u * MIB);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    for (int waited = 0; waited < 10000 && threads(NULL) > 1; waited += 10) sleep_ms(10);
    CHECK_EQUAL(threads(NULL), 1);
    sleep_ms(50);
    hold(16u * MIB);
    CHECK_EQUAL(threads(NULL), 1);
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
        hold(32u * MIB);
        _exit(0);
    }
    CHECK_EQUAL(ended(child), 0);
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
        hold(32u * MIB);
        _exit(0);
    }
    CHECK_EQUAL(ended(child), 0);
}

static void* allocates(void* unused) {
    for (int i = 0; i < 100000; i++) kl_free(kl_malloc((size_t)(i % 3000) + 1));
    return unused;
}

TEST(threads_that_begin_later_share_the_keeper) {
    (void)keeper_of(16u * MIB);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&thread[i], NULL, allocates, NULL) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    for (int waited = 0; waited < 10000 && threads(NULL) > 2; waited += 10) sleep_ms(10);
    CHECK_EQUAL(threads(NULL), 2);
}
