// The call stack, by the tables of C++ exceptions, so that no function needs a frame pointer.
//
// On x86-64 Keel reads the tables itself (unwind_rules.h). Each frame that it does not understand,
// as that of a signal handler, and all frames on other machines, are left to the unwinder of
// libgcc. That one reads what a return address points at if there are no tables for it. Coroutines
// have invalid addresses at the end of their stacks; so no such address is left to it.
#include "base/atomic.h"
#include "os/call.h"
#include "os/linux_optional.h"
#include "os/process.h"
#include "os/stack.h"
#include "os/unwind_rules.h"
#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#if defined(__x86_64__)
#define HAS_RULES 1
#else
#define HAS_RULES 0
#endif

// --- The unwinder of libgcc ----------------------------------------------------------------------
//
// The debug flavour contains it. Otherwise it is loaded at start; a static program has it only if
// it is linked into it.

#pragma weak _Unwind_Backtrace
#pragma weak _Unwind_GetIPInfo
#pragma weak _Unwind_GetCFA
#pragma weak _Unwind_GetGR
OPTIONAL(dlopen);
OPTIONAL(dlsym);

static struct {
    _Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void*);
    _Unwind_Ptr (*address)(struct _Unwind_Context*, int*);
    _Unwind_Word (*stack)(struct _Unwind_Context*);
    _Unwind_Word (*number)(struct _Unwind_Context*, int);
    bool complete;
} unwinder;
static atomic_state prepared;

static void unwinder_find(void) {
    unwinder.backtrace = _Unwind_Backtrace;
    unwinder.address = _Unwind_GetIPInfo;
    unwinder.stack = _Unwind_GetCFA;
    unwinder.number = _Unwind_GetGR;
    if (_Unwind_Backtrace == NULL) {
        void* (*open_library)(const char*, int) = dlopen;
        void* (*find)(void*, const char*) = dlsym;
        if (open_library == NULL || find == NULL) return;
        void* library = open_library("libgcc_s.so.1", RTLD_NOW);
        if (library == NULL) return;
        *(void**)&unwinder.backtrace = dlsym(library, "_Unwind_Backtrace");
        *(void**)&unwinder.address = dlsym(library, "_Unwind_GetIPInfo");
        *(void**)&unwinder.stack = dlsym(library, "_Unwind_GetCFA");
        *(void**)&unwinder.number = dlsym(library, "_Unwind_GetGR");
    }
    unwinder.complete = unwinder.backtrace != NULL && unwinder.address != NULL &&
                        unwinder.stack != NULL && unwinder.number != NULL;
}

// Without _dl_find_object (glibc before 2.35), libgcc's unwinder takes the loader's lock of the
// list of modules. If a thread held it at a fork, it would stay locked in the child, which does not
// have that thread. So no walk begins from before a fork until after it, and the fork waits for
// those of other threads. A walk may wait for a thread that itself has this lock and forks: so the
// wait has an end.
enum { FORK_WAIT_MS = 1000 };
#define FORKING ((uintptr_t)1 << (8 * sizeof(uintptr_t) - 1))
static atomic_word walks;         // in all threads, and FORKING
static KEEL_TLS uintptr_t nested; // of this thread: a signal handler may walk, or fork

static bool unwind(_Unwind_Trace_Fn visit, void* data) {
    if (!unwinder.complete) return false;
    nested++;
    bool allowed = (atomic_add_ordered(&walks, 1) & FORKING) == 0;
    if (allowed) (void)unwinder.backtrace(visit, data);
    (void)atomic_sub_ordered(&walks, 1);
    nested--;
    return allowed;
}

void os_stack_before_fork(void) {
    uint64_t end = 0;
    (void)atomic_or_ordered(&walks, FORKING);
    while (atomic_get_acquire(&walks) != (FORKING | nested)) {
        uint64_t now = os_clock_ms();
        if (end == 0) end = now + FORK_WAIT_MS;
        if (now >= end) return;
        (void)os_call(SYS_sched_yield);
    }
}
void os_stack_after_fork(void) {
    (void)atomic_and_ordered(&walks, ~FORKING);
}
void os_stack_repair_in_child(void) {
    atomic_set_release(&walks, nested);
}

// What a program sees after the return of a call.
struct position {
    uintptr_t address;
    uintptr_t stack; // stack pointer
    uintptr_t base;  // frame pointer
    int interrupted; // 1: the address is not that behind a call: a signal came there
};

static struct position position_of(struct _Unwind_Context* context) {
    enum { BASE = 6 }; // DWARF's number on x86-64
    struct position position = {.stack = unwinder.stack(context)};
    position.address = unwinder.address(context, &position.interrupted);
    if (HAS_RULES) position.base = unwinder.number(context, BASE);
    return position;
}

struct outer {
    struct position inner; // to be looked for
    struct position found; // the next frame
    bool passed;
    bool is_found;
};
static _Unwind_Reason_Code find_outer(struct _Unwind_Context* context, void* argument) {
    struct outer* outer = argument;
    struct position position = position_of(context);
    if (outer->passed) {
        outer->found = position;
        outer->is_found = position.address != 0;
        return _URC_END_OF_STACK;
    }
    outer->passed =
        position.address == outer->inner.address && position.stack == outer->inner.stack;
    return _URC_NO_REASON;
}

// The return address of a call is below the stack pointer that its caller has after the return: on
// x86-64 by one word; elsewhere it may be anywhere.
static struct os_frame frame_at(const struct position* position) {
    uintptr_t place = HAS_RULES ? position->stack - sizeof(uintptr_t) : 0;
    return (struct os_frame){position->address, place};
}

