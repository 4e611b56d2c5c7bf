// The instruction gate: a child runs malloc and free, its parent steps through it and counts the
// instructions that lie in libkeel. Exact, so it can gate on any machine, however busy. x86-64
// Linux; elsewhere it says that it skips.
#include <dlfcn.h>
#include <keel/runtime.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum phase {
    PHASE_NONE,
    MALLOC_HIT,
    FREE_HIT,
    MALLOC_MEDIUM_HIT,
    CALLOC_HIT,
    MALLOC_LARGE,
    FREE_LARGE,
    TURN_PAGES,
    RESIZE_LARGE,
    TURNS,
    REALLOC_COPY,
    CARVES,
    PAGES_END,
    PHASE_COUNT
};

enum { TURN_COUNT = 512, CARVE_COUNT = 1500 }; // blocks of 48 bytes: 1,365 in a page

static const struct {
    const char* name;
    unsigned long bound;
    unsigned long secure; // of the secure flavour; 0: not counted
} phases[PHASE_COUNT] = {
    [MALLOC_HIT] = {"malloc(64), block ready", 16, 62},
    [FREE_HIT] = {"free, own page", 18, 58},
    [MALLOC_MEDIUM_HIT] = {"malloc(4000), block ready", 30, 0},
    [CALLOC_HIT] = {"calloc(1, 64), block ready", 40, 95},
    [MALLOC_LARGE] = {"malloc(100000)", 600, 0},
    [FREE_LARGE] = {"free of 100000 bytes", 400, 0},
    [TURN_PAGES] = {"malloc and free of 4096, 64 times", 64 * 110, 0},
    [RESIZE_LARGE] = {"realloc of 100000 within its slice", 125, 0},
    [TURNS] = {"malloc and free of 64, 512 times", TURN_COUNT * 40, TURN_COUNT * 142},
    [REALLOC_COPY] = {"realloc of 64 to 200", 0, 380},
    [CARVES] = {"malloc(40), 1,500 new blocks", 0, CARVE_COUNT * 92},
    [PAGES_END] = {"free of them, in their order", 0, CARVE_COUNT * 67},
};

static volatile unsigned long phase; // read by the parent, at the same address

// Refills included, after all blocks of a page have been used once.
static void turns(void) {
    for (int i = 0; i < 2 * TURN_COUNT; i++) free(malloc(64));
    phase = TURNS;
    for (int i = 0; i < TURN_COUNT; i++) free(malloc(64));
    phase = PHASE_NONE;
}

// Whole pages of new blocks, which end when they are freed.
static void secure_pages(void) {
    static void* blocks[CARVE_COUNT];
    phase = CARVES;
    for (int i = 0; i < CARVE_COUNT; i++) blocks[i] = malloc(40);
    phase = PAGES_END;
    for (int i = 0; i < CARVE_COUNT; i++) free(blocks[i]);
    phase = PHASE_NONE;
}

// The secure flavour chooses the order of blocks.
static void secure_work(void) {
    free(malloc(200));
    void* a = malloc(64);
    phase = MALLOC_HIT;
    void* b = malloc(64);
    phase = FREE_HIT;
    free(b);
    phase = CALLOC_HIT;
    void* c = calloc(1, 64);
    phase = REALLOC_COPY;
    c = realloc(c, 200);
    phase = PHASE_NONE;
    free(c);
    turns();
    secure_pages();
    free(a);
}

static void work(void) {
    enum { READY = 4 };
    void* small[READY];
    void* medium[READY];
    for (int i = 0; i < READY; i++) small[i] = malloc(64);
    for (int i = 0; i < READY; i++) medium[i] = malloc(4000);
    for (int i = 0; i < READY - 1; i++) free(small[i]);
    for (int i = 0; i < READY - 1; i++) free(medium[i]);
    free(malloc(100000));
    // Takes what was carved until a refill has brought the freed ones back into the bin.
    void* a = malloc(64);
    phase = MALLOC_HIT;
    void* b = malloc(64);
    phase = FREE_HIT;
    free(b);
    phase = PHASE_NONE;
    void* c = malloc(4000);
    while (c != medium[READY - 2]) c = malloc(4000);
    phase = MALLOC_MEDIUM_HIT;
    void* d = malloc(4000);
    phase = CALLOC_HIT;
    void* e = calloc(1, 64);
    phase = MALLOC_LARGE;
    void* f = malloc(100000);
    phase = FREE_LARGE;
    free(f);
    // Each malloc finds an empty bin and refills it with one block.
    phase = TURN_PAGES;
    for (int i = 0; i < 64; i++) free(malloc(4096));
    phase = PHASE_NONE;
    char* g = malloc(100000);
    phase = RESIZE_LARGE;
    g = realloc(g, 80000);
    phase = PHASE_NONE;
    free(g);
    turns();
    free(a);
    free(d);
    free(e);
}

#if defined(__x86_64__) && defined(__linux__)

struct range {
    uintptr_t start, end;
};

static int find_code(struct dl_phdr_info* object, size_t size, void* result) {
    (void)size;
    struct range* range = result;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr)* segment = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0) continue;
        if (range->start < start || range->start >= start + segment->p_memsz) continue;
        *range = (struct range){start, start + segment->p_memsz};
        return 1;
    }
    return 0;
}

static void step_through(pid_t child, struct range code, unsigned long* counts) {
    int status;
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        struct user_regs_struct registers;
        if (ptrace(PTRACE_GETREGS, child, NULL, &registers) != 0) break;
        unsigned long now = (unsigned long)ptrace(PTRACE_PEEKDATA, child, (void*)&phase, NULL);
        if (now < PHASE_COUNT && registers.rip >= code.start && registers.rip < code.end)
            counts[now]++;
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0) break;
    }
}

int main(void) {
    Dl_info info;
    if (dladdr((void*)(uintptr_t)malloc, &info) == 0 || strstr(info.dli_fname, "libkeel") == NULL) {
        fprintf(stderr, "malloc is not libkeel's\n");
        return 1;
    }
    struct range code = {(uintptr_t)malloc, 0};
    (void)dl_iterate_phdr(find_code, &code);
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
        // Stepping is slow: with the default, a period of the reserve may end in the counted call.
        kl_option_set(kl_option_reset_delay, 600000);
        (void)raise(SIGSTOP);
        if (KEEL_SECURE)
            secure_work();
        else
            work();
        _exit(0);
    }
    unsigned long counts[PHASE_COUNT] = {0};
    step_through(child, code, counts);
    if (counts[MALLOC_HIT] == 0) {
        fprintf(stderr, "skip: this system does not let a process be traced\n");
        return 0;
    }
    int failed = 0;
    for (int i = 1; i < PHASE_COUNT; i++) {
        unsigned long bound = KEEL_SECURE ? phases[i].secure : phases[i].bound;
        if (bound == 0) continue;
        int over = counts[i] > bound;
        printf("%-28s %4lu instructions, bound %lu%s\n", phases[i].name, counts[i], bound,
               over ? "  ABOVE" : "");
        failed |= over;
    }
    return failed;
}

#else

int main(void) {
    (void)phases;
    (void)work;
    (void)secure_work;
    fprintf(stderr, "skip: instructions are counted on x86-64 Linux only\n");
    return 0;
}

#endif
