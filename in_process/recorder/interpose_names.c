// The functions with which jemalloc, mimalloc, TCMalloc and libkeel extend malloc, and those that
// they offer beside the C library's malloc. The program's calls of these functions are redirected
// here (redirect.h), if a library of the program defines them. If the program contains them, or its
// own malloc, they are changed (patch.h), so that also calls within the allocator arrive here.
//
// A table describes each function: what it does, and which of its arguments is what. One function
// interprets the table.
#include "base/attributes.h"
#include "entry.h"
#include "names.h"
#include "next.h"
#include "patch.h"
#include "redirect.h"
#include "sampling.h"
#include <dlfcn.h>
#include <string.h>

// Integers and pointers in the order of the arguments. All of these functions have at most six.
enum { ARGUMENTS = 6 };
typedef uintptr_t (*any_function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

struct call {
    const struct name* name;
    any_function next;
    const uintptr_t* arguments;
    const void* caller;
    struct before before;
};

static uintptr_t next_call(const struct call* call) {
    const uintptr_t* a = call->arguments;
    return call->next(a[0], a[1], a[2], a[3], a[4], a[5]);
}

// An argument by its position from 1; `missing` if the function has no such argument.
static uintptr_t argument(const struct call* call, uint8_t position, uintptr_t missing) {
    return position != 0 ? call->arguments[position - 1] : missing;
}

static size_t requested(const struct call* call) {
    return argument(call, call->name->size, 0) * argument(call, call->name->count, 1);
}

enum { JEMALLOC_ALIGN = 63, JEMALLOC_ZERO = 64 };

static size_t alignment(const struct call* call) {
    uintptr_t flags = argument(call, call->name->flags, 0);
    size_t aligned = (size_t)1 << (flags & JEMALLOC_ALIGN);
    return argument(call, call->name->align, aligned);
}

static void named_record(const struct call* call, uintptr_t block, size_t size) {
    size_t align = alignment(call);
    bool zero = call->name->zero || (argument(call, call->name->flags, 0) & JEMALLOC_ZERO) != 0;
    enum kl_ring_op op = align > 1 ? KL_RING_ALIGNED : zero ? KL_RING_CALLOC : KL_RING_MALLOC;
    if (align > 1) size = size_before_rounding(size, align);
    if (op == KL_RING_MALLOC && call->name->kind == NAME_RESIZE) op = KL_RING_REALLOC_NULL;
    uint64_t word = align > 1 ? size_with_align(size, align) : size;
    allocation_record(op, call->before, (void*)block, size, word, call->caller);
}

static uintptr_t allocate(const struct call* call) {
    uintptr_t result = next_call(call);
    named_record(call, result, requested(call));
    return result;
}

// The size is known only from the result.
static uintptr_t copy_string(const struct call* call) {
    uintptr_t result = next_call(call);
    bool is_new = result != 0 && result != argument(call, call->name->block, 0);
    if (is_new) named_record(call, result, strlen((const char*)result) + 1);
    return result;
}

// Returns an error number, and stores the block.
static uintptr_t store(const struct call* call) {
    uintptr_t result = next_call(call);
    const uintptr_t* block = (const uintptr_t*)argument(call, call->name->block, 0);
    if ((int)result == 0) named_record(call, *block, requested(call));
    return result;
}

// An operator of C++ may end by an exception.
static void deleting_restore(const struct deleting* outer) {
    recorder_thread.deleting = *outer;
}
#define DELETING(address)                                                                          \
    struct deleting outer __attribute__((cleanup(deleting_restore))) = recorder_thread.deleting;   \
    recorder_thread.deleting = (struct deleting) {                                                 \
        (const void*)(address), 0                                                                  \
    }

static uintptr_t release(const struct call* call) {
    uintptr_t block = argument(call, call->name->block, 0);
    bool known = (const void*)block == recorder_thread.deleting.block;
    uint64_t pending = known ? recorder_thread.deleting.hint : 0; // of the C++ library's operator
    if (call->before.on && block != 0 && (!known || pending != 0) && release_counts((void*)block)) {
        uint64_t hint = call->name->size != 0 ? hint_size(requested(call)) : 0;
        if (alignment(call) > 1) hint |= hint_align(alignment(call));
        if (pending != 0) hint = pending;
        uint64_t from = origin(call->caller);
        record(KL_RING_FREE, ticks(), (void*)block, hint, from);
    }
    DELETING(block);
    (void)outer;
    return next_call(call);
}

// Returns the address of the resized block that the result stands for; 0: none.
static uintptr_t resized(const struct call* call, uintptr_t block, uintptr_t result) {
    if (call->name->kind != NAME_EXTEND) return result;
    return result >= requested(call) ? block : 0; // the result is the usable size
}

static uintptr_t resize(const struct call* call) {
    uintptr_t block = argument(call, call->name->block, 0);
    if (block == 0) {
        if (call->name->kind != NAME_RESIZE) return next_call(call);
        uintptr_t result = next_call(call);
        named_record(call, result, requested(call));
        return result;
    }
    bool is_inner = (const void*)block == recorder_thread.deleting.block;
    if (!call->before.on || is_inner) return next_call(call);
    size_t size = requested(call);
    if (!release_counts((void*)block)) {
        uintptr_t result = next_call(call);
        named_record(call, resized(call, block, result), size);
        return result;
    }
    uint64_t from = origin(call->caller);
    record(KL_RING_REALLOC_BEGIN, ticks(), (void*)block, size, from);
    struct before before = before_call();
    DELETING(block);
    (void)outer;
    uintptr_t result = next_call(call);
    uint64_t took = slow_ticks(before);
    uintptr_t moved = resized(call, block, result);
    bool freed = size == 0 || call->name->frees_on_failure;
    realloc_record_end(before, took, (void*)block, (void*)moved, size, freed, from);
    return result;
}

static void block_record(const void* block, const void* caller) {
    if (block == NULL || !release_counts(block)) return;
    uint64_t from = origin(caller);
    record(KL_RING_FREE, ticks(), block, 0, from);
}
static bool keel_visit(const void* area, const void* block, void* caller) {
    (void)area;
    block_record(block, caller);
    return true;
}
static bool mimalloc_visit(const void* heap, const void* area, const void* block, size_t size,
                           void* caller) {
    (void)heap;
    (void)area;
    (void)size;
    block_record(block, caller);
    return true;
}

// Frees all blocks of a heap. Each of them is recorded as freed.
static uintptr_t destroy(const struct call* call) {
    bool is_keel = call->name->visit == NAME_INDEX_kl_heap_visit;
    any_function visit = (any_function)next_names[call->name->visit];
    any_function backing = (any_function)next_names[call->name->backing];
    uintptr_t visitor = is_keel ? (uintptr_t)keel_visit : (uintptr_t)mimalloc_visit;
    uintptr_t heap = call->arguments[0];
    bool is_visited = call->before.on && heap != 0 && visit != NULL && backing != NULL;
    if (is_visited && heap != backing(0, 0, 0, 0, 0, 0))
        visit(heap, true, visitor, (uintptr_t)call->caller, 0, 0);
    return next_call(call);
}

static uintptr_t interpret(const struct call* call) {
    switch (call->name->kind) {
    case NAME_ALLOCATE:
        return allocate(call);
    case NAME_STRING:
        return copy_string(call);
    case NAME_STORE:
        return store(call);
    case NAME_FREE:
        return release(call);
    case NAME_DESTROY:
        return destroy(call);
    default:
        return resize(call);
    }
}

static bool has_patches; // functions of the program are changed

static void inside_leave(const struct inside* outer) {
    recorder_thread.inside = *outer;
}

// Returns true if a function of the allocator has made the call to do its own work. Then only the
// outer call is recorded. An allocation may call others: a handler of operator new, which frees a
// block, and libraries, which throw an exception or start a thread.
static bool is_inner(const struct call* call, enum inside_kind outer) {
    if (outer == INSIDE_NONE || !patches_contain(call->caller)) return false;
    return outer == INSIDE_OTHER || call->name->kind != NAME_FREE;
}

#define NAME(symbol, does, ...) [NAME_INDEX_##symbol] = {.kind = (does), __VA_ARGS__},
static const struct name names[ALL_NAMES_COUNT] = {ALLOCATOR_NAMES(NAME) PROGRAM_NAMES(NAME)};

// `frame`: where the stack of the function that calls it ends.
static __attribute__((noinline)) uintptr_t redirected(size_t index, const uintptr_t* arguments,
                                                      const void* caller, const void* frame) {
    struct call call = {.name = &names[index], .arguments = arguments, .caller = caller};
    struct inside outer __attribute__((cleanup(inside_leave))) = {INSIDE_NONE, NULL};
    if (inside_of(frame) != INSIDE_NONE) outer = recorder_thread.inside;
    bool allocates = call.name->kind == NAME_ALLOCATE || call.name->kind == NAME_STORE;
    call.next = (any_function)next_names[index];
    if (is_inner(&call, outer.kind)) return next_call(&call);
    if (has_patches)
        recorder_thread.inside =
            (struct inside){allocates ? INSIDE_ALLOCATION : INSIDE_OTHER, frame};
    call.before = before_call();
    return interpret(&call);
}

// A call that records nothing, or one or two events into free slots. If the program's function
// calls others, and these use the slots, no register was expected to be unchanged.
static bool is_simple(size_t index, const struct entry_registers* registers) {
    enum { SLOTS = 64 };
    const struct thread* thread = &recorder_thread;
    const struct call call = {.name = &names[index], .arguments = registers->arguments};
    const uint32_t number = atomic_get(&session.number);
    const uint32_t state = session_state();
    if (call.name->kind == NAME_STRING || call.name->kind == NAME_DESTROY) return false;
    if (state != SESSION_ON) return state == SESSION_OFF;
    if (session.sample_bytes == 0)
        return thread->recording == number && thread->head + SLOTS < thread->limit &&
               session.stacks == 0;
    if (call.name->kind == NAME_FREE)
        return !sampled_maybe((const void*)argument(&call, call.name->block, 0));
    return call.name->kind == NAME_ALLOCATE && thread->sampling == (uint64_t)number + 1 &&
           thread->countdown > requested(&call);
}

// From a changed function.
static uintptr_t patched(size_t index, const struct entry_registers* registers,
                         const void* caller) {
    uint8_t kind = names[index].kind;
    const void* frame = registers + 1;
    uintptr_t result = redirected(index, registers->arguments, caller, frame);
    return kind == NAME_FREE || kind == NAME_DESTROY ? registers->result : result;
}

#define REDIRECTED(symbol, ...)                                                                    \
    static uintptr_t redirected_##symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,       \
                                         uintptr_t e, uintptr_t f) {                               \
        uintptr_t arguments[ARGUMENTS] = {a, b, c, d, e, f};                                       \
        return redirected(NAME_INDEX_##symbol, arguments, __builtin_return_address(0),             \
                          __builtin_frame_address(0));                                             \
    }
