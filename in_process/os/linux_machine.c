#include "base/atomic.h"
#include "base/bits.h"
#include "os/call.h"
#include "os/confined.h"
#include "os/file.h"
#include "os/machine.h"
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#define PATH_BYTES 1024
#define PROCESSORS_MAX 8192u

// A number where `*text` stands, which is moved behind it and one separator. 0: none, as for "max"
// and "-1".
static uint64_t number_take(const char** text) {
    uint64_t number = 0;
    while (**text >= '0' && **text <= '9') number = number * 10 + (uint64_t)(*(*text)++ - '0');
    while (**text != '\0' && **text != ' ' && **text != '\n') (*text)++;
    if (**text != '\0') (*text)++;
    return number;
}

static void at_most(uint64_t* least, uint64_t value) {
    if (value != 0 && (*least == 0 || value < *least)) *least = value;
}

static bool path_join(char* path, const char* directory, const char* name) {
    size_t length = strlen(directory);
    if (length + strlen(name) + 2 > PATH_BYTES) return false;
    memcpy(path, directory, length);
    path[length] = '/';
    strcpy(path + length + 1, name);
    return true;
}

static uint64_t number_in(const char* directory, const char* name) {
    char path[PATH_BYTES];
    char content[64];
    const char* text = content;
    if (!path_join(path, directory, name) || !os_file_read(path, content, sizeof content)) return 0;
    return number_take(&text);
}

// Version 1 says "no limit" by a number just below 2^63.
static uint64_t limit_of(uint64_t bytes) {
    return bytes >= UINT64_C(1) << 60 ? 0 : bytes;
}

// What to do with one control group. Versions 1 and 2 have different files.
typedef void group_visitor(void* context, const char* directory, unsigned version);

static void limits_read(void* context, const char* directory, unsigned version) {
    (void)version;
    struct os_machine* machine = context;
    char path[PATH_BYTES];
    char content[64];
    at_most(&machine->memory_limit_bytes, limit_of(number_in(directory, "memory.max")));
    at_most(&machine->memory_limit_bytes, limit_of(number_in(directory, "memory.limit_in_bytes")));
    uint64_t quota = number_in(directory, "cpu.cfs_quota_us");
    uint64_t period = number_in(directory, "cpu.cfs_period_us");
    if (path_join(path, directory, "cpu.max") && os_file_read(path, content, sizeof content)) {
        const char* text = content;
        quota = number_take(&text);
        period = number_take(&text);
    }
    if (period != 0) at_most(&machine->processors_milli, quota * 1000 / period);
}

// The group itself and all above it, whose limits hold for it too.
static void groups_visit(group_visitor* visit, void* context, const char* mount, const char* group,
                         unsigned version) {
    char directory[PATH_BYTES];
    size_t base = strlen(mount);
    if (!path_join(directory, mount, group[0] == '/' ? group + 1 : group)) return;
    for (;;) {
        visit(context, directory, version);
        char* last = strrchr(directory, '/');
        if (last == NULL || last < directory + base) return;
        *last = '\0';
    }
}

// True if `word` is one of `list`, which has commas between them: "cpu" is not in "cpuset".
static bool is_among(const char* list, const char* word) {
    size_t length = strlen(word);
    for (; list != NULL; list = strchr(list, ',')) {
        if (*list == ',') list++;
        if (strncmp(list, word, length) == 0 && (list[length] == ',' || list[length] == '\0'))
            return true;
    }
    return false;
}

