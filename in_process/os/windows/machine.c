#include "os/machine.h"
#include "os/windows/system.h"

uint64_t os_address_space_limit(void) {
    return UINT64_MAX;
}

// The smallest limit of the job that the process is in, or 0.
static uint64_t job_limit(void) {
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION job = {.ProcessMemoryLimit = 0};
    if (!QueryInformationJobObject(NULL, JobObjectExtendedLimitInformation, &job, sizeof job, NULL))
        return 0;
    const DWORD flags = job.BasicLimitInformation.LimitFlags;
    uint64_t limit = 0;
    if ((flags & JOB_OBJECT_LIMIT_PROCESS_MEMORY) != 0) limit = job.ProcessMemoryLimit;
    if ((flags & JOB_OBJECT_LIMIT_JOB_MEMORY) != 0 && (limit == 0 || job.JobMemoryLimit < limit))
        limit = job.JobMemoryLimit;
    return limit;
}

static uint32_t processors(void) {
    DWORD_PTR own = 0, all = 0;
    uint32_t count = 0;
    if (GetProcessAffinityMask(GetCurrentProcess(), &own, &all))
        count = (uint32_t)__builtin_popcountll(own);
    if (count == 0) count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS); // in several groups
    return count > 0 ? count : 1;
}

void os_machine(struct os_machine* machine) {
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    DWORD saved = GetLastError();
    (void)GlobalMemoryStatusEx(&memory);
    *machine = (struct os_machine){
        .processors = processors(),
        .memory_bytes = memory.ullTotalPhys,
        .memory_limit_bytes = job_limit(),
    };
    SetLastError(saved);
}
