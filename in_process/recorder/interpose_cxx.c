// C++ operator new and delete, all forms.
//
// libstdc++'s operators call malloc and free by name, and the recorder records those calls.
// Therefore these operators are forwarded and not recorded here. An allocator with its own
// operators (the next malloc and the next operator are in one object) calls its internal functions
// directly. Its operators are recorded here. If such an allocator calls malloc by name, the
// operator finds this allocation among the thread's last events and does not record it again. If it
// calls free by name, the free finds the block in recorder_thread.deleting.
//
// libstdc++ discards the hint of a delete. Therefore the operator stores the hint in
// recorder_thread.deleting for the free at the end of the call. The operator itself records
// nothing, because the call may end in an operator of the program that manages its own blocks.
#include "base/atomic.h"
#include "base/attributes.h"
#include "next.h"
#include "sampling.h"
#include <stdint.h>
#include <unistd.h>

struct form {
    const char* name;
    atomic_word function; // the next definition; 0: not looked up yet
    bool own_allocator;   // the definition does not call malloc and free by name
};

static const char* const cxx_libraries[] = {"libstdc++.so.6", "libc++.so.1", "libc++abi.so.1",
                                            NULL};

// Fallbacks if no next definition is found. This does not happen in a C++ program.
static void* plain_new(size_t size) {
    recording();
    void* block = next.malloc(size != 0 ? size : 1);
    static const char sentence[] =
        "keel recorder: out of memory, and the program has no other operator new\n";
    if (block == NULL) {
        ssize_t ignored = write(2, sentence, sizeof sentence - 1);
        (void)ignored;
        __builtin_trap();
    }
    return block;
}
static void* plain_new_aligned(size_t size, size_t align) {
    return next.memalign(align, size);
}
static void plain_delete(void* block) {
    next.free(block);
}

static void* form_find(struct form* form, void* fallback) {
    void* function = (void*)atomic_get_acquire(&form->function);
    if (KEEL_LIKELY(function != NULL)) return function;
    // A library in front that replaces dl_iterate_phdr may use an operator during the search.
    static _Thread_local bool searches;
    if (searches) return fallback;
    recording();
    searches = true;
    function = next_find(form->name, cxx_libraries);
    searches = false;
    form->own_allocator = function == NULL || next_is_allocator(function);
    if (function == NULL) function = fallback;
    atomic_set_release(&form->function, (uintptr_t)function);
    return function;
}

static void operator_record(struct before before, void* block, size_t size, size_t align) {
    bool is_aligned = align != 0;
    enum kl_ring_op op = is_aligned ? KL_RING_ALIGNED : KL_RING_MALLOC;
    uint64_t word = is_aligned ? size_with_align(size, align) : size;
    allocation_record(op, before, block, size, word, NULL); // recorder_thread.caller is the caller
}

// While an operator runs, its caller is the origin of its allocations. This ends when the operator
// returns or throws.
KEEL_INLINE const void* caller_enter(const void* caller) {
    const void* outer = recorder_thread.caller;
    if (outer == NULL) recorder_thread.caller = caller;
    return outer;
}
KEEL_INLINE void caller_leave(const void** outer) {
    recorder_thread.caller = *outer;
}
#define CHARGE_CALLER                                                                              \
    const void* outer_caller __attribute__((cleanup(caller_leave))) =                              \
        caller_enter(__builtin_return_address(0))

// While an aligned operator of the C++ library runs, recorder_thread.new_size is the size that the
// program requested.
KEEL_INLINE size_t new_size_enter(size_t size) {
    size_t outer = recorder_thread.new_size;
    recorder_thread.new_size = size != 0 ? size : 1;
    return outer;
}
KEEL_INLINE void new_size_leave(const size_t* outer) {
    recorder_thread.new_size = *outer;
}
#define KEEP_NOTHING
#define KEEP_SIZE                                                                                  \
    size_t outer_size __attribute__((cleanup(new_size_leave))) = new_size_enter(size);             \
    (void)outer_size;

#define FUNCTION(type, pointer) (*(type*)&(pointer))

