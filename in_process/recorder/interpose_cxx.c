/* C++ operator new and delete, all forms.
 *
 * libstdc++'s operators call malloc and free by name, so they come by us anyway: those are
 * forwarded and not recorded here. An allocator that brings operators of its own (the next malloc
 * and the next operator lie in one object) calls its inside directly: there the operator is the
 * operation. Should such an allocator call malloc by name after all, the birth is found among the
 * thread's last events, and the inner free knows the block that is being deleted.
 *
 * libstdc++ throws away what a delete tells of its block beside the address: so the operator leaves it
 * for the free that the call ends in. It is not recorded here, because the call may end elsewhere, in
 * an operator of the program's with blocks of its own. */
#include <stdint.h>
#include <unistd.h>

#include "next.h"
#include "thread.h"

#define EXPORT __attribute__((visibility("default")))

struct form {
    const char* name;
    void* function;     /* the next definition; NULL: not looked up yet */
    bool own_allocator; /* it does not come by our malloc and free */
};

static const char* const cxx_libraries[] = {"libstdc++.so.6", "libc++.so.1", "libc++abi.so.1",
                                            NULL};

/* A C++ program without any C++ library cannot be; but if the name cannot be found, malloc's
 * meaning is the best left. */
static void* plain_new(size_t size) {
    recording();
    void* block = next.malloc(size != 0 ? size : 1);
    static const char sentence[] =
        "keel recorder: no operator new behind the recorder, and no memory left\n";
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
    void* function = __atomic_load_n(&form->function, __ATOMIC_ACQUIRE);
    if (LIKELY(function != NULL)) return function;
    recording();
    function = next_find(form->name, cxx_libraries);
    form->own_allocator = function == NULL || next_is_allocator(function);
    if (function == NULL) function = fallback;
    __atomic_store_n(&form->function, function, __ATOMIC_RELEASE);
    return function;
}

static void birth_record(uint64_t index, void* block, size_t size, size_t align) {
    if (block == NULL || !recording() || thread_told_birth(index, block)) return;
    uint64_t from = origin(NULL); /* the operator has put its caller in place */
    if (align == 0) {
        record(KL_RING_MALLOC, ticks(), block, size, from);
    } else {
        record(KL_RING_ALIGNED, ticks(), block, size_with_align(size, align), from);
    }
}

/* While an operator runs, what it allocates is charged to its caller. Undone on the way out, by an
 * exception too. */
static inline const void* caller_enter(const void* caller) {
    const void* outer = recorder_thread.caller;
    if (outer == NULL) recorder_thread.caller = caller;
    return outer;
}
static inline void caller_leave(const void** outer) {
    recorder_thread.caller = *outer;
}
#define CHARGE_CALLER                                                                              \
    const void* outer_caller __attribute__((cleanup(caller_leave))) =                              \
        caller_enter(__builtin_return_address(0))

/* While an aligned operator of the C++ library runs, the size that the program asked for. */
static inline size_t new_size_enter(size_t size) {
    size_t outer = recorder_thread.new_size;
    recorder_thread.new_size = size != 0 ? size : 1;
    return outer;
}
static inline void new_size_leave(const size_t* outer) {
    recorder_thread.new_size = *outer;
}
#define KEEP_NOTHING
#define KEEP_SIZE                                                                                  \
    size_t outer_size __attribute__((cleanup(new_size_leave))) = new_size_enter(size);             \
    (void)outer_size;

#define FUNCTION(type, pointer) (*(type*)&(pointer))

/* new: `parameters` and `arguments` are those of this form. */
#define OPERATOR_NEW(symbol, parameters, arguments, align, fallback, keep)                         \
    EXPORT void* symbol parameters;                                                                \
    void* symbol parameters {                                                                      \
        static struct form form = {.name = #symbol};                                               \
        typedef void*(*form_function)parameters;                                                   \
        void* found = form_find(&form, (void*)fallback);                                           \
        CHARGE_CALLER;                                                                             \
        (void)outer_caller;                                                                        \
        if (!form.own_allocator) {                                                                 \
            keep return FUNCTION(form_function, found) arguments;                                  \
        }                                                                                          \
        uint64_t before = recorder_thread.head;                                                    \
        void* block = FUNCTION(form_function, found) arguments;                                    \
        birth_record(before, block, size, align);                                                  \
        return block;                                                                              \
    }

/* Before a delete of `block`, which tells `told` of it: records that, or leaves it to the free that the
 * call ends in. True: recorder_thread.deleting was changed. */
static inline bool delete_begin(const struct form* form, const void* block, uint64_t told) {
    if (!form->own_allocator && told == 0) return false;
    if (block == NULL || !recording()) return false;
    struct deleting* deleting = &recorder_thread.deleting;
    bool known = block == deleting->block;
    if (!form->own_allocator) {
        if (known) return false;
        *deleting = (struct deleting){block, told};
        return true;
    }
    if (!known || deleting->told != 0) {
        uint64_t from = origin(NULL);
        record(KL_RING_FREE, ticks_of_free(), block, known ? deleting->told : told, from);
    }
    *deleting = (struct deleting){block, 0};
    return true;
}

/* Of a size of 0 the C++ library asks and frees one byte. */
#define TOLD_SIZE told_size(form.own_allocator || size != 0 ? size : 1)

/* delete: `told` is what this form tells beside the address; 0: nothing. */
#define OPERATOR_DELETE(symbol, parameters, arguments, told)                                       \
    EXPORT void symbol parameters;                                                                 \
    void symbol parameters {                                                                       \
        static struct form form = {.name = #symbol};                                               \
        typedef void(*form_function) parameters;                                                   \
        void* found = form_find(&form, (void*)plain_delete);                                       \
        CHARGE_CALLER;                                                                             \
        (void)outer_caller;                                                                        \
        struct deleting outer = recorder_thread.deleting;                                          \
        bool changed = delete_begin(&form, block, told);                                           \
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
OPERATOR_DELETE(_ZdlPvm, (void* block, size_t size), (block, size), TOLD_SIZE)
OPERATOR_DELETE(_ZdaPvm, (void* block, size_t size), (block, size), TOLD_SIZE)
OPERATOR_DELETE(_ZdlPvRKSt9nothrow_t, (void* block, nothrow tag), (block, tag), 0)
OPERATOR_DELETE(_ZdaPvRKSt9nothrow_t, (void* block, nothrow tag), (block, tag), 0)
OPERATOR_DELETE(_ZdlPvSt11align_val_t, (void* block, size_t align), (block, align),
                told_align(align))
OPERATOR_DELETE(_ZdaPvSt11align_val_t, (void* block, size_t align), (block, align),
                told_align(align))
OPERATOR_DELETE(_ZdlPvmSt11align_val_t, (void* block, size_t size, size_t align),
                (block, size, align), TOLD_SIZE | told_align(align))
OPERATOR_DELETE(_ZdaPvmSt11align_val_t, (void* block, size_t size, size_t align),
                (block, size, align), TOLD_SIZE | told_align(align))
OPERATOR_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void* block, size_t align, nothrow tag),
                (block, align, tag), told_align(align))
OPERATOR_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void* block, size_t align, nothrow tag),
                (block, align, tag), told_align(align))
