/* sandbox HOW: gives up privileges ("setuid") or most system calls ("seccomp"), then allocates on
 * this thread and on four new ones: 30000 blocks of 1001 bytes each, more than a ring holds. */
#include "common.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define REFUSE(call)                                                                               \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),                                               \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

/* Kills the process if it opens or reserves a file, creates a socket or inspects another
 * process. */
static int close_sandbox(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(SYS_openat),
        REFUSE(SYS_open),
        REFUSE(SYS_creat),
        REFUSE(SYS_fallocate),
        REFUSE(SYS_ftruncate),
        REFUSE(SYS_socket),
        REFUSE(SYS_kill),
        REFUSE(SYS_readlink),
        REFUSE(SYS_ioctl),
        REFUSE(SYS_execve),
        REFUSE(SYS_stat),
        REFUSE(SYS_unlink),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void* work(void* unused) {
    for (int i = 0; i < 30000; i++) free(kept(malloc(1001)));
    return unused;
}

int main(int count, char** arguments) {
    if (count != 2) return 2;
    if (strcmp(arguments[1], "setuid") == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0) return 77;
        if (open("/proc/1/environ", O_RDONLY) >= 0) return 3;
    } else if (close_sandbox() != 0) {
        return 77;
    }
    pthread_t ids[4];
    for (int i = 0; i < 4; i++) {
        if (pthread_create(&ids[i], NULL, work, NULL) != 0) return 4;
    }
    work(NULL);
    for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
    return 0;
}
