// The vDSO is code that the kernel maps into each process. Its clock needs no system call. It is
// found in the image's table of dynamic symbols, without the C library.
#include "base/atomic.h"
#include "os/call.h"
#include "os/process.h"
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

#if defined(__x86_64__)
#define CLOCK_NAME "__vdso_clock_gettime"
#else
#define CLOCK_NAME "__kernel_clock_gettime"
#endif

typedef int clock_function(clockid_t clock, struct timespec* now);

static int clock_by_call(clockid_t clock, struct timespec* now) {
    return (int)os_call(SYS_clock_gettime, clock, now);
}

// Where the image would be if it began at address 0.
static uintptr_t first_address(const char* image) {
    const ElfW(Ehdr)* header = (const void*)image;
    const ElfW(Phdr)* parts = (const void*)(image + header->e_phoff);
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (parts[i].p_type == PT_LOAD) return parts[i].p_vaddr - parts[i].p_offset;
    }
    return 0;
}

static uintptr_t find_in_table(const char* image, const ElfW(Shdr) * sections, unsigned table) {
    const char* names = image + sections[sections[table].sh_link].sh_offset;
    const ElfW(Sym)* symbols = (const void*)(image + sections[table].sh_offset);
    for (size_t i = 0; i < sections[table].sh_size / sizeof *symbols; i++) {
        if (symbols[i].st_shndx != SHN_UNDEF && strcmp(names + symbols[i].st_name, CLOCK_NAME) == 0)
            return (uintptr_t)image + symbols[i].st_value - first_address(image);
    }
    return 0;
}

static uintptr_t find_clock(void) {
    int saved = errno; // getauxval sets it if there is no image
    const char* image = (const char*)getauxval(AT_SYSINFO_EHDR);
    errno = saved;
    uintptr_t found = 0;
    if (image == NULL) return (uintptr_t)clock_by_call;
    const ElfW(Ehdr)* header = (const void*)image;
    const ElfW(Shdr)* sections = (const void*)(image + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum && found == 0; i++) {
        if (sections[i].sh_type == SHT_DYNSYM) found = find_in_table(image, sections, i);
    }
    return found != 0 ? found : (uintptr_t)clock_by_call;
}

uint64_t os_clock_ms(void) {
    static atomic_word cached; // every thread writes the same value
    struct timespec now;
    uintptr_t function = atomic_get(&cached);
    if (function == 0) {
        function = find_clock();
        atomic_set(&cached, function);
    }
    if (((clock_function*)function)(CLOCK_MONOTONIC_COARSE, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// The vDSO has no such clock: it would make the call itself.
uint64_t linux_thread_us(void) {
    struct timespec now;
    if (clock_by_call(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}
