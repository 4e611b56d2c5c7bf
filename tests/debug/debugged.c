// debugged MODE: a program that run.py runs with the debug flavour. Each mode is a function below.
#include <errno.h>
#include <keel/keel.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../support/modes.h"

#define APART __attribute__((noinline))

static volatile int called; // so that no call is the last instruction of its function

// --- Faults with known functions on the stack ----------------------------------------------------

APART static void* allocates_here(size_t size) {
    void* block = malloc(size);
    called++;
    return block;
}
APART static void frees_here(void* block) {
    free(block);
    called++;
}
APART static void frees_again(void* block) {
    free(block);
    called++;
}

static void double_free(void) {
    void* block = allocates_here(30);
    frees_here(block);
    frees_again(block);
}

static void* frees_in_thread(void* block) {
    frees_here(block);
    return NULL;
}
static void free_by_two_threads(void) {
    pthread_t thread;
    void* block = allocates_here(30);
    pthread_create(&thread, NULL, frees_in_thread, block);
    pthread_join(thread, NULL);
    frees_again(block);
}

static void overwrite_number(void) {
    char* block = allocates_here(30);
    // Not by memset, which libkeel-debug.so checks.
    for (volatile char* at = block - 32; at < block; at++) *at = 0;
    frees_here(block);
}

// A frame whose size differs from call to call, above those that allocate.
APART static void* allocates_deep(size_t bytes) {
    volatile char* room = __builtin_alloca(bytes);
    room[0] = room[bytes - 1] = 1;
    void* block = allocates_here(30);
    called += room[0];
    return block;
}
static void varying_frames(void) {
    for (size_t i = 1; i < 1000; i++) free(allocates_deep(i * 16));
    void* block = allocates_deep(4000);
    frees_here(block);
    frees_again(block);
}

// The same function first with a large frame on the main stack, then with a small one on a stack of
// 64 KiB between inaccessible ones.
static ucontext_t outside, inside;
static void on_another_stack(void) {
    for (int i = 0; i < 1000; i++) free(allocates_deep(64));
    puts("came back");
    swapcontext(&inside, &outside);
}
static void change_of_stacks(void) {
    const size_t bytes = (size_t)64 << 10, room = (size_t)1 << 20;
    char* memory =
        mmap(NULL, bytes + 2 * room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mprotect(memory + room, bytes, PROT_READ | PROT_WRITE);
    free(allocates_deep(400000));
    getcontext(&inside);
    inside.uc_stack.ss_sp = memory + room;
    inside.uc_stack.ss_size = bytes;
    makecontext(&inside, on_another_stack, 0);
    swapcontext(&outside, &inside);
}

// A stack made by hand, as those of coroutine libraries: behind its outermost call is no return
// address. Above it the memory is not accessible.
static void allocates_in_coroutine(void) {
    char* block = allocates_here(30);
    frees_here(block);
    puts("came back");
    frees_again(block);
}
static void run_on_stack_with_end(uintptr_t end) {
#if defined(__x86_64__)
    const size_t bytes = (size_t)64 << 10;
    char* memory = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory, bytes, PROT_READ | PROT_WRITE);
    uintptr_t* top = (uintptr_t*)(void*)(memory + bytes - 64);
    for (int i = 0; i < 8; i++) top[i] = end;
    __asm__ volatile("mov %0, %%rsp; xor %%ebp, %%ebp; jmp *%1"
                     :
                     : "r"(top + 1), "r"(allocates_in_coroutine)
                     : "memory");
#else
    (void)end;
    allocates_in_coroutine();
#endif
}
static void stack_with_invalid_end(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    run_on_stack_with_end(UINT64_C(0xdeaddeaddeaddead));
}
// The functions of the C library have frames, which this stack does not.
static void stack_with_wrong_end(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    run_on_stack_with_end((uintptr_t)&varying_frames + 16);
}

// Frames through a signal handler, which on x86-64 the tables of frames do not describe.
static void* volatile handled;
static void allocates_in_signal(int number) {
    handled = allocates_here(30);
    called += number;
}
APART static void raises_here(void) {
    raise(SIGUSR1);
    called++;
}
static void stack_through_signal(void) {
    signal(SIGUSR1, allocates_in_signal);
    raises_here();
    frees_here(handled);
    frees_again(handled);
}

