/* Allocates in every way behind a filter of system calls that ends the process at each call that is
 * not listed:
 *
 *     listed exec|first|prctl|syscall|raw NUMBER,... NUMBER,...
 *
 * The first list is Keel's. The second has the calls of the program, its threads and its loader.
 * exec: the filter is there before the program starts; first: before it allocates; the others:
 * after it has allocated and a keeper runs. prctl sets the filter for the calling thread; syscall
 * and raw for all, by the C library's function and by an instruction. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 200, BLOCKS = 400, ROUNDS = 24 };
static struct sock_filter code[2 * MOST + 3];
static unsigned short length;

static void permit(char* numbers) {
    for (char* at = strtok(numbers, ","); at != NULL; at = strtok(NULL, ",")) {
        code[length++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(at), 0, 1);
        code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
}

static void build(char* keel, char* own) {
    code[length++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    permit(keel);
    permit(own);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
}

static long raw(long number, long a, long b, long c) {
    long result;
    register long fourth __asm__("r10") = 0;
    register long fifth __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
}

static int set_filter(const char* how) {
    struct sock_fprog program = {length, code};
    if (strcmp(how, "raw") == 0) {
        if (raw(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) != 0) return -1;
        return (int)raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                        (long)&program);
    }
    if (strcmp(how, "syscall") == 0) {
        if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                            &program);
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static size_t size_of(unsigned i) {
    static const size_t sizes[] = {24,     700,     5000,    40000,   100000,  300000,
                                   900000, 2500000, 5 << 20, 9 << 20, 20 << 20};
    return sizes[i % (sizeof sizes / sizeof *sizes)] + i;
}

/* Most blocks filled, some touched once; grown, shrunk, zeroed and freed. */
static void allocate(unsigned seed) {
    char* blocks[BLOCKS] = {NULL};
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned k = 0; k < 40; k++) {
            seed = seed * 1103515245 + 12345;
            unsigned i = (seed >> 16) % BLOCKS;
            size_t size = size_of(i < 360 ? i % 6 : i);
            free(blocks[i]);
            blocks[i] = seed & 1 << 12   ? calloc(1, size)
                        : seed & 1 << 13 ? aligned_alloc(4096, (size + 4095) & ~(size_t)4095)
                                         : malloc(size);
            if (blocks[i] == NULL) abort();
            if (seed & 1 << 12 && (blocks[i][0] != 0 || blocks[i][size - 1] != 0)) abort();
            memset(blocks[i], 7, seed & 1 << 14 ? size : 1);
            if (seed & 1 << 15) {
                char* more = realloc(blocks[i], size + size / 2 + (seed & 0xff));
                if (more == NULL || more[0] != 7) abort();
                blocks[i] = more;
                memset(blocks[i], 7, size);
            }
        }
        if (round % 8 == 7) nanosleep(&(struct timespec){0, 30000000}, NULL);
    }
    for (unsigned i = 0; i < BLOCKS; i++) free(blocks[i]);
}

static void* in_thread(void* argument) {
    allocate((unsigned)(uintptr_t)argument);
    return argument;
}

static int work(void) {
    pthread_t threads[2];
    int status = 0;
    for (uintptr_t i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, in_thread, (void*)(i + 3)) != 0) return 1;
    allocate(1);
    for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    pid_t child = fork();
    if (child == 0) {
        allocate(2);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
    return write(1, "allocated\n", 10) == 10 ? 0 : 1;
}

int main(int count, char** arguments) {
    if (count < 4) return count == 2 ? work() : 2;
    const char* mode = arguments[1];
    int early = strcmp(mode, "exec") == 0 || strcmp(mode, "first") == 0;
    if (!early && work() != 0) return 2;
    build(arguments[2], arguments[3]);
    if (set_filter(mode) != 0) {
        perror("filter");
        return 2;
    }
    if (strcmp(mode, "exec") == 0) {
        execl(arguments[0], arguments[0], "work", (char*)NULL);
        return 2;
    }
    return work();
}
