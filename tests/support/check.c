#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, EXIT_SKIPPED = 77 };

struct outcome {
    enum { PASSED, FAILED, SKIPPED } kind;
    int status;
    long milliseconds;
    char words[8192]; // what the test wrote to stderr; the end is cut off when it is longer
};

static struct check_test* first_test;
static struct outcome outcome; // static: too big for the stack of a test that measures memory

void check_register(struct check_test* test) {
    struct check_test** end = &first_test;
    while (*end) end = &(*end)->next;
    *end = test;
}

void check_fail(const char* file, int line, const char* format, ...) {
    const char* base = strrchr(file, '/');
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    dprintf(STDERR_FILENO, "%s:%d: ", base ? base + 1 : file, line);
    vdprintf(STDERR_FILENO, format, arguments);
    dprintf(STDERR_FILENO, " (errno %d)\n", error);
    va_end(arguments);
    _exit(EXIT_FAILED);
}

void check_skip(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vdprintf(STDERR_FILENO, format, arguments);
    va_end(arguments);
    _exit(EXIT_SKIPPED);
}

void check_child(const char* file, int line, pid_t child) {
    int status = -1;
    if (child < 0) check_fail(file, line, "fork failed");
    if (waitpid(child, &status, 0) != child) check_fail(file, line, "waitpid failed");
    if (WIFSIGNALED(status)) check_fail(file, line, "a child died of signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        check_fail(file, line, "a child ended with status %d", WEXITSTATUS(status));
}

static bool is_set(const char* name) {
    const char* value = getenv(name);
    return value && *value && strcmp(value, "0") != 0 && strcmp(value, "false") != 0;
}

static unsigned deadline_seconds(void) {
    const char* value = getenv("CHECK_SECONDS");
    return value && atoi(value) > 0 ? (unsigned)atoi(value) : 60;
}

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec * 1000 + (long)now.tv_nsec / 1000000;
}

static __attribute__((noreturn)) void run_as_child(const struct check_test* test, int words) {
    setpgid(0, 0); // whatever it starts can be ended with it
    dup2(words, STDERR_FILENO);
    alarm(deadline_seconds());
    test->run();
    _exit(0);
}

static bool has_line_beginning_with(const char* words, const char* line) {
    size_t length = strlen(line);
    for (const char* at = words; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        if (strncmp(at, line, length) == 0) return true;
    }
    return false;
}

static void judge(const struct check_test* test) {
    int status = outcome.status;
    outcome.kind = FAILED;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED) {
        outcome.kind = is_set("CI") ? FAILED : SKIPPED;
    } else if (test->dies_of == 0) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) outcome.kind = PASSED;
    } else if (WIFSIGNALED(status) && WTERMSIG(status) == test->dies_of) {
        if (!test->last_words || has_line_beginning_with(outcome.words, test->last_words))
            outcome.kind = PASSED;
    }
}

// The child's stderr goes to a file in memory: unlike a pipe it never fills, and a stray grandchild
// cannot hold it open.
static void run_one(const struct check_test* test) {
    long start = now_ms();
    int words = memfd_create("stderr of a test", MFD_CLOEXEC);
    pid_t child = words < 0 ? -1 : fork();
    if (child == 0) run_as_child(test, words);
    if (child < 0) {
        perror("check: cannot start a test");
        exit(2);
    }
    setpgid(child, child);
    while (waitpid(child, &outcome.status, 0) < 0 && errno == EINTR) continue;
    kill(-child, SIGKILL);
    ssize_t length = pread(words, outcome.words, sizeof outcome.words - 1, 0);
    outcome.words[length > 0 ? length : 0] = 0;
    close(words);
    outcome.milliseconds = now_ms() - start;
    judge(test);
}

static void tell_failure(const struct check_test* test) {
    int status = outcome.status;
    printf("FAIL %s: ", test->name);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        printf("no end after %u seconds", deadline_seconds());
    } else if (WIFSIGNALED(status)) {
        printf("died of signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) == EXIT_SKIPPED) {
        printf("skipped, which is a failure when CI is set");
    } else if (WEXITSTATUS(status) == EXIT_FAILED) {
        printf("a check failed");
    } else {
        printf("ended with status %d", WEXITSTATUS(status));
    }
    if (test->dies_of) {
        printf("; expected signal %d", test->dies_of);
        if (test->last_words) printf(" and the line \"%s\"", test->last_words);
    }
    printf("\n%s%s", outcome.words, outcome.words[0] ? "\n" : "");
}

static void tell(const struct check_test* test) {
    if (outcome.kind == FAILED) tell_failure(test);
    if (outcome.kind == SKIPPED) printf("SKIP %s: %s\n", test->name, outcome.words);
    if (outcome.kind == PASSED && is_set("CHECK_VERBOSE"))
        printf("ok   %s (%ld ms)\n", test->name, outcome.milliseconds);
    fflush(stdout);
}

// CHECK_LEAVE_OUT holds whole names with a blank around each.
static bool is_left_out(const struct check_test* test) {
    const char* names = getenv("CHECK_LEAVE_OUT");
    size_t length = strlen(test->name);
    const char* at = names;
    while (at && (at = strstr(at, test->name)) != NULL) {
        if (at > names && at[-1] == ' ' && at[length] == ' ') return true;
        at += length;
    }
    return false;
}

static bool is_wanted(const struct check_test* test, int words_count, char** words) {
    if (is_left_out(test)) return false;
    for (int i = 0; i < words_count; i++) {
        if (strstr(test->name, words[i])) return true;
    }
    return words_count == 0;
}

// True when `malloc` stands in the file that the caller of the tests names; a program that was not
// told so is content.
static bool malloc_is_where_it_should_be(void) {
    const char* wanted = getenv("CHECK_MALLOC_IN");
    Dl_info info;
    if (!wanted || !*wanted) return true;
    if (dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) && strstr(info.dli_fname, wanted)) return true;
    printf("FAIL malloc_is_where_it_should_be: in %s, not in %s\n",
           info.dli_fname ? info.dli_fname : "?", wanted);
    return false;
}

int main(int argc, char** argv) {
    static char line_buffer[4096]; // stdio would take one from malloc
    int counts[3] = {0, 0, 0};
    setvbuf(stdout, line_buffer, _IOLBF, sizeof line_buffer);
    if (!malloc_is_where_it_should_be()) counts[FAILED]++;
    for (struct check_test* test = first_test; test; test = test->next) {
        if (!is_wanted(test, argc - 1, argv + 1)) continue;
        fflush(stdout);
        run_one(test);
        tell(test);
        counts[outcome.kind]++;
    }
    printf("%d passed, %d failed, %d skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
    return counts[FAILED] != 0;
}
