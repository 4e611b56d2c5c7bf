// keel/runtime.h: options, limits, handlers, machine.
#include "check.h"
#include "memory.h"

#include <errno.h>
#include <keel/keel.h>
#include <keel/runtime.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char printed[8192];
static void collect_output(const char* text, void* argument) {
    CHECK(argument == printed);
    strncat(printed, text, sizeof printed - strlen(printed) - 1);
}

TEST(options_have_the_names_and_the_order_of_mimalloc) {
    static const char* const names[] = {"show_errors",
                                        "show_stats",
                                        "verbose",
                                        NULL,
                                        NULL,
                                        NULL,
                                        "large_os_pages",
                                        "reserve_huge_os_pages",
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL,
                                        "reset_delay",
                                        "use_numa_nodes",
                                        NULL,
                                        "max_errors",
                                        "keeper",
                                        "foreign_free",
                                        "limit",
                                        "zero_on_free",
                                        "guard_rate",
                                        "guard_seed",
                                        "guard_handler",
                                        "sized_free"};
    for (int i = 0; i < (int)kl_option_count; i++)
        CHECK(names[i] == NULL ? kl_option_name((kl_option_t)i) == NULL
                               : strcmp(kl_option_name((kl_option_t)i), names[i]) == 0);
    CHECK_EQUAL(sizeof names / sizeof *names, kl_option_count);
    CHECK(kl_option_name(kl_option_count) == NULL && kl_option_name((kl_option_t)-1) == NULL);
}

TEST(options_are_set_by_call) {
    for (int i = 0; i < (int)kl_option_limit; i++) {
        kl_option_t option = (kl_option_t)i;
        kl_option_set_default(option, 5);
        CHECK_EQUAL(kl_option_get(option), 5);
        kl_option_set(option, 7);
        kl_option_set_default(option, 8);
        kl_option_set_enabled_default(option, false);
        CHECK_EQUAL(kl_option_get(option), 7);
        kl_option_disable(option);
        CHECK(!kl_option_is_enabled(option));
        kl_option_enable(option);
        CHECK_EQUAL(kl_option_get(option), 1);
        kl_option_set_enabled(option, false);
        CHECK_EQUAL(kl_option_get(option), 0);
    }
    kl_option_set(kl_option_count, 1);
    CHECK_EQUAL(kl_option_get(kl_option_count), 0);
    CHECK_EQUAL(kl_option_get((kl_option_t)-1), 0);
}

