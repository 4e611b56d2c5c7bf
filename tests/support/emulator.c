// Starts an emulator of user mode on a kernel without the calls that qemu passes on wrongly:
//
//     emulator [--no-mincore] COMMAND ARGUMENTS...
//
// mremap with MREMAP_DONTUNMAP fails with EINVAL, as before Linux 5.7: qemu takes the old range,
// which stays mapped, for unmapped, so that the program ends at its next access. --no-mincore:
// mincore fails with ENOSYS. The kernel writes a byte for each page of this machine; if the
// emulated pages are larger, this is more than the program has room for. Built for the machine on
// which the emulator runs.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DONT_UNMAP 4
#define FLAGS                                                                                      \
    (offsetof(struct seccomp_data, args[3]) + 4 * (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__))

int main(int count, char** words) {
    bool no_mincore = count > 1 && strcmp(words[1], "--no-mincore") == 0;
    words += no_mincore;
    count -= no_mincore;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, no_mincore ? SYS_mincore : ~0u, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FLAGS),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, DONT_UNMAP, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (count < 2) {
        fprintf(stderr, "usage: emulator [--no-mincore] COMMAND ARGUMENTS...\n");
        return 2;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("emulator: the kernel refuses the filter");
        return 2;
    }
    execvp(words[1], words + 1);
    perror(words[1]);
    return 2;
}