// Each digit of the number is a call in another place of this function.
APART static void allocates_along(unsigned number, unsigned depth) {
    if (depth == 0) {
        free(malloc(20));
        called++;
        return;
    }
    switch (number % 4) {
    case 0:
        allocates_along(number / 4, depth - 1);
        called += 1;
        break;
    case 1:
        allocates_along(number / 4, depth - 1);
        called += 2;
        break;
    case 2:
        allocates_along(number / 4, depth - 1);
        called += 3;
        break;
    default:
        allocates_along(number / 4, depth - 1);
        called += 4;
        break;
    }
}
static void many_stacks(void) {
    struct rusage usage;
    for (unsigned number = 0; number < 1200000; number++) allocates_along(number, 25);
    getrusage(RUSAGE_SELF, &usage);
    printf("peak MiB %ld\n", usage.ru_maxrss >> 10);
    fflush(stdout);
    char* block = allocates_here(30);
    frees_here(block);
    frees_again(block);
}

static void overflow_is_never_freed(void) {
    volatile char* block = allocates_here(30);
    block[31] = 1;
}

// Ends at the latest after the second free check of all blocks.
static void overflow_is_checked(void) {
    volatile char* block = allocates_here(30);
    block[30] = 1;
    free(malloc(1));
    puts("survived");
    fflush(stdout);
    _exit(0);
}

// What a handler of the fault above does.
static void* volatile overwritten;
static void forks_in_handler(int number) {
    pid_t child = fork();
    if (child == 0) _exit(3);
    int status = 0;
    waitpid(child, &status, 0);
    _exit(number == SIGABRT && WEXITSTATUS(status) == 3 ? 3 : 1);
}
static void allocates_in_handler(int number) {
    for (int i = 0; i < 2000; i++) free(malloc(100));
    _exit(number == SIGABRT ? 3 : 1);
}
static void exits_in_handler(int number) {
    exit(number == SIGABRT ? 3 : 1);
}
static void frees_in_handler(int number) {
    signal(number, SIG_DFL);
    free(overwritten);
    _exit(1);
}
static void fault_with_handler(void (*handler)(int)) {
    alarm(20);
    signal(SIGABRT, handler);
    char* block = allocates_here(30);
    overwritten = block;
    block[30] = 1;
    for (int i = 0; i < 1000; i++) free(malloc(1));
}
static void fault_then_fork(void) {
    fault_with_handler(forks_in_handler);
}
static void fault_then_allocate(void) {
    fault_with_handler(allocates_in_handler);
}
static void fault_then_exit(void) {
    fault_with_handler(exits_in_handler);
}
static void fault_then_free(void) {
    fault_with_handler(frees_in_handler);
}

// A handler that leaves the first report. The second one ends the process.
static sigjmp_buf before_fault;
static void leaves_handler(int number) {
    static int count;
    if (count++ == 0) siglongjmp(before_fault, number);
    _exit(3);
}
static void* faults_in_thread(void* argument) {
    double_free();
    return argument;
}
static void fault_then_leave(void) {
    pthread_t thread;
    alarm(20);
    signal(SIGABRT, leaves_handler);
    if (sigsetjmp(before_fault, 1) == 0) double_free();
    pthread_create(&thread, NULL, faults_in_thread, NULL);
    pthread_join(thread, NULL);
}

static void write_and_leave(size_t offset) {
    volatile char* block = allocates_here(600000);
    frees_here((void*)block);
    block[offset] = 1;
    exit(0);
}
static void write_into_discarded_pages(void) {
    write_and_leave(300000);
}

// --- Blocks --------------------------------------------------------------------------------------

static void contents(void) {
    unsigned char* fresh = malloc(100);
    unsigned char* zero = calloc(1, 100);
    printf("fresh %02x %02x zero %02x %02x\n", fresh[0], fresh[99], zero[0], zero[99]);
    free(fresh);
    printf("freed %02x %02x\n", fresh[0], fresh[99]);
    free(zero);
}

