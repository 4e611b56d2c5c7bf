// The keeper near the limit of a control group, and when the system refuses to populate. This
// program defines open and madvise: Keel reads a simulated tree of control groups, and a populate
// can stop half-way, as it does when a group is at its limit.
#include "allocator/keeper/headroom.h"
#include "allocator/keeper/keeper.h"
#include "allocator/space/page_map.h"
#include "allocator/space/run.h"
#include "allocator/warm/reserve.h"
#include "base/counters.h"
#include "base/options.h"
#include "check.h"
#include "keel/keel.h"
#include "os/machine.h"
#include "os/process.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define POPULATE_WRITE 23
#define V2 "/sys/fs/cgroup"
#define V1 "/sys/fs/cgroup/memory"
#define HUGE "/sys/kernel/mm/transparent_hugepage/enabled"

enum { FILES_MAX = 16, NAME_BYTES = 96, CONTENT_BYTES = 256 };

// ---- the tree ----

static struct {
    char name[NAME_BYTES];
    char content[CONTENT_BYTES];
} files[FILES_MAX];
static unsigned file_count;
static atomic_state tree_lock;
static atomic_state machine_is_real; // 1: the machine's own control groups are read

static void lock_tree(void) {
    uint32_t expected = 0;
    while (!atomic_try_state(&tree_lock, &expected, 1)) expected = 0;
}
static void unlock_tree(void) {
    atomic_set_release(&tree_lock, 0);
}

static int open_content(const char* name) {
    int file = -1;
    lock_tree();
    for (unsigned i = 0; i < file_count; i++) {
        if (strcmp(files[i].name, name) != 0) continue;
        file = (int)syscall(SYS_memfd_create, "group", 0);
        size_t length = strlen(files[i].content);
        CHECK(file >= 0 && write(file, files[i].content, length) == (ssize_t)length);
        CHECK(lseek(file, 0, SEEK_SET) == 0);
    }
    unlock_tree();
    if (file < 0) errno = ENOENT;
    return file;
}

int open(const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    unsigned mode = va_arg(rest, unsigned);
    va_end(rest);
    bool simulated = strncmp(path, V2, strlen(V2)) == 0 || strcmp(path, "/proc/self/cgroup") == 0 ||
                     strcmp(path, HUGE) == 0;
    if (!simulated || atomic_get(&machine_is_real) != 0)
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    return open_content(path);
}

static void file(const char* name, const char* content) {
    unsigned i = 0;
    lock_tree();
    while (i < file_count && strcmp(files[i].name, name) != 0) i++;
    CHECK(i < FILES_MAX);
    snprintf(files[i].name, NAME_BYTES, "%s", name);
    snprintf(files[i].content, CONTENT_BYTES, "%s", content);
    if (i == file_count) file_count++;
    unlock_tree();
}

static void file_bytes(const char* name, uint64_t bytes) {
    char content[32];
    snprintf(content, sizeof content, "%lu\n", (unsigned long)bytes);
    file(name, content);
}

static void tree(const char* groups) {
    file_count = 0;
    file("/proc/self/cgroup", groups);
}

// ---- populating ----

static atomic_state refuse;
static atomic_bits populates;

int madvise(void* start, size_t bytes, int advice) {
    if (advice == POPULATE_WRITE) (void)atomic_add(&populates, 1);
    if (advice == POPULATE_WRITE && atomic_get(&refuse) != 0) {
        memset(start, 0, bytes / 2); // these pages have memory now
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_madvise, start, bytes, advice);
}

// ---- the readings ----