// Runs this program again with that environment and compares the value of the option.
static void expect(char* const* environment, const char* option, long value) {
    char number[32];
    snprintf(number, sizeof number, "%ld", value);
    pid_t child = fork();
    if (child == 0) {
        setenv("SHOW_OPTION", option, 1);
        setenv("SHOW_VALUE", number, 1);
        for (; *environment != NULL; environment++) putenv(*environment);
        execl("/proc/self/exe", "runtime", "option_has_the_value_of_the_environment", (char*)NULL);
        _exit(127);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_WITH(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s is not %ld", option, value);
}
#define EXPECT(option, value, ...) expect((char*[]){__VA_ARGS__, NULL}, option, value)

TEST(option_has_the_value_of_the_environment) {
    const char* name = getenv("SHOW_OPTION");
    if (name == NULL) return;
    for (int i = 0; i < (int)kl_option_count; i++) {
        const char* option = kl_option_name((kl_option_t)i);
        if (option == NULL || strcmp(option, name) != 0) continue;
        CHECK_EQUAL(kl_option_get((kl_option_t)i), atol(getenv("SHOW_VALUE")));
        return;
    }
    CHECK(false);
}

TEST(options_are_set_by_the_environment) {
    EXPECT("reset_delay", 500, "KEEL_NOTHING=1");
    EXPECT("reset_delay", 70, "KEEL_RESET_DELAY=70");
    EXPECT("reset_delay", 71, "KEEL_PURGE_DELAY_MS=71");
    EXPECT("reset_delay", 72, "MIMALLOC_RESET_DELAY=72");
    EXPECT("reset_delay", 70, "KEEL_RESET_DELAY=70", "MIMALLOC_RESET_DELAY=72");
    EXPECT("reset_delay", 70, "MIMALLOC_RESET_DELAY=72", "KEEL_RESET_DELAY=70");
    EXPECT("reset_delay", 500, "KEEL_RESET_DELAY=many");
    EXPECT("reset_delay", 500, "KEEL_RESET_DELAY_X=9");
    EXPECT("max_errors", 0, "MIMALLOC_MAX_ERRORS=off");
    EXPECT("max_errors", -1, "MIMALLOC_MAX_ERRORS=-1");
    EXPECT("show_errors", 1, "MIMALLOC_SHOW_ERRORS=Yes");
    EXPECT("show_errors", 1, "KEEL_SHOW_ERRORS=true");
    EXPECT("keeper", 0, "KEEL_KEEPER=off");
    EXPECT("keeper", 1, "KEEL_KEEPER=on");
    EXPECT("keeper", 2, "KEEL_KEEPER=auto");
    EXPECT("foreign_free", 1, "KEEL_FOREIGN_FREE=abort");
    EXPECT("sized_free", 0, "KEEL_SIZED_FREE=off");
    EXPECT("sized_free", 1, "KEEL_SIZED_FREE=abort");
    EXPECT("sized_free", 2, "KEEL_SIZED_FREE=report");
    EXPECT("limit", 64L << 20, "KEEL_LIMIT=64M");
    EXPECT("limit", 3L << 30, "KEEL_LIMIT=3GiB");
    EXPECT("limit", 0, "KEEL_LIMIT=3X");
    EXPECT("limit", 0, "KEEL_LIMIT=99999999999999999999");
}

// Returns what the program writes to stderr with this entry in its environment.
static const char* stderr_with(const char* entry) {
    static char text[4096];
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        putenv((char*)entry);
        execl("/proc/self/exe", "runtime", "option_has_the_value_of_the_environment", (char*)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got = 1; got > 0 && length < sizeof text - 1; length += (size_t)got) {
        got = read(ends[0], text + length, sizeof text - 1 - length);
        CHECK(got >= 0);
    }
    text[length] = '\0';
    close(ends[0]);
    CHECK_CHILD(child);
    return text;
}

TEST(an_invalid_value_prints_a_warning) {
    static const char* const bad[] = {"KEEL_RESET_DELAY=many", "KEEL_LIMIT=3X",
                                      "KEEL_KEEPER=perhaps",   "KEEL_PURGE_DELAY_MS=0x1",
                                      "KEEL_LIMIT=",           "KEEL_LIMIT=auto",
                                      "KEEL_GUARD_RATE=K",     "KEEL_PURGE_DELAY_MS=abort",
                                      "MIMALLOC_VERBOSE=very"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char* printed = stderr_with(bad[i]);
        CHECK_WITH(strncmp(printed, "keel: invalid value", 19) == 0 &&
                       strstr(printed, bad[i]) != NULL,
                   "%s: %s", bad[i], printed);
    }
    static const char* const good[] = {"KEEL_LIMIT=30G", "KEEL_NOTHING=many",
                                       "KEEL_STATISTICS=many", "KEEL=many",
                                       "MIMALLOC_LARGE_OS_PAGES=no"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK_WITH(*stderr_with(good[i]) == '\0', "%s: %s", good[i], stderr_with(good[i]));
}

TEST(each_option_of_mimalloc_has_both_names_in_the_environment) {
    static const char* const prefixes[] = {"KEEL_", "MIMALLOC_"};
    for (int i = 0; i <= (int)kl_option_max_errors; i++) {
        const char* name = kl_option_name((kl_option_t)i);
        if (name == NULL) continue; // without effect in Keel
        for (int k = 0; k < 2; k++) {
            char entry[80];
            // Few pages of 1 GiB, in case the machine has some.
            int value = i == kl_option_reserve_huge_os_pages ? 0 : 1 + k;
            snprintf(entry, sizeof entry, "%s%s=%d", prefixes[k], name, value);
            for (char* at = entry; *at != '='; at++) {
                if (*at >= 'a' && *at <= 'z') *at = (char)(*at - 'a' + 'A');
            }
            EXPECT(name, value, entry);
        }
    }
}

TEST(the_limit_is_enforced_and_can_be_removed) {
    enum { COUNT = 100000 };
    static void* blocks[COUNT];
    int count = 0;
    CHECK_EQUAL(kl_limit(32u * MIB), 0);
    CHECK(kl_malloc(40u * MIB) == NULL && errno == ENOMEM);
    while (count < COUNT && (blocks[count] = kl_malloc(1000)) != NULL) count++;
    CHECK_WITH(count > 25000 && count < 34000, "%d blocks", count);
    struct kl_process process;
    kl_process_info(&process);
    CHECK_WITH(process.held_bytes <= 32u * MIB, "%zu", (size_t)process.held_bytes);
    CHECK(kl_malloc(200000) == NULL);
    for (int i = 0; i < count; i++) kl_free(blocks[i]);
    void* p = kl_malloc(20u * MIB);
    CHECK(p != NULL);
    errno = 0;
    CHECK(kl_realloc(p, 40u * MIB) == NULL && errno == ENOMEM);
    CHECK_EQUAL(kl_limit(0), 32u * MIB);
    p = kl_realloc(p, 40u * MIB);
    CHECK(p != NULL);
    kl_free(p);
}

// A block that should shrink while memory is refused stays where it is, and the program still
// passes its own size to the free.
TEST(block_that_could_not_shrink_is_freed_by_its_size) {
    enum { MOST = 100000 };
    static const size_t shrunk[] = {20, 100, 700, 5000, 40000};
    static void* rest[MOST];
    void* blocks[5];
    for (int i = 0; i < 5; i++) CHECK((blocks[i] = kl_malloc(i < 3 ? 3000 : 120000)) != NULL);
    (void)kl_limit(16 * MIB);
    size_t count = 0;
    for (size_t size = 100000; size > 8; size = size * 2 / 3) {
        void* block;
        while (count < MOST && (block = kl_malloc(size)) != NULL) rest[count++] = block;
    }
    CHECK(count < MOST);
    int stayed = 0;
    for (int i = 0; i < 5; i++) {
        void* block = kl_realloc(blocks[i], shrunk[i]);
        CHECK(block != NULL);
        stayed += block == blocks[i];
        blocks[i] = block;
    }
    CHECK_WITH(KEEL_DEBUG || stayed == 5, "%d", stayed);
    (void)kl_limit(0);
    for (int i = 0; i < 5; i++) kl_free_sized(blocks[i], shrunk[i]);
    while (count > 0) kl_free(rest[--count]);
}

static int handler_calls;
static void* reserve;
static bool free_a_reserve(size_t size, void* argument) {
    CHECK(size == 20u * MIB && argument == &reserve);
    handler_calls++;
    if (reserve == NULL) return false;
    kl_free(reserve);
    reserve = NULL;
    return true;
}

TEST(the_out_of_memory_handler_can_free_memory_and_retry) {
    kl_limit(32u * MIB);
    reserve = kl_malloc(20u * MIB);
    kl_register_out_of_memory(free_a_reserve, &reserve);
    void* p = kl_malloc(20u * MIB);
    CHECK(p != NULL && handler_calls == 1);
    errno = 0;
    CHECK(kl_malloc(20u * MIB) == NULL && handler_calls == 2 && errno == ENOMEM);
    CHECK(kl_malloc(SIZE_MAX) == NULL && handler_calls == 2);
    kl_register_out_of_memory(NULL, NULL);
    CHECK(kl_calloc(2, 10u * MIB) == NULL && handler_calls == 2);
}

static int errors[5];
static int error_count;
static void note_error(int error, void* argument) {
    CHECK(argument == errors && error_count < 5);
    errors[error_count++] = error;
}

TEST(errors_are_passed_to_the_handler_and_printed) {
    static char foreign[64];
    kl_register_output(collect_output, printed);
    kl_register_error(note_error, errors);
    CHECK(kl_malloc(SIZE_MAX) == NULL && error_count == 1 && errors[0] == EOVERFLOW);
    CHECK(kl_pvalloc(SIZE_MAX - 1) == NULL && error_count == 2 && errors[1] == EOVERFLOW);
    error_count = 1;
    CHECK(printed[0] == '\0');
    kl_option_enable(kl_option_show_errors);
    kl_limit(1);
    CHECK(kl_malloc(3u * MIB) == NULL && error_count == 2 && errors[1] == ENOMEM);
    CHECK(strcmp(printed, "keel: no memory for a block of 3145728 bytes\n") == 0);
    printed[0] = '\0';
    kl_free(foreign);
    CHECK(error_count == 3 && errors[2] == EINVAL);
    CHECK(strstr(printed, "keel: free of memory that is not Keel's (ignored): 0x") == printed);
    printed[0] = '\0';
    kl_option_set(kl_option_max_errors, 2);
    kl_free(foreign);
    CHECK(error_count == 4 && printed[0] == '\0');
}

#ifndef __SANITIZE_ADDRESS__ // ASan cannot follow the unwinding of a cancelled thread
struct cancelled {
    _Atomic bool requested, finished;
};

static void* print_and_read_after_a_request(void* argument) {
    struct cancelled* cancelled = argument;
    struct kl_process process;
    struct kl_machine machine;
    while (!cancelled->requested) sched_yield();
    kl_limit(1);
    CHECK(kl_malloc(3u * MIB) == NULL);
    kl_limit(0);
    kl_process_info(&process);
    kl_machine_info(&machine);
    kl_stats_print(NULL, NULL);
    cancelled->finished = true;
    for (;;) sleep_ms(1);
    return NULL;
}

TEST(no_call_is_a_cancellation_point) {
    struct cancelled cancelled = {false, false};
    pthread_t thread;
    void* result;
    kl_option_enable(kl_option_show_errors);
    CHECK(pthread_create(&thread, NULL, print_and_read_after_a_request, &cancelled) == 0);
    CHECK(pthread_cancel(thread) == 0);
    cancelled.requested = true;
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && cancelled.finished);
}
#endif

TEST(the_report_goes_to_the_output) {
    kl_register_output(collect_output, printed);
    kl_stats_print(NULL, NULL);
    CHECK(strstr(printed, "keel statistics") == printed && strstr(printed, "held_bytes") != NULL);
}

static unsigned long long last_heartbeat;
static int forced;
static void count_heartbeat(bool force, unsigned long long heartbeat, void* argument) {
    CHECK(argument == &last_heartbeat && heartbeat == last_heartbeat + 1);
    last_heartbeat = heartbeat;
    forced += force;
    kl_free(kl_malloc(100000)); // must not call the handler again
}

TEST(the_deferred_free_handler_is_called) {
    kl_register_deferred_free(count_heartbeat, &last_heartbeat);
    for (int i = 0; i < 10000; i++) CHECK(kl_malloc(100) != NULL);
    CHECK_WITH(last_heartbeat > 10, "%llu", last_heartbeat);
    CHECK_EQUAL(forced, 0);
    kl_collect(true);
    CHECK_EQUAL(forced, 1);
    kl_register_deferred_free(NULL, NULL);
    unsigned long long before = last_heartbeat;
    for (int i = 0; i < 10000; i++) CHECK(kl_malloc(100) != NULL);
    CHECK_EQUAL(last_heartbeat, before);
}

TEST(the_machine_info_matches_the_system) {
    struct kl_machine machine;
    kl_machine_info(&machine);
    CHECK(machine.processors >= 1 && machine.processors <= (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
    uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    CHECK(machine.memory_bytes >= bytes / 10 * 9 && machine.memory_bytes <= bytes / 10 * 11);
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    // The tests may run under a lower limit.
    limit.rlim_cur = limit.rlim_max < UINT64_C(1) << 37 ? limit.rlim_max : UINT64_C(1) << 37;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    struct kl_machine limited;
    kl_machine_info(&limited);
    CHECK(limited.memory_limit_bytes != 0 && limited.memory_limit_bytes <= limit.rlim_cur);
}

static void to_stderr(const char* text, void* argument) {
    (void)argument;
    (void)!write(STDERR_FILENO, "heard: ", 7);
    (void)!write(STDERR_FILENO, text, strlen(text));
}

enum { FAULTY = 8 };
static pthread_barrier_t all_ready;
static void* frees_twice(void* block) {
    pthread_barrier_wait(&all_ready);
    kl_free(block);
    kl_free(block);
    return NULL;
}
static void fault_in_threads(void) {
    pthread_t threads[FAULTY];
    pthread_barrier_init(&all_ready, NULL, FAULTY);
    for (int i = 0; i < FAULTY; i++)
        CHECK(pthread_create(&threads[i], NULL, frees_twice, kl_malloc(700000)) == 0);
    for (int i = 0; i < FAULTY; i++) pthread_join(threads[i], NULL);
}
TEST(threads_that_fault_at_once_print_one_message) {
    for (int turn = 0; turn < 20; turn++) {
        static char text[65536];
        int pipe_ends[2];
        CHECK(pipe(pipe_ends) == 0);
        pid_t child = fork();
        if (child == 0) {
            dup2(pipe_ends[1], STDERR_FILENO);
            close(pipe_ends[1]);
            fault_in_threads();
            _exit(1);
        }
        close(pipe_ends[1]);
        size_t length = 0;
        for (ssize_t count = 1; count > 0 && length < sizeof text - 1; length += (size_t)count)
            count = read(pipe_ends[0], text + length, sizeof text - 1 - length);
        text[length] = 0;
        close(pipe_ends[0]);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        char* first = strstr(text, "keel: ");
        CHECK_WITH(first != NULL && strstr(first + 1, "keel: ") == NULL, "%s", text);
    }
}

static sigjmp_buf before_fault;
static void leaves_handler(int number) {
    static int count;
    if (count++ == 0) siglongjmp(before_fault, number);
    _exit(0);
}
TEST(a_thread_reports_after_another_has_left_its_report) {
    pthread_t thread;
    pthread_barrier_init(&all_ready, NULL, 1);
    signal(SIGABRT, leaves_handler);
    pid_t child = fork();
    if (child == 0) {
        if (sigsetjmp(before_fault, 1) == 0) frees_twice(kl_malloc(700000));
        CHECK(pthread_create(&thread, NULL, frees_twice, kl_malloc(700000)) == 0);
        pthread_join(thread, NULL);
        _exit(1);
    }
    check_child(__FILE__, __LINE__, child);
}

TEST_DIES(a_fault_goes_to_the_output_and_ends_the_process, SIGABRT,
          "heard: keel: free of a block that is not allocated") {
    void* p = kl_malloc(700000);
    kl_register_output(to_stderr, NULL);
    kl_free(p);
    kl_free(p);
}