static void reuse(void) {
    void* first = malloc(100);
    bool same = false;
    free(first);
    called += malloc(SIZE_MAX / 4) != NULL; // no memory would be enough for this
    for (int i = 0; i < 100; i++) {
        void* other = malloc(100);
        same = same || other == first;
        free(other);
    }
    void* moved = realloc(malloc(100), 100);
    free(moved);
    puts(same ? "reused" : "kept");
}

// Prints how often the block has moved, and whether it had its content at the end.
static char* grown(size_t from, size_t to, ptrdiff_t step) {
    char* block = malloc(from);
    unsigned moves = 0;
    memset(block, 'x', from);
    for (size_t size = from; size != to; size += (size_t)step) {
        char* resized = realloc(block, size + (size_t)step);
        moves += resized != block;
        block = resized;
        if (step > 0) memset(block + size, 'x', (size_t)step);
    }
    size_t kept = 0;
    while (kept < to && block[kept] == 'x') kept++;
    printf("moves %u, kept %d\n", moves, kept == to);
    return block;
}
static void resizes_in_small_steps(void) {
    free(grown(400, 400000, 16));
    free(grown(400000, 400, -16));
    unsigned char* block = kl_zalloc(100000);
    for (size_t size = 100000; size < 200000; size += 100) {
        memset(block, 1, size - 100);
        block = kl_rezalloc(block, size);
        for (size_t i = size - 100; i < size; i++) called += block[i] != 0 && size > 100000;
    }
    printf("not zero %d, checked %d\n", called, kl_check_all() > 0);
    free(block);
}
static void overflow_of_a_grown_block(void) {
    char* block = grown(70000, 72000, 16);
    block[72000] = 1;
    frees_here(block);
}

// Aligned so far that the lower block begins in another slice.
static void far_blocks(void) {
    enum { BLOCKS = 4000 };
    static void* blocks[BLOCKS];
    for (int i = 0; i < 500000; i++) called += malloc(16) == NULL;
    for (int i = 0; i < BLOCKS; i++) blocks[i] = aligned_alloc(1 << 16, 1 << 16);
    for (int i = 0; i < BLOCKS; i++) called += malloc_usable_size(blocks[i]) != 1 << 16;
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    printf("unknown %d, seconds %d\n", called, (int)(clock() / CLOCKS_PER_SEC));
    fflush(stdout);
    frees_again(blocks[BLOCKS - 1]);
}

// A block that begins in the last slice of its lower block, where the next mapping begins, too.
static void far_blocks_beside_mappings(void) {
    enum { BLOCKS = 32 };
    static void* blocks[BLOCKS];
    static size_t sizes[BLOCKS];
    uint32_t random = 1;
    for (int i = 0; i < 20000; i++) {
        random = random * 1664525 + 1013904223;
        unsigned at = (random >> 8) % BLOCKS;
        bool far = (random >> 30) == 0;
        if (blocks[at] != NULL) called += malloc_usable_size(blocks[at]) != sizes[at];
        free(blocks[at]);
        sizes[at] = far ? (random >> 13) % 50000 : 4000000 + (random >> 10) % 30000000;
        blocks[at] = aligned_alloc(far ? (size_t)1 << (20 + (random >> 27) % 4) : 16, sizes[at]);
    }
    printf("wrong %d\n", called);
}

// With KEEL_FAIL: only blocks of 2,000 to 3,000 bytes fail.
static void failed_resizes(void) {
    unsigned kept = 0, wrong = 0;
    for (size_t i = 0; i < 100; i++) {
        void* block = kl_malloc(5000 + i * 16);
        void* resized = kl_aligned_realloc(block, 4096, 3000);
        kept += resized == block;
        wrong += (uintptr_t)resized % 4096 != 0;
        if (resized == NULL) resized = kl_aligned_realloc(block, 16, 3000);
        kept += resized == block;
    }
    printf("kept some %d, wrong %u\n", kept > 50, wrong);
}

static void* works(void* argument) {
    for (uintptr_t i = 0; i < 20000; i++) {
        char* block = malloc(i % 300);
        memset(block, 1, i % 300);
        block = realloc(block, i % 700 + 1);
        if (i % 100 == 0) (void)kl_check_all();
        free(block);
    }
    return argument;
}
static void correct(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, works, NULL);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            free(malloc(100));
            _exit(kl_check_all() > 0 ? 7 : 8);
        }
        int status;
        waitpid(child, &status, 0);
        if (WEXITSTATUS(status) != 7) puts("the child failed");
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    void* block = malloc(1);
    printf("checked %d\n", kl_check_all() > 0);
    free(block);
}

