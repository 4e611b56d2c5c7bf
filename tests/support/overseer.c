// Runs a command and all processes that it starts, and reports their resources and the processes
// that outlive the command.
//
//     overseer [--calls] REPORT SECONDS COMMAND...
//
// The overseer becomes the parent of every orphan below it (PR_SET_CHILD_SUBREAPER), so it sees
// every process that the command starts, whatever session or group that joins. When the command has
// ended, the other processes have GRACE_MS to end too; after that they are killed and reported.
// After SECONDS all processes are killed and the status is 124. They are also killed when the
// parent of the overseer ends: nobody would read the report.
//
// REPORT receives one line of JSON: status (128 + N for signal N), wall_s (until the command
// ended), user_s and sys_s (of all processes), peak_bytes (of the largest process), average_bytes
// (the resident memory of all processes together, averaged over the time, sampled every 1 to 10 ms;
// 0 if there were fewer than 5 samples), minor_faults and major_faults, voluntary_switches and
// involuntary_switches (of all processes), system_calls (of all processes, with --calls; else -1,
// and also if the system forbids it), left (the names of the processes that were killed). The
// overseer exits with the status.
//
// With --calls it stops every thread at each system call (ptrace), which multiplies the time.
//
// The program is small on purpose: the memory that a process had resident before exec counts in its
// peak, so the launcher's size is the smallest peak that can be measured.
#include "overseer_memory.h"
#include "overseer_trace.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PARENT_S = 1,
    GRACE_MS = 2000,
    STATUS_LATE = 124,
    STATUS_NO_COMMAND = 127,
    NAMES_BYTES = 1024
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static bool tracing;
static struct memory memory;
static pid_t parent;

// Kills all child processes and writes their names to `names`, as the elements of a JSON array.
// Their own children become children of this process when they are reaped. Returns the number of
// processes.
static int kill_children(char* names) {
    int count = 0;
    DIR* processes = opendir("/proc");
    if (!processes) return 0;
    for (struct dirent* entry; (entry = readdir(processes));) {
        char path[64], line[512];
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        snprintf(path, sizeof(path), "/proc/%.20s/stat", entry->d_name);
        FILE* file = fopen(path, "r");
        if (!file) continue;
        bool read = fgets(line, sizeof(line), file) != NULL;
        fclose(file);
        char *open = read ? strchr(line, '(') : NULL, *close = read ? strrchr(line, ')') : NULL;
        char state;
        int parent;
        if (!open || !close || sscanf(close + 1, " %c %d", &state, &parent) != 2) continue;
        if (parent != getpid() || state == 'Z') continue;
        *close = 0;
        for (char* at = open; *at; at++)
            if (*at == '"' || *at == '\\' || iscntrl((unsigned char)*at)) *at = '?';
        size_t used = strlen(names);
        snprintf(names + used, NAMES_BYTES - used, "%s\"%s\"", used ? "," : "", open + 1);
        kill(atoi(entry->d_name), SIGKILL);
        count++;
    }
    closedir(processes);
    return count;
}

// True once, when the parent has ended.
static bool parent_ended(void) {
    pid_t before = parent;
    parent = getppid();
    return parent != before;
}

// Waits until `until` for any child. Returns its process id, 0 after the timeout or when the parent
// has ended, or -1 if there is none.
static pid_t reap(double until, int* status) {
    for (;;) {
        pid_t process = waitpid(-1, status, WNOHANG | __WALL);
        if (process > 0 && WIFSTOPPED(*status)) {
            trace_continue(process, *status);
            continue;
        }
        if (process > 0 || (process < 0 && errno == ECHILD)) return process;
        double time = now(), left = until - time;
        if (left <= 0 || parent_ended()) return 0;
        if (left > PARENT_S) left = PARENT_S;
        if (memory.of != 0 && time >= memory.next) memory_sample(&memory, time);
        if (memory.of != 0 && memory.next - time < left) left = memory.next - time;
        if (left <= 0) continue;
        sigset_t child; // blocked by main, so that no signal is missed between the two calls
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        time_t seconds = (time_t)left;
        sigtimedwait(&child, NULL,
                     &(struct timespec){.tv_sec = seconds,
                                        .tv_nsec = (long)((left - (double)seconds) * 1e9)});
    }
}

// Waits for the remaining processes. Those that do not end in time are killed and added to `names`.
static void end_remaining(char* names, double until) {
    for (int status; reap(until, &status) >= 0;)
        if (now() >= until) {
            kill_children(names);
            // Time for the killed ones to end; their children then become ours.
            until = now() + GRACE_MS * 1e-3;
        }
}

static int report(const char* path, int status, double wall, const char* names) {
    struct rusage all;
    getrusage(RUSAGE_CHILDREN, &all);
    FILE* file = fopen(path, "w");
    if (!file) return -1;
    fprintf(file,
            "{\"status\": %d, \"wall_s\": %.6f, \"user_s\": %.6f, \"sys_s\": %.6f, \"peak_bytes\": "
            "%ld, \"average_bytes\": %.0f, \"minor_faults\": %ld, \"major_faults\": %ld, "
            "\"voluntary_switches\": %ld, \"involuntary_switches\": %ld, \"system_calls\": %ld, "
            "\"left\": [%s]}\n",
            status, wall, (double)all.ru_utime.tv_sec + (double)all.ru_utime.tv_usec * 1e-6,
            (double)all.ru_stime.tv_sec + (double)all.ru_stime.tv_usec * 1e-6,
            all.ru_maxrss * 1024L, memory_average(&memory), all.ru_minflt, all.ru_majflt,
            all.ru_nvcsw, all.ru_nivcsw, trace_count(), names);
    return fclose(file);
}

// Starts the command. Does not return in the child.
static pid_t start(char** command, const sigset_t* mask) {
    pid_t process = fork();
    if (process != 0) return process;
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (tracing) trace_me();
    execvp(command[0], command);
    fprintf(stderr, "overseer: %s cannot be run: %s\n", command[0], strerror(errno));
    _exit(STATUS_NO_COMMAND);
}

int main(int count, char** words) {
    if (count > 1 && strcmp(words[1], "--calls") == 0) {
        tracing = true;
        count--;
        words++;
    }
    if (count < 4 || atof(words[2]) <= 0) {
        fprintf(stderr, "usage: overseer [--calls] REPORT SECONDS COMMAND...\n");
        return 2;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    sigset_t child, before;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before);
    parent = getppid();
    double begin = now(), until = begin + atof(words[2]);
    pid_t command = start(words + 3, &before);
    if (command < 0) {
        perror("overseer: fork");
        return STATUS_NO_COMMAND;
    }
    memory = (struct memory){.of = tracing ? 0 : command, .last = begin, .next = begin};
    int raw = 0, status = STATUS_LATE;
    char names[NAMES_BYTES] = "";
    for (pid_t ended; (ended = reap(until, &raw)) > 0;) {
        if (ended != command) continue;
        status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
        break;
    }
    double wall = now() - begin;
    memory.of = 0;
    end_remaining(names, status == STATUS_LATE ? 0 : now() + GRACE_MS * 1e-3);
    if (report(words[1], status, wall, names) != 0) {
        fprintf(stderr, "overseer: %s cannot be written: %s\n", words[1], strerror(errno));
        return 2;
    }
    return status;
}