static void test_readings(void) {
    tree("");
    CHECK(os_memory_headroom() == UINT64_MAX);
    tree("0::/a/b\n");
    CHECK(os_memory_headroom() == UINT64_MAX);
    file(V2 "/a/b/memory.max", "max\n");
    file(V2 "/a/b/memory.high", "max\n");
    file_bytes(V2 "/a/b/memory.current", 60 * MIB);
    CHECK(os_memory_headroom() == UINT64_MAX);
    file_bytes(V2 "/a/b/memory.max", 100 * MIB);
    CHECK(os_memory_headroom() == 40 * MIB);
    file(V2 "/a/b/memory.stat",
         "anon 1048576\nfile 20971520\nactive_file 7\ninactive_file 10485760\n");
    CHECK(os_memory_headroom() == 50 * MIB);
    file_bytes(V2 "/a/b/memory.high", 80 * MIB);
    CHECK(os_memory_headroom() == 30 * MIB);
    file_bytes(V2 "/a/memory.max", 200 * MIB); // a group above is tighter
    file_bytes(V2 "/a/memory.current", 195 * MIB);
    CHECK(os_memory_headroom() == 5 * MIB);
    file_bytes(V2 "/a/memory.current", 300 * MIB);
    CHECK(os_memory_headroom() == 0);

    tree("5:memory:/jobs/one\n2:cpu:/jobs\n");
    file_bytes(V1 "/jobs/one/memory.limit_in_bytes", INT64_MAX & ~UINT64_C(4095)); // no limit
    file_bytes(V1 "/jobs/one/memory.usage_in_bytes", 10 * MIB);
    CHECK(os_memory_headroom() == UINT64_MAX);
    file_bytes(V1 "/jobs/memory.limit_in_bytes", 64 * MIB);
    file_bytes(V1 "/jobs/memory.usage_in_bytes", 50 * MIB);
    CHECK(os_memory_headroom() == 14 * MIB);
    file(V1 "/jobs/memory.stat", "cache 1\ninactive_file 9\ntotal_inactive_file 1048576");
    CHECK(os_memory_headroom() == 15 * MIB);
    errno = 77;
    CHECK(os_memory_headroom() == 15 * MIB && errno == 77);
}

static void test_huge_pages(void) {
    tree("");
    CHECK(!os_machine_has_huge_pages()); // an old system, or one built without them
    file(HUGE, "always madvise [never]\n");
    CHECK(!os_machine_has_huge_pages());
    file(HUGE, "always [madvise] never\n");
    CHECK(os_machine_has_huge_pages());
    file(HUGE, "[always] madvise never\n");
    CHECK(os_machine_has_huge_pages());
    CHECK(syscall(SYS_prctl, PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
    CHECK(!os_machine_has_huge_pages());
    CHECK(syscall(SYS_prctl, PR_SET_THP_DISABLE, 0, 0, 0, 0) == 0);
}

// ---- a populate that stops half-way ----

static uint64_t anonymous_kib(void) {
    char line[256];
    unsigned long kib = 0;
    FILE* status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL) (void)sscanf(line, "RssAnon: %lu", &kib);
    fclose(status);
    return kib;
}

static void test_populate_stops(void) {
    CHECK(reserve_populate(1) == 1); // the machinery's own pages have memory from now on
    size_t warm = run_dirty_slices();
    uint64_t before = anonymous_kib();
    atomic_set(&refuse, 1);
    for (unsigned i = 0; i < 32; i++) CHECK(reserve_populate(64) == 0);
    atomic_set(&refuse, 0);
    CHECK(run_dirty_slices() == warm);
    CHECK(anonymous_kib() < before + 512); // one half of a populate is 2 MiB
    size_t done = reserve_populate(64);
    CHECK(done > 0 && run_dirty_slices() == warm + done);
    CHECK(event_total(EVENT_POPULATE_REFUSED) == 32);
    reserve_discard_all();
}

// ---- the keeper ----

static uint64_t populated_before; // slices, by the tests that populate themselves

static uint64_t populated(void) {
    return event_total(EVENT_POPULATED_SLICES) - populated_before;
}

// Takes and returns slices for a while, so that there is demand for warm ones.
static void demand(unsigned milliseconds) {
    enum { BLOCKS = 256, BYTES = 60000 };
    static void* blocks[BLOCKS];
    for (unsigned ms = 0; ms < milliseconds; ms += 10) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            if (ms % 20 == 0)
                CHECK((blocks[i] = kl_malloc(BYTES)) != NULL);
            else
                kl_free(blocks[i]);
        }
        usleep(10000);
    }
    for (unsigned i = 0; i < BLOCKS && milliseconds / 10 % 2 == 1; i++) kl_free(blocks[i]);
}