struct walk {
    struct os_frame* frames;
    unsigned count;
    unsigned most;
};
static _Unwind_Reason_Code add_frame(struct _Unwind_Context* context, void* argument) {
    struct walk* walk = argument;
    struct position position = position_of(context);
    if (position.address == 0) return _URC_END_OF_STACK;
    walk->frames[walk->count++] = frame_at(&position);
    return walk->count == walk->most ? _URC_END_OF_STACK : _URC_NO_REASON;
}

// --- Frames by their tables ----------------------------------------------------------------------

#define PAGE ((uintptr_t)4096) // or a part of one

static bool populates(uintptr_t address) {
    enum { POPULATE_READ = 22 }; // Linux 5.14; older headers lack the name
    return os_call(SYS_madvise, address & ~(PAGE - 1), PAGE, POPULATE_READ) == 0;
}

// True if the byte can be read, or if the system does not state it. `known` can be read.
static bool is_readable(uintptr_t address, uintptr_t known) {
    char byte;
    bool readable = populates(address);
    if (!readable && !populates(known))
        readable = os_read_memory(address, &byte, 1) == 1 || os_read_memory(known, &byte, 1) != 1;
    return readable;
}

// Reads a word of the stack. A stack ends where memory does; what is behind may be inaccessible.
static bool read_word(uintptr_t place, const struct position* known, uintptr_t* word) {
    const uintptr_t last = known->stack - sizeof place; // the return address, which was read
    if (place % sizeof place != 0) return false;
    if (((place ^ last) & ~(PAGE - 1)) != 0 && !is_readable(place, last)) return false;
    *word = *(const uintptr_t*)place;
    return true;
}

static bool outer_by_unwinder(struct position* position) {
    struct outer outer = {.inner = *position};
    if (!unwind(find_outer, &outer)) return false;
    *position = outer.found;
    return outer.is_found;
}

static uintptr_t plus(uintptr_t address, int32_t offset) {
    return address + (uintptr_t)(intptr_t)offset;
}

// Moves on to the caller by the rule. False: there is none, or its frame cannot be read.
static bool outer_by_rule(struct position* position, const struct unwind_rule* rule) {
    uintptr_t frame = plus(position->stack, rule->frame_offset), base = position->base, address;
    if (rule->frame_kind != FRAME_FROM_SP) frame = plus(base, rule->frame_offset);
    if (rule->frame_kind == FRAME_AT_BP && !read_word(frame, position, &frame)) return false;
    // The stack grows downwards. A frame elsewhere is that of another stack, or an error.
    if (frame <= position->stack || frame % sizeof frame != 0) return false;
    if (rule->base_kind == BASE_AT_CFA &&
        !read_word(plus(frame, rule->base_offset), position, &base))
        return false;
    if (rule->base_kind == BASE_AT_BP && !read_word(plus(base, rule->base_offset), position, &base))
        return false;
    if (!read_word(frame - sizeof frame, position, &address)) return false;
    *position = (struct position){.address = address, .stack = frame, .base = base};
    return address != 0;
}

// The frames of a thread from `position` on.
static unsigned walk_tables(struct position position, struct os_frame* frames, unsigned most) {
    unsigned count = 0;
    for (bool more = true; more && count < most;) {
        const uintptr_t behind = position.address + (position.interrupted != 0 ? 1 : 0);
        const struct unwind_rule rule = unwind_rule_find(behind);
        if (rule.frame_kind == FRAME_UNKNOWN &&
            !is_readable(position.address, position.stack - sizeof behind))
            break;
        frames[count++] = frame_at(&position);
        if (rule.frame_kind == FRAME_LAST) break;
        more = rule.frame_kind == FRAME_UNKNOWN ? outer_by_unwinder(&position)
                                                : outer_by_rule(&position, &rule);
    }
    return count;
}

// --- The process ---------------------------------------------------------------------------------

struct os_code os_own_code;

// Only the program's own file has no name here.
static int find_own_code(struct dl_phdr_info* info, size_t bytes, void* argument) {
    const uintptr_t own = (uintptr_t)argument;
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || own - start >= info->dlpi_phdr[i].p_memsz)
            continue;
        if (info->dlpi_name != NULL && info->dlpi_name[0] != '\0')
            os_own_code = (struct os_code){start, info->dlpi_phdr[i].p_memsz};
        return 1;
    }
    return 0;
}

void os_stack_prepare(void) {
    struct os_frame frame;
    struct walk first = {&frame, 0, 1};
    if (atomic_get(&prepared) != 0) return;
    unwind_rules_prepare();
    unwinder_find();
    if (unwinder.complete) (void)unwinder.backtrace(add_frame, &first); // may allocate
    (void)dl_iterate_phdr(find_own_code, (void*)(uintptr_t)&os_stack_prepare);
    atomic_set_release(&prepared, 1);
}

KEEL_NOINLINE unsigned os_stack_walk(struct os_frame* frames, unsigned most) {
    struct walk walk = {frames, 0, most};
    if (most == 0 || atomic_get_acquire(&prepared) == 0) return 0;
    if (HAS_RULES && unwind_rules_exist()) {
        // The caller's frame pointer, the return address, and the caller's stack from there on.
        const uintptr_t* frame = __builtin_frame_address(0);
        struct position caller = {
            .address = frame[1], .stack = (uintptr_t)(frame + 2), .base = frame[0]};
        return walk_tables(caller, frames, most);
    }
    (void)unwind(add_frame, &walk);
    return walk.count;
}
