#include "check_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct check_test* first_test;
static struct outcome outcome; // static: too large for the stack of a test that measures memory

void check_register(struct check_test* test) {
    struct check_test** end = &first_test;
    while (*end) end = &(*end)->next;
    *end = test;
}

static __attribute__((format(printf, 1, 2))) void print_text(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    check_print(format, arguments);
    va_end(arguments);
}

void check_fail(const char* file, int line, const char* format, ...) {
    const char* base = strrchr(file, '/');
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    print_text("%s:%d: ", base ? base + 1 : file, line);
    check_print(format, arguments);
    check_print_error(error);
    va_end(arguments);
    check_exit(EXIT_FAILED);
}

void check_skip(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    check_print(format, arguments);
    va_end(arguments);
    check_exit(EXIT_SKIPPED);
}

bool check_is_set(const char* name) {
    const char* value = getenv(name);
    return value && *value && strcmp(value, "0") != 0 && strcmp(value, "false") != 0;
}

unsigned check_deadline_seconds(void) {
    const char* value = getenv("CHECK_SECONDS");
    return value && atoi(value) > 0 ? (unsigned)atoi(value) : 60;
}

static bool has_line_beginning_with(const char* text, const char* line) {
    size_t length = strlen(line);
    for (const char* at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        if (strncmp(at, line, length) == 0) return true;
    }
    return false;
}

static void run_one(const struct check_test* test) {
    check_run(test, &outcome);
    if (outcome.kind == PASSED && test->expected_message &&
        !has_line_beginning_with(outcome.text, test->expected_message))
        outcome.kind = FAILED;
}

static void print_failure(const struct check_test* test) {
    printf("FAIL %s: ", test->name);
    check_print_end(&outcome);
    if (test->expected_signal) {
        printf("; expected signal %d", test->expected_signal);
        if (test->expected_message) printf(" and the line \"%s\"", test->expected_message);
    }
    printf("\n%s%s", outcome.text, outcome.text[0] ? "\n" : "");
}

static void report(const struct check_test* test) {
    if (outcome.kind == FAILED) print_failure(test);
    if (outcome.kind == SKIPPED) printf("SKIP %s: %s\n", test->name, outcome.text);
    if (outcome.kind == PASSED && check_is_set("CHECK_VERBOSE"))
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

int main(int argc, char** argv) {
    static char line_buffer[4096]; // otherwise stdio would allocate one
    int counts[3] = {0, 0, 0};
    setvbuf(stdout, line_buffer, _IOLBF, sizeof line_buffer);
    if (!check_prepare(first_test)) counts[FAILED]++;
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
