// kl_machine_info: the limits of control groups on various machines. This program defines open, so
// Keel reads the control groups from a folder that the test has written.
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <keel/runtime.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GIB ((uint64_t)1 << 30)
#define NO_LIMIT_1 "9223372036854771712" // how version 1 says it

static char root[64];

int open(const char* path, int flags, ...) {
    char moved[512];
    if (strncmp(path, "/sys/fs/cgroup", 14) == 0 || strcmp(path, "/proc/self/cgroup") == 0) {
        snprintf(moved, sizeof moved, "%s%s", root, path);
        path = moved;
    }
    va_list rest;
    va_start(rest, flags);
    unsigned mode = va_arg(rest, unsigned);
    va_end(rest);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

// Writes a file of the simulated machine and creates its folders.
static void file(const char* path, const char* content) {
    char place[512];
    snprintf(place, sizeof place, "%s%s", root, path);
    for (char* at = place + 1; (at = strchr(at, '/')) != NULL; *at++ = '/') {
        *at = '\0';
        CHECK(mkdir(place, 0700) == 0 || errno == EEXIST);
    }
    FILE* stream = fopen(place, "w");
    CHECK(stream != NULL && fputs(content, stream) >= 0 && fclose(stream) == 0);
}

// Simulates a machine on which the process is in these groups.
static void machine(const char* groups) {
    snprintf(root, sizeof root, "/tmp/keel-machine-XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    file("/proc/self/cgroup", groups);
}

static void expect(uint64_t memory, uint64_t processors_milli) {
    struct kl_machine info;
    errno = 77;
    kl_machine_info(&info);
    CHECK_EQUAL(errno, 77);
    CHECK_EQUAL(info.memory_limit_bytes, memory);
    CHECK_EQUAL(info.processors_milli, processors_milli);
    CHECK(info.processors > 0 && info.memory_bytes > 0);
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
}

TEST(no_control_groups) {
    machine("");
    expect(0, 0);
}

TEST(version_2) {
    machine("0::/user.slice/game.scope\n");
    file("/sys/fs/cgroup/user.slice/game.scope/memory.max", "1073741824\n");
    file("/sys/fs/cgroup/user.slice/game.scope/cpu.max", "150000 100000\n");
    expect(GIB, 1500);
}

TEST(version_2_without_limits) {
    machine("0::/user.slice\n");
    file("/sys/fs/cgroup/user.slice/memory.max", "max\n");
    file("/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
    expect(0, 0);
}

TEST(version_2_where_a_group_above_is_tighter) {
    machine("0::/a/b/c\n");
    file("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
    file("/sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
    file("/sys/fs/cgroup/a/b/memory.max", "3221225472\n");
    file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    file("/sys/fs/cgroup/a/memory.max", "2147483648\n");
    file("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    expect(2 * GIB, 500);
}

TEST(version_2_in_a_container_that_sees_its_own_group_as_the_root) {
    machine("0::/\n");
    file("/sys/fs/cgroup/memory.max", "536870912\n");
    file("/sys/fs/cgroup/cpu.max", "25000 50000\n");
    expect(GIB / 2, 500);
}

TEST(version_1) {
    machine("9:cpuset:/\n7:cpu,cpuacct:/jobs/one\n4:memory:/jobs/one\n1:name=systemd:/jobs\n");
    file("/sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", NO_LIMIT_1 "\n");
    file("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "1073741824\n");
    file("/sys/fs/cgroup/memory/memory.limit_in_bytes", NO_LIMIT_1 "\n");
    file("/sys/fs/cgroup/cpu/jobs/one/cpu.cfs_quota_us", "-1\n");
    file("/sys/fs/cgroup/cpu/jobs/one/cpu.cfs_period_us", "100000\n");
    file("/sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "200000\n");
    file("/sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "100000\n");
    expect(GIB, 2000);
}

TEST(version_1_in_a_container_that_sees_only_its_own_group) {
    machine("7:cpuacct,cpu:/docker/0123\n4:memory:/docker/0123\n");
    file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    expect(2 * GIB, 1000);
}

// Groups of only cpuset or cpuacct are not groups of cpu, despite their names.
TEST(version_1_ignores_groups_with_similar_names) {
    machine("9:cpuset:/tight\n8:cpuacct:/tight\n7:cpu:/wide\n6:memory_recursiveprot:/tight\n");
    file("/sys/fs/cgroup/cpu/tight/cpu.cfs_quota_us", "1000\n");
    file("/sys/fs/cgroup/cpu/tight/cpu.cfs_period_us", "100000\n");
    file("/sys/fs/cgroup/memory/tight/memory.limit_in_bytes", "4096\n");
    expect(0, 0);
}

TEST(both_versions_at_once) {
    machine("4:memory:/one\n0::/two\n");
    file("/sys/fs/cgroup/memory/one/memory.limit_in_bytes", "2147483648\n");
    file("/sys/fs/cgroup/two/cpu.max", "30000 10000\n");
    expect(2 * GIB, 3000);
}

TEST(a_limit_on_address_space_counts_too) {
    machine("0::/one\n");
    file("/sys/fs/cgroup/one/memory.max", "1099511627776\n");
    struct rlimit limit = {900 * GIB, 900 * GIB};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    expect(900 * GIB, 0);
}

TEST(overlong_names_are_ignored) {
    static char line[3000] = "0::/";
    memset(line + 4, 'x', sizeof line - 6);
    machine(line);
    file("/sys/fs/cgroup/memory.max", "1073741824\n");
    expect(0, 0);
}
