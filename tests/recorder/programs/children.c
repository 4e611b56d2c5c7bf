/* children HOW: allocates 100 blocks of 1001 bytes, then starts a child in the way HOW. With
 * "exec" it executes this program as "leaf" itself, with "exec_large" as "large_leaf", which
 * allocates 1000 blocks of 1009 bytes, with "exec_few" after 2000 small blocks as "few_leaf", which
 * allocates 20 blocks of 100003 bytes. The child allocates 50 blocks of 1003 bytes if it may
 * allocate before exec. Then it executes this program as "leaf", which allocates 25 blocks of 1005
 * bytes, except with "fork" and "clone". With the other words it forks after it has cleared its
 * environment ("cleared"), changed its user ("setuid") or its root folder ("chroot"; both exit with
 * 77 if that is not allowed). */
#include "common.h"
#include <spawn.h>
#include <sys/syscall.h>

extern char** environ;

static void allocate(size_t size, int times) {
    for (int i = 0; i < times; i++) free(kept(malloc(size)));
}

static int run_child(const char* how, char* self) {
    char* leaf[] = {self, "leaf", NULL};
    int status = 0;
    pid_t child = 0;
    if (strcmp(how, "posix_spawn") == 0) {
        if (posix_spawn(&child, self, NULL, NULL, leaf, environ) != 0) return 3;
    } else if (strcmp(how, "vfork") == 0) {
        child = vfork();
        if (child == 0) {
            allocate(1003, 50); /* in the parent's memory: the parent's operations */
            execv(self, leaf);
            _exit(3);
        }
    } else {
        void* inherited = kept(malloc(1007));
        /* clone: a fork that the C library's handlers do not see */
        child = strcmp(how, "clone") == 0 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
        if (child == 0) {
            allocate(1003, 50);
            free(inherited);
            if (strcmp(how, "fork_exec") == 0) execv(self, leaf);
            _exit(0);
        }
        free(inherited);
    }
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 4;
}

int main(int count, char** arguments) {
    if (count != 2) return 2;
    if (strcmp(arguments[1], "leaf") == 0) {
        allocate(1005, 25);
        return 0;
    }
    if (strcmp(arguments[1], "large_leaf") == 0) {
        allocate(1009, 1000);
        return 0;
    }
    if (strcmp(arguments[1], "few_leaf") == 0) {
        allocate(100003, 20);
        return 0;
    }
    allocate(1001, 100);
    if (strcmp(arguments[1], "exec_few") == 0) {
        allocate(7, 2000);
        execl(arguments[0], arguments[0], "few_leaf", NULL);
    }
    if (strcmp(arguments[1], "exec_large") == 0)
        execl(arguments[0], arguments[0], "large_leaf", NULL);
    if (strcmp(arguments[1], "exec") == 0) execl(arguments[0], arguments[0], "leaf", NULL);
    if (strcmp(arguments[1], "cleared") == 0) clearenv();
    if (strcmp(arguments[1], "setuid") == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 77;
    if (strcmp(arguments[1], "chroot") == 0 && (chroot("/proc") != 0 || chdir("/") != 0)) return 77;
    int result = run_child(arguments[1], arguments[0]);
    allocate(1001, 100);
    return result;
}
