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
    char text[8192]; // the test's stderr, truncated
};

static struct check_test* first_test;
static struct outcome outcome; // static: too large for the stack of a test that measures memory

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
    if (WIFSIGNALED(status))
        check_fail(file, line, "a child was ended by signal %d", WTERMSIG(status));
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

static __attribute__((noreturn)) void run_as_child(const struct check_test* test, int text) {
    setpgid(0, 0); // so that processes that it starts can be killed with it
    dup2(text, STDERR_FILENO);
    alarm(deadline_seconds());
    test->run();
    _exit(0);
}

static bool has_line_beginning_with(const char* text, const char* line) {
    size_t length = strlen(line);
    for (const char* at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        if (strncmp(at, line, length) == 0) return true;
    }
    return false;
}

static void judge(const struct check_test* test) {
    int status = outcome.status;
    outcome.kind = FAILED;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED) {
        outcome.kind = is_set("CI") ? FAILED : SKIPPED;
    } else if (test->expected_signal == 0) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) outcome.kind = PASSED;
    } else if (WIFSIGNALED(status) && WTERMSIG(status) == test->expected_signal) {
        if (!test->expected_message ||
            has_line_beginning_with(outcome.text, test->expected_message))
            outcome.kind = PASSED;
    }
}

// The child's stderr is a file in memory: unlike a pipe it never fills, and a remaining grandchild
// cannot keep it open.
static void run_one(const struct check_test* test) {
    long start = now_ms();
    int text = memfd_create("stderr of a test", MFD_CLOEXEC);
    pid_t child = text < 0 ? -1 : fork();
    if (child == 0) run_as_child(test, text);
    if (child < 0) {
        perror("check: cannot start a test");
        exit(2);
    }
    setpgid(child, child);
    while (waitpid(child, &outcome.status, 0) < 0 && errno == EINTR) continue;
    kill(-child, SIGKILL);
    ssize_t length = pread(text, outcome.text, sizeof outcome.text - 1, 0);
    outcome.text[length > 0 ? length : 0] = 0;
    close(text);
    outcome.milliseconds = now_ms() - start;
    judge(test);
}

static void print_failure(const struct check_test* test) {
    int status = outcome.status;
    printf("FAIL %s: ", test->name);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        printf("timeout after %u seconds", deadline_seconds());
    } else if (WIFSIGNALED(status)) {
        printf("ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) == EXIT_SKIPPED) {
        printf("skipped, which is a failure when CI is set");
    } else if (WEXITSTATUS(status) == EXIT_FAILED) {
        printf("a check failed");
    } else {
        printf("ended with status %d", WEXITSTATUS(status));
    }
    if (test->expected_signal) {
        printf("; expected signal %d", test->expected_signal);
        if (test->expected_message) printf(" and the line \"%s\"", test->expected_message);
    }
    printf("\n%s%s", outcome.text, outcome.text[0] ? "\n" : "");
}

static void report(const struct check_test* test) {
    if (outcome.kind == FAILED) print_failure(test);
    if (outcome.kind == SKIPPED) printf("SKIP %s: %s\n", test->name, outcome.text);
    if (outcome.kind == PASSED && is_set("CHECK_VERBOSE"))
        printf("ok   %s (%ld ms)\n", test->name, outcome.milliseconds);
    fflush(stdout);
}

// CHECK_LEAVE_OUT has whole names with a blank on both sides of each.
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

static bool is_wanted(const struct check_test* test, int words_count, char** text) {
    if (is_left_out(test)) return false;
    for (int i = 0; i < words_count; i++) {
        if (strstr(test->name, text[i])) return true;
    }
    return words_count == 0;
}

// Returns true if `malloc` is in the file that CHECK_MALLOC_IN names, or if that is not set.
static bool malloc_is_in_the_expected_file(void) {
    const char* wanted = getenv("CHECK_MALLOC_IN");
    Dl_info info;
    if (!wanted || !*wanted) return true;
    if (dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) && strstr(info.dli_fname, wanted)) return true;
    printf("FAIL malloc_is_in_the_expected_file: in %s, not in %s\n",
           info.dli_fname ? info.dli_fname : "?", wanted);
    return false;
}

int main(int argc, char** argv) {
    static char line_buffer[4096]; // otherwise stdio would allocate one
    int counts[3] = {0, 0, 0};
    setvbuf(stdout, line_buffer, _IOLBF, sizeof line_buffer);
    if (!malloc_is_in_the_expected_file()) counts[FAILED]++;
    for (struct check_test* test = first_test; test; test = test->next) {
        if (!is_wanted(test, argc - 1, argv + 1)) continue;
        fflush(stdout);
        run_one(test);
        report(test);
        counts[outcome.kind]++;
    }
    printf("%d passed, %d failed, %d skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
    return counts[FAILED] != 0;
}
