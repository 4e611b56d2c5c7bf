#include "check_run.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void check_print(const char* format, va_list arguments) {
    vdprintf(STDERR_FILENO, format, arguments);
}

void check_print_error(int error) {
    dprintf(STDERR_FILENO, " (errno %d)\n", error);
}

void check_exit(int status) {
    _exit(status);
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

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec * 1000 + (long)now.tv_nsec / 1000000;
}

static __attribute__((noreturn)) void run_as_child(const struct check_test* test, int text) {
    setpgid(0, 0); // so that processes that it starts can be killed with it
    dup2(text, STDERR_FILENO);
    alarm(check_deadline_seconds());
    test->run();
    _exit(0);
}

static bool is_expected_end(int expected_signal, int status) {
    if (expected_signal == 0) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return WIFSIGNALED(status) && WTERMSIG(status) == expected_signal;
}

// The child's stderr is a file in memory: unlike a pipe it never fills, and a remaining grandchild
// cannot keep it open.
void check_run(const struct check_test* test, struct outcome* outcome) {
    long start = now_ms();
    int text = memfd_create("stderr of a test", MFD_CLOEXEC);
    pid_t child = text < 0 ? -1 : fork();
    if (child == 0) run_as_child(test, text);
    if (child < 0) {
        perror("check: cannot start a test");
        exit(2);
    }
    setpgid(child, child);
    while (waitpid(child, &outcome->status, 0) < 0 && errno == EINTR) continue;
    kill(-child, SIGKILL);
    ssize_t length = pread(text, outcome->text, sizeof outcome->text - 1, 0);
    outcome->text[length > 0 ? length : 0] = 0;
    close(text);
    outcome->milliseconds = now_ms() - start;
    outcome->kind = is_expected_end(test->expected_signal, outcome->status) ? PASSED : FAILED;
    if (WIFEXITED(outcome->status) && WEXITSTATUS(outcome->status) == EXIT_SKIPPED)
        outcome->kind = check_is_set("CI") ? FAILED : SKIPPED;
}

void check_print_end(const struct outcome* outcome) {
    int status = outcome->status;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        printf("timeout after %u seconds", check_deadline_seconds());
    } else if (WIFSIGNALED(status)) {
        printf("ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) == EXIT_SKIPPED) {
        printf("skipped, which is a failure when CI is set");
    } else if (WEXITSTATUS(status) == EXIT_FAILED) {
        printf("a check failed");
    } else {
        printf("ended with status %d", WEXITSTATUS(status));
    }
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

bool check_prepare(struct check_test* first) {
    (void)first;
    return malloc_is_in_the_expected_file();
}
