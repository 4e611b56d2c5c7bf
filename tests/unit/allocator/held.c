// Mappings and slices whose memory is just being returned, and mappings that the system does not
// change: the memory is always somebody's. A filter of system calls stops the thread inside a call,
// or refuses it.
#include "allocator/guarded/guarded.h"
#include "allocator/large/jumbo.h"
#include "allocator/space/run.h"
#include "allocator/warm/mapping_cache.h"
#include "allocator/warm/reserve.h"
#include "base/bits.h"
#include "base/options.h"
#include "check.h"
#include "keel/keel.h"
#include "os/process.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

// --- The filter ----------------------------------------------------------------------------------

enum { PASS = 0x4b4c, FLAG_FIXED = 2 }; // a sixth argument with which each call passes

#define ARGUMENT(n) offsetof(struct seccomp_data, args[n])
#define CALL offsetof(struct seccomp_data, nr)
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define UNLESS_EQUAL(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))

static bool filter(struct sock_filter* code, size_t count) {
    struct sock_fprog program = {.len = (unsigned short)count, .filter = code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static char* filled(size_t bytes) {
    char* block = kl_malloc(bytes);
    CHECK(block != NULL);
    memset(block, 1, bytes);
    return block;
}

static size_t mapped_bytes(void) {
    unsigned long pages = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
    (void)fclose(file);
    return pages * 4096;
}

static bool is_resident(char* page) {
    unsigned char resident = 0;
    return mincore(page, 4096, &resident) == 0 && (resident & 1) != 0;
}

static void in_child(void (*test)(void)) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        option_set(OPTION_KEEPER, KEEPER_NEVER);
        test();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// --- A fork inside madvise -----------------------------------------------------------------------

static void (*look)(void);    // by the child
static void (*hold_up)(void); // the thread, without a child
static unsigned stops;

static void at_call(int number, siginfo_t* info, void* context) {
    (void)number;
    (void)info;
    greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
    if (hold_up != NULL && stops++ == 0) hold_up();
    if (look != NULL && stops++ == 0) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            void (*then)(void) = look;
            look = NULL;
            then();
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    long result = syscall(SYS_madvise, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                          0, 0, PASS);
    registers[REG_RAX] = result == 0 ? 0 : -errno;
}

static bool stop_at_madvise(int advice, void (*child)(void)) {
    struct sock_filter code[] = {
        LOAD(CALL),
        UNLESS_EQUAL(SYS_madvise, 5),
        LOAD(ARGUMENT(2)),
        UNLESS_EQUAL((unsigned)advice, 3),
        LOAD(ARGUMENT(5)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PASS, 1, 0),
        RETURN(SECCOMP_RET_TRAP),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sigaction action = {.sa_sigaction = at_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    look = child;
    stops = 0;
    return filter(code, sizeof code / sizeof *code);
}

static size_t held_bytes;
static char* held;

static void mapping_is_here(void) {
    CHECK(mapping_cache_bytes() == held_bytes && mapping_cache_check());
    bool zero;
    char* again = jumbo_allocate(held_bytes, 1, false, &zero);
    CHECK(again == held && is_resident(again) && mapping_cache_bytes() == 0);
    jumbo_release(page_of(again));
    mapping_cache_clear();
    CHECK(!is_resident(held) && mapping_cache_check());
}

static void test_mapping(size_t bytes_max) {
    held_bytes = 64 * MIB;
    bool zero;
    held = jumbo_allocate(held_bytes, 1, false, &zero);
    memset(held, 1, held_bytes);
    jumbo_release(page_of(held));
    CHECK(mapping_cache_bytes() == held_bytes);
    if (!stop_at_madvise(MADV_DONTNEED, mapping_is_here)) return;
    size_t cut = mapping_cache_age(UINT64_MAX, bytes_max);
    CHECK(stops > 0 && cut <= bytes_max + MAPPING_CUT_MIN && mapping_cache_check());
    CHECK(mapping_cache_bytes() == held_bytes - cut);
    mapping_cache_clear();
    CHECK(mapping_cache_bytes() == 0);
}
static void test_whole_mapping(void) {
    test_mapping(SIZE_MAX / 2);
}
static void test_tail_of_mapping(void) {
    test_mapping(16 * MIB);
}

static atomic_bool is_held_up, has_returned;

static void let_others_run(void) {
    atomic_store(&is_held_up, true);
    usleep(30000);
}
static void* return_a_part(void* unused) {
    hold_up = let_others_run;
    if (!stop_at_madvise(MADV_DONTNEED, NULL)) atomic_store(&is_held_up, true);
    (void)mapping_cache_age(UINT64_MAX, 16 * MIB);
    atomic_store(&has_returned, true);
    for (;;) (void)pause(); // its end would call madvise with SIGSYS blocked
    return unused;
}

// What another thread is just returning a part of goes back, too.
static void test_collect_beside_a_return(void) {
    char* block = filled(64 * MIB);
    kl_free(block);
    CHECK(mapping_cache_bytes() >= 64 * MIB);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, return_a_part, NULL) == 0);
    while (!atomic_load(&is_held_up)) usleep(100);
    kl_collect(true);
    CHECK(mapping_cache_bytes() == 0 && !is_resident(block));
    while (!atomic_load(&has_returned)) usleep(100);
    CHECK(mapping_cache_check());
}

static size_t dirty_before;

static void slices_are_here(void) {
    CHECK(run_dirty_slices() == dirty_before && run_check());
}
static void test_discarded_slices(void) {
    kl_free(filled(MIB));
    dirty_before = run_dirty_slices();
    CHECK(dirty_before >= MIB / SLICE_BYTES);
    if (!stop_at_madvise(MADV_DONTNEED, slices_are_here)) return;
    CHECK(reserve_discard(SUPERBLOCK_SLICES) > 0 && stops > 0 && run_check());
}

static void populated_slices_are_here(void) {
    CHECK(run_dirty_slices() == dirty_before + 8 && run_check());
}
static void test_populated_slices(void) {
    kl_free(filled(MIB));
    reserve_discard_all();
    dirty_before = run_dirty_slices();
    if (!stop_at_madvise(23 /* MADV_POPULATE_WRITE */, populated_slices_are_here)) return;
    CHECK(reserve_populate(8) > 0 && stops > 0 && run_check());
}

// A freed guarded block waits for the keeper, which a child does not have.
static void test_guarded_block(void) {
    struct page* guarded = guarded_allocate(8 * MIB, 16, false, false);
    CHECK(guarded != NULL);
    char* page = (char*)round_up((uintptr_t)guarded->start, 4096);
    memset(guarded->start, 1, 8 * MIB);
    policy_set_keeper(true);
    guarded_free(guarded);
    CHECK(is_resident(page)); // it waits
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        kl_collect(true);
        _exit(is_resident(page));
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    kl_collect(true); // also where there is one
    CHECK(!is_resident(page));
}

// --- Refused calls -------------------------------------------------------------------------------

// The system may unmap the target of a move before it refuses the move. So no move has one: here
// the process would end.
static void test_no_move_over_a_mapping(void) {
    struct sock_filter code[] = {
        LOAD(CALL),
        UNLESS_EQUAL(SYS_mremap, 3),
        LOAD(ARGUMENT(3)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, FLAG_FIXED, 0, 1),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        RETURN(SECCOMP_RET_ALLOW),
    };
    if (!filter(code, sizeof code / sizeof *code)) return;
    char* block = filled(5 * MIB);
    char* behind = filled(5 * MIB);
    kl_free(filled(40 * MIB));
    for (size_t size = 5 * MIB; size <= 35 * MIB; size += 5 * MIB) {
        block = kl_realloc(block, size);
        CHECK(block != NULL && block[5 * MIB - 1] == 1);
    }
    CHECK(behind[0] == 1 && mapping_cache_check());
}

// Near the limit of mappings, where no part of a mapping can be unmapped.
static bool refuse_unmapping(void) {
    struct sock_filter code[] = {
        LOAD(CALL),
        UNLESS_EQUAL(SYS_munmap, 4),
        LOAD(ARGUMENT(1)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 2 * MIB, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 9 * MIB, 1, 0), // not to find a place
        RETURN(SECCOMP_RET_ERRNO | ENOMEM),
        RETURN(SECCOMP_RET_ALLOW),
    };
    return filter(code, sizeof code / sizeof *code);
}

static void test_what_stays_has_no_memory(void) {
    char* block = filled(8 * MIB);
    kl_free(block);
    CHECK(mapping_cache_bytes() >= 8 * MIB);
    size_t before = mapped_bytes();
    if (!refuse_unmapping()) return;
    for (unsigned i = 0; i < 20; i++) {
        mapping_cache_clear();
        CHECK(!is_resident(block) && mapping_cache_check());
        CHECK(filled(8 * MIB) == block);
        kl_free(block);
        (void)mapping_cache_age(UINT64_MAX, 2 * MIB);
        CHECK(mapping_cache_check() && mapping_cache_bytes() >= 8 * MIB);
        (void)mapping_cache_age(UINT64_MAX, SIZE_MAX / 2);
        CHECK(!is_resident(block) && mapping_cache_check());
    }
    CHECK(mapped_bytes() <= before + MIB);
}

// What a block leaves behind when it moves, and a block that the group's limit does not let stay.
static void test_moved_blocks_leave_nothing(void) {
    char* block = filled(8 * MIB);
    size_t before = mapped_bytes();
    if (!refuse_unmapping()) return;
    for (unsigned i = 0; i < 20; i++) {
        (void)mmap(block + 8 * MIB, 65536, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        block = kl_realloc(block, 9 * MIB);
        CHECK(block != NULL && block[8 * MIB - 1] == 1);
        jumbo_release(page_of(block));
        CHECK(mapping_cache_check());
        block = filled(8 * MIB);
    }
    CHECK(mapped_bytes() - before <= mapping_cache_bytes() + 16 * MIB);
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    option_set(OPTION_RESET_DELAY, 600000); // nothing gets too old
    in_child(test_whole_mapping);
    in_child(test_tail_of_mapping);
    in_child(test_collect_beside_a_return);
    in_child(test_discarded_slices);
    in_child(test_populated_slices);
    in_child(test_guarded_block);
    in_child(test_no_move_over_a_mapping);
    in_child(test_what_stays_has_no_memory);
    in_child(test_moved_blocks_leave_nothing);
    return 0;
}