// new: `parameters` and `arguments` are those of this form.
#define OPERATOR_NEW(symbol, parameters, arguments, align, fallback, keep)                         \
    KEEL_EXPORT void* symbol parameters;                                                           \
    void* symbol parameters {                                                                      \
        static struct form form = {.name = #symbol};                                               \
        typedef void*(*form_function)parameters;                                                   \
        void* found = form_find(&form, (void*)fallback);                                           \
        CHARGE_CALLER;                                                                             \
        (void)outer_caller;                                                                        \
        if (!form.own_allocator) {                                                                 \
            keep return FUNCTION(form_function, found) arguments;                                  \
        }                                                                                          \
        struct before before = before_call();                                                      \
        void* block = FUNCTION(form_function, found) arguments;                                    \
        operator_record(before, block, size, align);                                               \
        return block;                                                                              \
    }

// Called before a delete of `block` with `hint`. Records the delete, or lets the free at the end of
// the call record it. True: recorder_thread.deleting was changed.
KEEL_INLINE bool delete_begin(const struct form* form, const void* block, uint64_t hint) {
    if ((!form->own_allocator && hint == 0) || !sampled_maybe(block)) return false;
    if (block == NULL || !recording()) return false;
    struct deleting* deleting = &recorder_thread.deleting;
    bool known = block == deleting->block;
    if (!form->own_allocator) {
        if (known) return false;
        *deleting = (struct deleting){block, hint};
        return true;
    }
    if ((!known || deleting->hint != 0) && release_counts(block)) {
        uint64_t from = origin(NULL);
        record(KL_RING_FREE, ticks(), block, known ? deleting->hint : hint, from);
    }
    *deleting = (struct deleting){block, 0};
    return true;
}

// For a size of 0 the C++ library requests and frees one byte.
#define HINT_SIZE hint_size(form.own_allocator || size != 0 ? size : 1)

// delete: `hint` is the hint of this form; 0: none.
#define OPERATOR_DELETE(symbol, parameters, arguments, hint)                                       \
    KEEL_EXPORT void symbol parameters;                                                            \
    void symbol parameters {                                                                       \
        static struct form form = {.name = #symbol};                                               \
        typedef void(*form_function) parameters;                                                   \
        void* found = form_find(&form, (void*)plain_delete);                                       \
        CHARGE_CALLER;                                                                             \
        (void)outer_caller;                                                                        \
        struct deleting outer = recorder_thread.deleting;                                          \
        bool changed = delete_begin(&form, block, hint);                                           \
        FUNCTION(form_function, found) arguments;                                                  \
        if (changed) recorder_thread.deleting = outer;                                             \
    }

typedef const void* nothrow;

OPERATOR_NEW(_Znwm, (size_t size), (size), 0, plain_new, KEEP_NOTHING)
OPERATOR_NEW(_Znam, (size_t size), (size), 0, plain_new, KEEP_NOTHING)
OPERATOR_NEW(_ZnwmRKSt9nothrow_t, (size_t size, nothrow tag), (size, tag), 0, plain_new,
             KEEP_NOTHING)
OPERATOR_NEW(_ZnamRKSt9nothrow_t, (size_t size, nothrow tag), (size, tag), 0, plain_new,
             KEEP_NOTHING)
OPERATOR_NEW(_ZnwmSt11align_val_t, (size_t size, size_t align), (size, align), align,
             plain_new_aligned, KEEP_SIZE)
OPERATOR_NEW(_ZnamSt11align_val_t, (size_t size, size_t align), (size, align), align,
             plain_new_aligned, KEEP_SIZE)
OPERATOR_NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t align, nothrow tag),
             (size, align, tag), align, plain_new_aligned, KEEP_SIZE)
OPERATOR_NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t align, nothrow tag),
             (size, align, tag), align, plain_new_aligned, KEEP_SIZE)

OPERATOR_DELETE(_ZdlPv, (void* block), (block), 0)
OPERATOR_DELETE(_ZdaPv, (void* block), (block), 0)
OPERATOR_DELETE(_ZdlPvm, (void* block, size_t size), (block, size), HINT_SIZE)
OPERATOR_DELETE(_ZdaPvm, (void* block, size_t size), (block, size), HINT_SIZE)
OPERATOR_DELETE(_ZdlPvRKSt9nothrow_t, (void* block, nothrow tag), (block, tag), 0)
OPERATOR_DELETE(_ZdaPvRKSt9nothrow_t, (void* block, nothrow tag), (block, tag), 0)
OPERATOR_DELETE(_ZdlPvSt11align_val_t, (void* block, size_t align), (block, align),
                hint_align(align))
OPERATOR_DELETE(_ZdaPvSt11align_val_t, (void* block, size_t align), (block, align),
                hint_align(align))
OPERATOR_DELETE(_ZdlPvmSt11align_val_t, (void* block, size_t size, size_t align),
                (block, size, align), HINT_SIZE | hint_align(align))
OPERATOR_DELETE(_ZdaPvmSt11align_val_t, (void* block, size_t size, size_t align),
                (block, size, align), HINT_SIZE | hint_align(align))
OPERATOR_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void* block, size_t align, nothrow tag),
                (block, align, tag), hint_align(align))
OPERATOR_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void* block, size_t align, nothrow tag),
                (block, align, tag), hint_align(align))
