/* Runs a program behind a filter of system calls, as systemd's SystemCallFilter= sets one:
 *
 *     filter allow|deny kill|EPERM NUMBER,... PROGRAM [ARGUMENT ...]
 *
 * allow: every other call is answered; deny: these calls are. The answer is the end of the process,
 * or the error EPERM. The program runs with PR_SET_NO_NEW_PRIVS. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MOST = 1000 };

int main(int count, char** arguments) {
    static struct sock_filter code[2 * MOST + 3];
    unsigned short length = 0;
    if (count < 5) return 2;
    unsigned answer =
        strcmp(arguments[2], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
    bool allow = strcmp(arguments[1], "allow") == 0;
    code[length++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    int listed = 0;
    for (char* at = strtok(arguments[3], ","); at && listed < MOST;
         at = strtok(NULL, ","), listed++) {
        code[length++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(at), 0, 1);
        code[length++] =
            (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, allow ? SECCOMP_RET_ALLOW : answer);
    }
    code[length++] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, allow ? answer : SECCOMP_RET_ALLOW);
    struct sock_fprog program = {length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("filter");
        return 2;
    }
    execvp(arguments[4], arguments + 4);
    perror(arguments[4]);
    return 127;
}
