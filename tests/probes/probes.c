// The probes of libkeel.so, as a tracer uses them: each note leads to a `nop`. The program replaces
// these by breakpoints and compares the hits with the library's own counts. Links libkeel.so.
#include "check.h"
#include <elf.h>
#include <fcntl.h>
#include <keel/keel.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

enum { NOP = 0x90, BREAKPOINT = 0xcc, PROBES_MAX = 64, PATHS = 6 };

struct probe {
    unsigned char* address;
    long path; // of a slow_path whose first argument is a constant; -1: another probe
    volatile unsigned long hits;
};
static struct probe probes[PROBES_MAX];
static size_t probe_count;

static void probe_add(const char* contents, uintptr_t base) {
    const uint64_t* addresses = (const uint64_t*)contents; // of the nop, of the base, semaphore
    const char* provider = contents + 3 * sizeof(uint64_t);
    const char* name = provider + strlen(provider) + 1;
    const char* arguments = name + strlen(name) + 1;
    CHECK_EQUAL(strcmp(provider, "keel"), 0);
    CHECK_EQUAL(addresses[2], 0);
    CHECK(strncmp(arguments, "8@", 2) == 0 && strstr(arguments, " 8@") != NULL);
    CHECK(probe_count < PROBES_MAX);
    struct probe* probe = &probes[probe_count++];
    *probe = (struct probe){(unsigned char*)(base + addresses[0]), -1, 0};
    CHECK_WITH(*probe->address == NOP, "%s at %#lx: %#x", name, addresses[0], *probe->address);
    if (strcmp(name, "slow_path") == 0) {
        CHECK_EQUAL(arguments[2], '$');
        probe->path = strtol(arguments + 3, NULL, 10);
    }
}

// The notes of the section are in the file, not in memory.
static int notes_read(struct dl_phdr_info* object, size_t size, void* unused) {
    (void)size;
    (void)unused;
    if (strstr(object->dlpi_name, "libkeel.so") == NULL) return 0;
    int file = open(object->dlpi_name, O_RDONLY);
    struct stat facts;
    CHECK(file >= 0 && fstat(file, &facts) == 0);
    const char* image = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(image != MAP_FAILED);
    const ElfW(Ehdr)* header = (const void*)image;
    const ElfW(Shdr)* sections = (const void*)(image + header->e_shoff);
    const char* names = image + sections[header->e_shstrndx].sh_offset;
    for (int i = 0; i < header->e_shnum; i++) {
        if (strcmp(names + sections[i].sh_name, ".note.stapsdt") != 0) continue;
        const char* at = image + sections[i].sh_offset;
        const char* end = at + sections[i].sh_size;
        while (at < end) {
            const ElfW(Nhdr)* note = (const void*)at;
            const char* contents = at + sizeof *note + (note->n_namesz + 3) / 4 * 4;
            CHECK_EQUAL(note->n_type, 3);
            probe_add(contents, object->dlpi_addr);
            at = contents + (note->n_descsz + 3) / 4 * 4;
        }
    }
    return 1;
}

// The breakpoint has the length of the nop, so the program continues behind it.
static void breakpoint(int number, siginfo_t* info, void* context) {
    (void)number;
    (void)info;
    unsigned char* next = (unsigned char*)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
    for (size_t i = 0; i < probe_count; i++)
        if (probes[i].address + 1 == next) {
            probes[i].hits++;
            return;
        }
    _exit(99);
}

static void breakpoints_set(unsigned char instruction) {
    for (size_t i = 0; i < probe_count; i++) {
        char* page = (char*)((uintptr_t)probes[i].address & ~(uintptr_t)4095);
        CHECK_EQUAL(mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
        *probes[i].address = instruction;
        CHECK_EQUAL(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    }
}

// The calls of this slow path so far, of the library's report.
static unsigned long counted(const char* path) {
    static char report[1 << 16];
    CHECK(kl_stats_json(report, sizeof report) < sizeof report);
    char key[40] = "\"";
    strcat(strcat(key, path), "\":");
    const char* found = strstr(report, key);
    found = found != NULL ? strstr(found, "\"calls\":") : NULL;
    return found != NULL ? strtoul(found + strlen("\"calls\":"), NULL, 10) : 0;
}

static void work(void) {
    static char* blocks[20000];
    for (int i = 0; i < 20000; i++) CHECK((blocks[i] = malloc((size_t)(i % 50) * 100)) != NULL);
    for (int i = 0; i < 20000; i++) free(blocks[i]);
    for (int i = 0; i < 100; i++) CHECK((blocks[i] = malloc(200000 + (size_t)i * 5000)) != NULL);
    for (int i = 0; i < 100; i++) free(blocks[i]);
}

TEST(each_probe_is_hit_as_often_as_its_path_is_counted) {
    static const char* const names[PATHS] = {"drain",        "fresh_page", "page_emptied",
                                             "large_malloc", "large_free", "remote_sent"};
    CHECK_EQUAL(dl_iterate_phdr(notes_read, NULL), 1);
    CHECK(probe_count >= PATHS + 2);
    unsigned long before[PATHS];
    for (int i = 0; i < PATHS; i++) before[i] = counted(names[i]);
    struct sigaction action = {.sa_sigaction = breakpoint, .sa_flags = SA_SIGINFO};
    CHECK_EQUAL(sigaction(SIGTRAP, &action, NULL), 0);
    breakpoints_set(BREAKPOINT);
    work();
    breakpoints_set(NOP);
    unsigned long hits[PATHS] = {0};
    for (size_t i = 0; i < probe_count; i++)
        if (probes[i].path >= 0) hits[probes[i].path] += probes[i].hits;
    for (int i = 0; i < PATHS; i++) {
        // One in four of the large allocations is timed, and counts four times.
        unsigned long calls = counted(names[i]) - before[i];
        bool is_large = i == 3 || i == 4;
        CHECK_WITH(is_large ? hits[i] <= calls && calls <= 4 * hits[i] : hits[i] == calls,
                   "%s: %lu hits, %lu calls", names[i], hits[i], calls);
    }
    CHECK(hits[1] > 100 && hits[2] > 100 && hits[3] > 10 && hits[4] > 10);
}