// --- Leaks ---------------------------------------------------------------------------------------

struct link {
    struct link* next;
    char rest[88];
};
static struct link* chain;

APART static void loses_blocks(void) {
    for (int i = 0; i < 3; i++) {
        void* volatile block = malloc(50);
        (void)block;
        block = NULL;
    }
}
APART static void keeps_blocks(void) {
    for (int i = 0; i < 4; i++) {
        struct link* link = malloc(sizeof *link);
        link->next = chain;
        chain = link;
    }
}
APART static void overwrites_the_stack(void) {
    volatile char bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = 0;
}
static void leaks(void) {
    loses_blocks();
    keeps_blocks();
    overwrites_the_stack();
}

// --- Systems that refuse -------------------------------------------------------------------------

static void forbid_files(void) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_NOFILE, &none);
}
static void forbid_reading(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
static void fault_without_files(void) {
    forbid_files();
    double_free();
}
static void leaks_without_files(void) {
    leaks();
    forbid_files();
}
static void leaks_without_reading(void) {
    leaks();
    forbid_reading();
}

// --- Failures ------------------------------------------------------------------------------------

static unsigned failures_of(size_t size) {
    unsigned failures = 0;
    for (int i = 0; i < 10000; i++) {
        void* block = malloc(size);
        failures += block == NULL;
        free(block);
    }
    return failures;
}
static void failures(void) {
    unsigned small = failures_of(100), large = failures_of(5000);
    static char line[64];
    int length = snprintf(line, sizeof line, "failed %u %u\n", small, large);
    (void)!write(STDOUT_FILENO, line, (size_t)length); // no buffer has to be allocated
}

APART static void* allocates_elsewhere(size_t size) {
    void* block = malloc(size);
    called++;
    return block;
}
static void failures_at_site(void) {
    static char line[64];
    unsigned here = 0, elsewhere = 0;
    for (int i = 0; i < 100; i++) {
        here += allocates_here(5000) == NULL;
        elsewhere += allocates_elsewhere(5000) == NULL;
    }
    int length = snprintf(line, sizeof line, "failed %u %u at %p\n", here, elsewhere,
                          (void*)(uintptr_t)&allocates_here);
    (void)!write(STDOUT_FILENO, line, (size_t)length);
}

static const struct mode modes[] = {
    {"double-free", double_free},
    {"free-by-two-threads", free_by_two_threads},
    {"overwrite-number", overwrite_number},
    {"varying-frames", varying_frames},
    {"change-of-stacks", change_of_stacks},
    {"resizes-in-small-steps", resizes_in_small_steps},
    {"overflow-of-a-grown-block", overflow_of_a_grown_block},
    {"many-stacks", many_stacks},
    {"stack-with-invalid-end", stack_with_invalid_end},
    {"stack-with-wrong-end", stack_with_wrong_end},
    {"stack-through-signal", stack_through_signal},
    {"far-blocks", far_blocks},
    {"far-blocks-beside-mappings", far_blocks_beside_mappings},
    {"failed-resizes", failed_resizes},
    {"overflow-is-never-freed", overflow_is_never_freed},
    {"overflow-is-checked", overflow_is_checked},
    {"fault-then-fork", fault_then_fork},
    {"fault-then-allocate", fault_then_allocate},
    {"fault-then-exit", fault_then_exit},
    {"fault-then-free", fault_then_free},
    {"fault-then-leave", fault_then_leave},
    {"write-into-discarded-pages", write_into_discarded_pages},
    {"contents", contents},
    {"reuse", reuse},
    {"correct", correct},
    {"leaks", leaks},
    {"fault-without-files", fault_without_files},
    {"leaks-without-files", leaks_without_files},
    {"leaks-without-reading", leaks_without_reading},
    {"failures", failures},
    {"failures-at-site", failures_at_site},
};

int main(int count, char** arguments) {
    return mode_run(modes, sizeof modes / sizeof *modes, count, arguments);
}