ALLOCATOR_NAMES(REDIRECTED)

// What the program calls by a name of malloc's family is its own function, if it exports one.
static void inner_find(void) {
    const char* name = kl_record_names;
    for (uint32_t i = 0; i < PROGRAM_NAMES_END; i++, name += strlen(name) + 1) {
        uintptr_t function = i > NAME_COUNT ? patches_function(i) : 0;
        next_is_inner[i] = function != 0 && (uintptr_t)dlsym(RTLD_DEFAULT, name) == function;
    }
}

static void patches_load(void) {
    // Its mappings are not the program's.
    recorder_thread.inside = (struct inside){INSIDE_OTHER, __builtin_frame_address(0)};
    uint32_t state = patches_apply(entry_prepare(patched, is_simple), next_names);
    recorder_thread.inside = (struct inside){INSIDE_NONE, NULL};
    if (state == KL_PATCHES_NONE) return;
    has_patches = true;
    inner_find();
    if (!session_enter()) return;
    atomic_set_release(&session.spool->patched, state);
    session_leave();
}

#define REDIRECT(symbol, ...) {#symbol, (uintptr_t)redirected_##symbol},

// Before the other constructors, one of which calls pthread_atfork, which may allocate.
enum { FIRST_CONSTRUCTOR = 101 };
__attribute__((constructor(FIRST_CONSTRUCTOR))) static void names_load(void) {
    if (!recording()) return;
    if (session.control->patches != 0) patches_load();
    if (!next_has_names) return;
    struct redirect redirects[] = {ALLOCATOR_NAMES(REDIRECT)};
    for (uint32_t i = 0; i < NAME_COUNT; i++)
        if (next_names[i] == 0 || patches_function(i) != 0) redirects[i].ours = 0;
    redirect_apply(redirects, NAME_COUNT);
}