// Pauses double: 100, 200, 400 ms ..
static void test_keeper_pauses(void) {
    atomic_set(&refuse, 1);
    CHECK(keeper_start());
    demand(400);
    uint64_t refused = atomic_get(&populates);
    uint64_t begin_ms = os_clock_ms();
    demand(1000);
    uint64_t more = atomic_get(&populates) - refused;
    atomic_set(&refuse, 0);
    uint64_t took_ms = os_clock_ms() - begin_ms; // longer on a busy machine
    CHECK(refused > 0 && more <= 5 + took_ms / 300);
    for (unsigned i = 0; i < 40 && populated() < 20; i++) {
        reserve_discard_all(); // else what was freed serves the demand
        demand(200);
    }
    CHECK(populated() >= 20);
}

static bool populates_again(uint64_t before) {
    for (unsigned i = 0; i < 40 && populated() == before; i++) {
        reserve_discard_all();
        demand(200);
    }
    return populated() > before;
}

// True: there is demand, and the keeper populates nothing. On a busy machine it may take the keeper
// a while to look at the limit.
static bool stays_within_limit(void) {
    for (unsigned tries = 0; tries < 5; tries++) {
        demand(200);
        reserve_discard_all();
        uint64_t before = populated();
        demand(1000);
        if (populated() == before) return true;
    }
    return false;
}

// ---- memory that stays warm ----

// Allocates `bytes` in blocks of `size`, and frees them. False: more was held than the cap allows.
static bool holds_cap(size_t bytes, size_t size, size_t cap) {
    static void* blocks[300000];
    bool within = true;
    for (size_t i = 0; i < bytes / size; i++) {
        CHECK((blocks[i] = kl_malloc(size)) != NULL);
        within &= policy_held() <= cap + CAP_WARM;
    }
    for (size_t i = 0; i < bytes / size; i++) kl_free(blocks[i]);
    return within;
}

// 44 MiB of one kind of block, freed, and at once 44 MiB of another kind: what the first kind left
// warm, slices or mappings, must go back before the second kind fills as much again. With a keeper,
// which may be late, the threads do that.
static void test_warm_memory_within_the_cap(void) {
    size_t cap = policy_held() + 60 * MIB / SLICE_BYTES;
    policy_set_keeper(true);
    policy_set_cap(cap);
    static const size_t sizes[] = {4 * MIB, 1000, 100000, 11 * MIB, 20000, 700000, 200};
    for (unsigned i = 0; i < 14; i++) CHECK(holds_cap(44 * MIB, sizes[i % 7], cap));
    policy_set_cap(SIZE_MAX);
    CHECK(policy_cap_admits(SIZE_MAX / 2));
    for (unsigned i = 0; i < 7; i++) (void)holds_cap(44 * MIB, sizes[i], cap);
    CHECK(policy_held() > cap); // without it much stays warm
    policy_set_keeper(false);
    reserve_discard_all();
}

// In a process of its own, whose heap the next tests do not get.
static void in_child(void (*test)(void)) {
    int result = 1;
    pid_t child = fork();
    if (child == 0) {
        test();
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &result, 0) == child && result == 0);
}