// Lines of /proc/self/cgroup: `0::/path` (version 2), `7:memory:/path` (version 1). `memory`: only
// the groups that may limit memory.
static void control_groups(group_visitor* visit, void* context, bool memory) {
    char content[4096];
    if (!os_file_read("/proc/self/cgroup", content, sizeof content)) return;
    for (char* line = content; line != NULL && *line != '\0';) {
        char* end = strchr(line, '\n');
        if (end != NULL) *end = '\0';
        char* controllers = strchr(line, ':');
        char* group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group != NULL) {
            *group++ = '\0';
            controllers++;
            if (*controllers == '\0') groups_visit(visit, context, "/sys/fs/cgroup", group, 2);
            if (is_among(controllers, "memory"))
                groups_visit(visit, context, "/sys/fs/cgroup/memory", group, 1);
            if (!memory && is_among(controllers, "cpu"))
                groups_visit(visit, context, "/sys/fs/cgroup/cpu", group, 1);
        }
        line = end != NULL ? end + 1 : NULL;
    }
}

uint64_t os_address_space_limit(void) {
    static atomic_bits last; // its complement, so that 0 means that there is no limit
    struct rlimit limit;
    if (os_may_open()) {
        bool limited = os_call(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit) == 0 &&
                       limit.rlim_cur != RLIM_INFINITY;
        atomic_set(&last, limited ? ~(uint64_t)limit.rlim_cur : 0);
    }
    return ~atomic_get(&last);
}

static uint32_t processors(void) {
    uint64_t set[PROCESSORS_MAX / 64] = {0};
    uint32_t count = 0;
    intptr_t bytes = os_call(SYS_sched_getaffinity, 0, sizeof set, set);
    for (intptr_t i = 0; i < bytes / (intptr_t)sizeof *set; i++) count += bit_count(set[i]);
    return count > 0 ? count : 1;
}

void os_machine(struct os_machine* machine) {
    struct sysinfo info;
    uint64_t address_space = os_address_space_limit();
    *machine = (struct os_machine){.processors = processors()};
    if (os_call(SYS_sysinfo, &info) == 0)
        machine->memory_bytes = (uint64_t)info.totalram * info.mem_unit;
    if (address_space != UINT64_MAX) at_most(&machine->memory_limit_bytes, address_space);
    control_groups(limits_read, machine, false);
}

// The number behind `name` in a file with a name and a number on each line. 0: it is not there.
static uint64_t line_in(const char* directory, const char* file, const char* name) {
    char path[PATH_BYTES];
    char content[4096];
    size_t length = strlen(name);
    if (!path_join(path, directory, file) || !os_file_read(path, content, sizeof content)) return 0;
    for (const char* line = content; line != NULL; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, name, length) != 0 || line[length] != ' ') continue;
        const char* number = line + length + 1;
        return number_take(&number);
    }
    return 0;
}

// File pages that the system has found unused come first when a group needs memory.
static uint64_t headroom_below(uint64_t limit, uint64_t used, uint64_t unused_file_pages) {
    used = used > unused_file_pages ? used - unused_file_pages : 0;
    return limit > used ? limit - used : 0;
}

static void headroom_read(void* context, const char* directory, unsigned version) {
    bool newer = version == 2;
    uint64_t* least = context;
    uint64_t limit = 0;
    if (newer) {
        limit = number_in(directory, "memory.max");
        at_most(&limit, number_in(directory, "memory.high"));
    } else {
        limit = limit_of(number_in(directory, "memory.limit_in_bytes"));
    }
    if (limit == 0) return;
    const char* used = newer ? "memory.current" : "memory.usage_in_bytes";
    const char* unused = newer ? "inactive_file" : "total_inactive_file";
    uint64_t headroom = headroom_below(limit, number_in(directory, used),
                                       line_in(directory, "memory.stat", unused));
    if (headroom < *least) *least = headroom;
}

uint64_t os_memory_headroom(void) {
    if (!os_may_open()) return 0;
    uint64_t least = UINT64_MAX;
    control_groups(headroom_read, &least, true);
    return least;
}

bool os_machine_has_huge_pages(void) {
    static const char name[] = "/sys/kernel/mm/transparent_hugepage/enabled";
    char content[128];
    struct os_status status;
    if (!os_file_read(name, content, sizeof content)) return false;
    os_status_read(&status);
    return !status.huge_pages_denied && strstr(content, "[never]") == NULL;
}
