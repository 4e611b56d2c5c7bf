/* visited: waits in poll and in nanosleep again and again until its input ends, with values of its
 * own in the registers that a system call keeps. Afterwards compares them, the result, errno, the
 * signal mask, the signal stack and the policy, also that of a child. Exits with 7 if one of them
 * or a block has changed. Prints a line at the start. x86-64 with AVX. */
#include "common.h"
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

struct state {
    uint64_t words[6];
    uint64_t vectors[4][4];
};

/* syscall(number, first, second, third) with these registers. Stores them afterwards. */
long syscall_with(const struct state* before, struct state* after, long number, long first,
                  long second, long third);
__asm__(".globl syscall_with\n"
        "syscall_with:\n"
        "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; push %rsi\n"
        "mov 0(%rdi), %rbx; mov 8(%rdi), %rbp; mov 16(%rdi), %r12; mov 24(%rdi), %r13\n"
        "mov 32(%rdi), %r14; mov 40(%rdi), %r15; vmovdqu 48(%rdi), %ymm0\n"
        "vmovdqu 80(%rdi), %ymm1; vmovdqu 112(%rdi), %ymm8; vmovdqu 144(%rdi), %ymm15\n"
        "mov %rdx, %rdi; mov %rcx, %rsi; mov %r8, %rdx; mov %r9, %rcx\n"
        "call syscall@PLT\n"
        "pop %rsi\n"
        "mov %rbx, 0(%rsi); mov %rbp, 8(%rsi); mov %r12, 16(%rsi); mov %r13, 24(%rsi)\n"
        "mov %r14, 32(%rsi); mov %r15, 40(%rsi); vmovdqu %ymm0, 48(%rsi)\n"
        "vmovdqu %ymm1, 80(%rsi); vmovdqu %ymm8, 112(%rsi); vmovdqu %ymm15, 144(%rsi)\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
        "vzeroupper\n"
        "ret\n");

static void require(int holds, const char* what) {
    if (holds) return;
    fprintf(stderr, "visited: %s has changed: errno %d\n", what, errno);
    _exit(7);
}

/* Another process restores it if keel was killed. A visit that begins changes it again. */
static int policy_returns(void) {
    struct timespec time = {.tv_nsec = 1000000};
    for (int i = 0; i < 1000; i++) {
        if (sched_getscheduler(0) == SCHED_OTHER) return 1;
        nanosleep(&time, NULL);
    }
    return 0;
}

/* A child would keep the policy of a visit for ever. */
static int child_has_usual_policy(void) {
    int status = 1;
    pid_t child = fork();
    if (child == 0) _exit(sched_getscheduler(0) != SCHED_OTHER);
    waitpid(child, &status, 0);
    return status == 0;
}

static void wait_once(int sleeps, long round) {
    static char stack[65536];
    stack_t signals = {.ss_sp = stack, .ss_size = sizeof stack}, signals_after;
    sigset_t mask, mask_after;
    struct timespec time = {.tv_nsec = 3000000};
    struct state before, after;
    sigaltstack(&signals, NULL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    memset(&before, 0x40 + (int)(round % 50), sizeof before);
    __builtin_ia32_ldmxcsr(0x7f80); /* rounds toward zero */
    errno = 1000;
    long result = sleeps ? syscall_with(&before, &after, SYS_nanosleep, (long)&time, 0, 0)
                         : syscall_with(&before, &after, SYS_poll, 0, 0, 3);
    require(result == 0, "the result");
    require(errno == 1000, "errno");
    require((__builtin_ia32_stmxcsr() & 0x7f80) == 0x7f80, "the mode of rounding");
    require(memcmp(&before, &after, sizeof before) == 0, "a register");
    sigprocmask(SIG_SETMASK, NULL, &mask_after);
    require(memcmp(&mask, &mask_after, sizeof(long)) == 0, "the signal mask");
    sigaltstack(NULL, &signals_after);
    require(child_has_usual_policy(), "the policy of a child");
    require(policy_returns(), "the policy");
    require(signals_after.ss_sp == stack && signals_after.ss_flags == 0, "the signal stack");
}

int main(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    unsigned char* blocks[64] = {NULL};
    printf("ready\n");
    fflush(stdout);
    for (long round = 0; poll(&input, 1, 0) == 0; round++) {
        int at = (int)(round % 64);
        require(blocks[at] == NULL || blocks[at][0] == (unsigned char)at, "a block");
        free(blocks[at]);
        blocks[at] = kept(malloc(1001 + (size_t)at));
        blocks[at][0] = (unsigned char)at;
        wait_once((int)(round % 2), round);
    }
    return 5;
}