static void test_keeper_near_a_limit(void) {
    file_bytes(V2 "/a/memory.current", 990 * MIB); // 10 MiB are left
    usleep(2 * HEADROOM_READ_MS * 1000);
    CHECK(stays_within_limit());
    for (unsigned i = 0; i < 100 && policy_target() != 0; i++) usleep(50000);
    CHECK(policy_target() == 0);
    // The keeper reads again at its next tick, at most TICK_MAX_US later.
    for (unsigned i = 0; i < 100 && policy_cap_admits(10 * MIB / SLICE_BYTES); i++) usleep(50000);
    CHECK(!policy_cap_admits(10 * MIB / SLICE_BYTES));

    file_bytes(V2 "/a/memory.current", 100 * MIB);
    CHECK(populates_again(populated()));
    CHECK(policy_cap_admits(800 * MIB / SLICE_BYTES));
}

// ---- a real control group, below the one that the process is in ----

static char parent[256];
static char group[300];

static bool write_file(const char* folder, const char* name, uint64_t number) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE* stream = fopen(path, "we");
    if (stream == NULL) return false;
    bool written = fprintf(stream, "%lu", (unsigned long)number) > 0;
    return fclose(stream) == 0 && written;
}

// Creates the group and enters it. The name of the file that has its limit; NULL: the machine does
// not allow it.
static const char* group_enter(void) {
    char line[256];
    const char* limit = NULL;
    FILE* groups = fopen("/proc/self/cgroup", "re");
    while (groups != NULL && limit == NULL && fgets(line, sizeof line, groups) != NULL) {
        char name[200] = "";
        bool v1 = sscanf(line, "%*d:memory:%199s", name) == 1;
        if (!v1 && sscanf(line, "0::%199s", name) != 1) continue;
        snprintf(parent, sizeof parent, "%s%s", v1 ? V1 : V2, name);
        snprintf(group, sizeof group, "%s/keel-test-%d", parent, (int)getpid());
        if (mkdir(group, 0700) != 0) continue;
        limit = v1 ? "memory.limit_in_bytes" : "memory.max";
        if (write_file(group, limit, 1 << 30) &&
            write_file(group, "cgroup.procs", (uint64_t)getpid()))
            break;
        CHECK(rmdir(group) == 0);
        limit = NULL;
    }
    if (groups != NULL) fclose(groups);
    return limit;
}

static void group_leave(void) {
    CHECK(write_file(parent, "cgroup.procs", (uint64_t)getpid()));
    for (unsigned i = 0; i < 100 && rmdir(group) != 0; i++) usleep(10000);
}

static void test_keeper_in_a_real_group(void) {
    const char* limit = group_enter();
    if (limit == NULL) {
        puts("skip: no control group can be made here");
        return;
    }
    // Only now: a keeper that sees no limit once does not look again.
    atomic_set(&machine_is_real, 1);
    static char* touched;
    touched = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(touched != MAP_FAILED);
    memset(touched, 1, 64 * MIB);
    CHECK(os_memory_headroom() <= (1 << 30) - 64 * MIB);
    // Far enough below what is kept: the kernel's count of a group's pages is not exact.
    CHECK(write_file(group, limit, 64 * MIB + HEADROOM_KEPT / 2));
    CHECK(os_memory_headroom() < HEADROOM_KEPT);
    usleep(2 * HEADROOM_READ_MS * 1000);
    bool within = stays_within_limit();
    CHECK(write_file(group, limit, 1 << 30));
    bool again = populates_again(populated());
    group_leave();
    CHECK(within);
    CHECK(again);
    puts("a real control group: ok");
}

int main(void) {
    kl_free(kl_malloc(100));
    test_huge_pages();
    test_readings(); // the next tests need its limits
    test_populate_stops();
    in_child(test_warm_memory_within_the_cap);
    tree("0::/a\n");
    file_bytes(V2 "/a/memory.max", 1000 * MIB);
    file_bytes(V2 "/a/memory.current", 100 * MIB);
    populated_before = event_total(EVENT_POPULATED_SLICES);
    test_keeper_pauses();
    test_keeper_near_a_limit();
    test_keeper_in_a_real_group();
    return 0;
}
