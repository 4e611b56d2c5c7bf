// Starts a process again and again that allocates once and ends, and measures how long each takes.
//
//   start launch N [LIBRARY]   N processes with this library preloaded; prints their times as JSON
//   start child                one of them: writes the time of its first malloc to file 3
#define _GNU_SOURCE // pipe2
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RESULT_FILE = 3, STARTS_MAX = 10000 };

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void fail(const char* what) {
    perror(what);
    exit(1);
}

static int child(void) {
    (void)now_ns(); // the first call looks up the clock
    uint64_t begun = now_ns();
    char* volatile block = malloc(100);
    uint64_t taken = now_ns() - begun;
    block[0] = 1;
    free(block);
    return write(RESULT_FILE, &taken, sizeof taken) == sizeof taken ? 0 : 1;
}

// Runs one child. Returns its time, from before its start until it has been waited for.
static uint64_t start(char* program, char** environment, int results[2], uint64_t* malloc_ns) {
    posix_spawn_file_actions_t actions;
    char* arguments[] = {program, "child", NULL};
    pid_t process;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, results[1], RESULT_FILE);
    uint64_t begun = now_ns();
    if (posix_spawn(&process, program, &actions, NULL, arguments, environment) != 0) fail("spawn");
    if (waitpid(process, &status, 0) != process) fail("wait");
    uint64_t taken = now_ns() - begun;
    posix_spawn_file_actions_destroy(&actions);
    if (status != 0 || read(results[0], malloc_ns, sizeof *malloc_ns) != sizeof *malloc_ns) {
        fprintf(stderr, "start: a process failed\n");
        exit(1);
    }
    return taken;
}

static void print_list(const char* name, const uint64_t* times, unsigned count, const char* end) {
    printf("\"%s\":[", name);
    for (unsigned i = 0; i < count; i++)
        printf("%s%llu", i > 0 ? "," : "", (unsigned long long)times[i]);
    printf("]%s", end);
}

static int launch(char* program, unsigned count, const char* library) {
    static uint64_t times[STARTS_MAX], mallocs[STARTS_MAX];
    static char preload[4096];
    char* environment[] = {NULL, NULL};
    int results[2];
    if (library != NULL) {
        snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
        environment[0] = preload;
    }
    if (pipe2(results, O_CLOEXEC) != 0) fail("pipe");
    for (unsigned i = 0; i < count; i++)
        times[i] = start(program, environment, results, &mallocs[i]);
    printf("{");
    print_list("process_ns", times, count, ",");
    print_list("malloc_ns", mallocs, count, "}\n");
    return 0;
}

int main(int count, char** arguments) {
    if (count == 2 && strcmp(arguments[1], "child") == 0) return child();
    unsigned starts = count >= 3 ? (unsigned)strtoul(arguments[2], NULL, 10) : 0;
    if (starts > 0 && starts <= STARTS_MAX)
        return launch(arguments[0], starts, count > 3 ? arguments[3] : NULL);
    fprintf(stderr, "start: start launch N [LIBRARY]; N is at most %d\n", STARTS_MAX);
    return 2;
}
