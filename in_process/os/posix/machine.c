#include "os/machine.h"
#include "os/memory.h"
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#if !defined(RLIMIT_AS) // OpenBSD counts mapped memory as data
#define RLIMIT_AS RLIMIT_DATA
#endif

uint64_t os_address_space_limit(void) {
    struct rlimit limit;
    int saved = errno;
    bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    errno = saved;
    return limited ? (uint64_t)limit.rlim_cur : UINT64_MAX;
}

// sysconf may open files, but not allocate.
void os_machine(struct os_machine* machine) {
    int saved = errno;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    long pages = sysconf(_SC_PHYS_PAGES);
    uint64_t limit = os_address_space_limit();
    errno = saved;
    *machine = (struct os_machine){
        .processors = processors > 0 ? (uint32_t)processors : 1,
        .memory_bytes = pages > 0 ? (uint64_t)pages * os_page_bytes() : 0,
        .memory_limit_bytes = limit != UINT64_MAX ? limit : 0,
    };
}
