// The C++ operators new and delete. They are written in C under their mangled names, so that
// libkeel does not have to be linked with a C++ library.
//
// Only that library can throw bad_alloc and return the new_handler. This file refers to these
// functions by weak symbols, which are defined in a C++ program. The names are those of the Itanium
// ABI for a size_t that is `unsigned long`.
#include "allocator/api/entry.h"
#include "allocator/override/winner.h"
#include "base/bits.h"
#include "base/panic.h"
#include "os/process.h"

#if __SIZEOF_SIZE_T__ == __SIZEOF_LONG__
#define SIZE_CODE "m"
#else
#define SIZE_CODE "j"
#endif

typedef void (*new_handler)(void);
extern new_handler std_get_new_handler(void) __asm__("_ZSt15get_new_handlerv")
    __attribute__((weak));
extern KEEL_NORETURN void std_throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv")
    __attribute__((weak));

static KEEL_COLD KEEL_NORETURN void throw_bad_alloc(void) {
    if (std_throw_bad_alloc != NULL) std_throw_bad_alloc();
    static const char text[] =
        "keel: operator new: no memory, and no C++ library to throw std::bad_alloc\n";
    os_abort(text, sizeof text - 1);
    __builtin_trap();
}

// The blocks of the program's malloc, if that is not Keel's: another C++ library in the process may
// free them with it. A thread's heap has no free blocks then, so only this slow path needs to ask.
static KEEL_NOINLINE void* slow_new(size_t size, unsigned partition) {
    const struct winner* other = winner_not_keel();
    return other != NULL ? other->malloc(size) : entry_malloc_in(size, partition);
}
KEEL_INLINE void* new_block(size_t size, unsigned partition) {
    void* block = NULL;
    if (!KEEL_DEBUG) block = KEEL_SECURE ? alloc_hit_in(size, partition) : alloc_hit(size);
    return KEEL_LIKELY(block != NULL) ? block : slow_new(size, partition);
}
static void* new_aligned(size_t size, size_t alignment, unsigned partition) {
    if (KEEL_UNLIKELY(winner_not_keel() != NULL)) return winner_aligned(alignment, size);
    return entry_aligned_in(size, alignment, partition);
}

// Calls the new_handler and tries again, until the allocation succeeds or there is no handler. The
// handler must free memory, throw, or end the process (C++17 [new.delete.single]). This contract of
// the handler ends the loop.
static KEEL_COLD void* new_retry(size_t size, size_t alignment, unsigned partition) {
    for (;;) {
        new_handler handler = std_get_new_handler != NULL ? std_get_new_handler() : NULL;
        if (handler == NULL) return NULL;
        handler();
        void* block =
            alignment == 0 ? new_block(size, partition) : new_aligned(size, alignment, partition);
        if (block != NULL) return block;
    }
}

KEEL_INLINE void* new_or_throw(size_t size, unsigned partition) {
    void* block = new_block(size, partition);
    if (KEEL_LIKELY(block != NULL)) return block;
    block = new_retry(size, 0, partition);
    if (block == NULL) throw_bad_alloc();
    return block;
}

static void* new_aligned_or_throw(size_t size, size_t alignment, unsigned partition) {
    void* block = NULL;
    if (is_power_of_two(alignment)) {
        block = new_aligned(size, alignment, partition);
        if (block == NULL) block = new_retry(size, alignment, partition);
    }
    if (block == NULL) throw_bad_alloc();
    return block;
}

// The nothrow forms must also call the handler, and return NULL if it throws. C cannot catch an
// exception. Therefore the C++ library's own nothrow form, if it is loaded, does this: it calls
// Keel's throwing form inside a try block. There is no such form in a static program, nor where
// only libraries loaded later use C++: Keel could not throw for it. There a handler that throws
// ends the program, like an exception that leaves a noexcept function.
static KEEL_COLD void* new_nothrow_retry(size_t size) {
    static void* (*library_new)(size_t, const void*);
    if (library_new == NULL && std_throw_bad_alloc != NULL)
        *(void**)&library_new = os_next_symbol("_Znw" SIZE_CODE "RKSt9nothrow_t");
    return library_new != NULL ? library_new(size, &library_new) : new_retry(size, 0, 0);
}

KEEL_INLINE void* new_or_null(size_t size, unsigned partition) {
    void* block = new_block(size, partition);
    if (KEEL_LIKELY(block != NULL)) return block;
    block = new_nothrow_retry(size);
    if (!KEEL_SECURE || partition == 0 || block == NULL) return block;
    entry_free(block); // it is in partition 0
    return entry_malloc_in(size, partition);
}

static KEEL_COLD void* new_aligned_nothrow_retry(size_t size, size_t alignment) {
    static void* (*library_new)(size_t, size_t, const void*);
    if (!is_power_of_two(alignment)) return NULL;
    if (library_new == NULL && std_throw_bad_alloc != NULL) {
        *(void**)&library_new = os_next_symbol("_Znw" SIZE_CODE "St11align_val_tRKSt9nothrow_t");
    }
    return library_new != NULL ? library_new(size, alignment, &library_new)
                               : new_retry(size, alignment, 0);
}

static void* new_aligned_nothrow(size_t size, size_t alignment, unsigned partition) {
    void* block = is_power_of_two(alignment) ? new_aligned(size, alignment, partition) : NULL;
    if (KEEL_LIKELY(block != NULL)) return block;
    block = new_aligned_nothrow_retry(size, alignment);
    if (!KEEL_SECURE || partition == 0 || block == NULL) return block;
    entry_free(block); // it is in partition 0
    return entry_aligned_in(size, alignment, partition);
}

KEEL_INLINE void* of_kind(enum block_kind kind, void* block) {
    if (KEEL_DEBUG) debug_set_kind(block, kind);
    return block;
}

// The operators are weak symbols, because a program may define its own. Those take precedence, also
// if the program links keel.o or libkeel.a, which is one object.
#define OPERATOR(result, name, mangled, ...)                                                       \
    __attribute__((weak)) result name(__VA_ARGS__) __asm__(mangled);                               \
    KEEL_EXPORT result name(__VA_ARGS__)

OPERATOR(void*, operator_new, "_Znw" SIZE_CODE, size_t size) {
    return of_kind(BLOCK_NEW, new_or_throw(size, 0));
}
OPERATOR(void*, operator_new_array, "_Zna" SIZE_CODE, size_t size) {
    return of_kind(BLOCK_NEW_ARRAY, new_or_throw(size, 0));
}
OPERATOR(void*, operator_new_nothrow, "_Znw" SIZE_CODE "RKSt9nothrow_t", size_t size,
         const void* tag) {
    (void)tag;
    return of_kind(BLOCK_NEW, new_or_null(size, 0));
}
OPERATOR(void*, operator_new_array_nothrow, "_Zna" SIZE_CODE "RKSt9nothrow_t", size_t size,
         const void* tag) {
    (void)tag;
    return of_kind(BLOCK_NEW_ARRAY, new_or_null(size, 0));
}
OPERATOR(void*, operator_new_aligned, "_Znw" SIZE_CODE "St11align_val_t", size_t size,
         size_t alignment) {
    return of_kind(BLOCK_NEW_ALIGNED, new_aligned_or_throw(size, alignment, 0));
}
OPERATOR(void*, operator_new_array_aligned, "_Zna" SIZE_CODE "St11align_val_t", size_t size,
         size_t alignment) {
    return of_kind(BLOCK_NEW_ARRAY_ALIGNED, new_aligned_or_throw(size, alignment, 0));
}
OPERATOR(void*, operator_new_aligned_nothrow, "_Znw" SIZE_CODE "St11align_val_tRKSt9nothrow_t",
         size_t size, size_t alignment, const void* tag) {
    (void)tag;
    return of_kind(BLOCK_NEW_ALIGNED, new_aligned_nothrow(size, alignment, 0));
}
OPERATOR(void*, operator_new_array_aligned_nothrow,
         "_Zna" SIZE_CODE "St11align_val_tRKSt9nothrow_t", size_t size, size_t alignment,
         const void* tag) {
    (void)tag;
    return of_kind(BLOCK_NEW_ARRAY_ALIGNED, new_aligned_nothrow(size, alignment, 0));
}

// All forms of delete find the block's size themselves. Only the secure and the debug flavour use
// the size that the caller passes, and verify it. The debug flavour verifies the kind, too.
#define OPERATOR_DELETE(name, kind, mangled, ...)                                                  \
    OPERATOR(void, name, mangled, void* block __VA_ARGS__) {                                       \
        entry_free_kind(block, kind);                                                              \
    }
#define OPERATOR_DELETE_SIZED(name, kind, mangled, asked_alignment, ...)                           \
    OPERATOR(void, name, mangled, void* block, size_t size __VA_ARGS__) {                          \
        entry_free_sized_kind(block, size, asked_alignment, true, kind);                           \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"
OPERATOR_DELETE(operator_delete, BLOCK_NEW, "_ZdlPv")
OPERATOR_DELETE(operator_delete_array, BLOCK_NEW_ARRAY, "_ZdaPv")
OPERATOR_DELETE_SIZED(operator_delete_sized, BLOCK_NEW, "_ZdlPv" SIZE_CODE, 1)
OPERATOR_DELETE_SIZED(operator_delete_array_sized, BLOCK_NEW_ARRAY, "_ZdaPv" SIZE_CODE, 1)
OPERATOR_DELETE(operator_delete_nothrow, BLOCK_NEW, "_ZdlPvRKSt9nothrow_t", , const void* tag)
OPERATOR_DELETE(operator_delete_array_nothrow, BLOCK_NEW_ARRAY, "_ZdaPvRKSt9nothrow_t", ,
                const void* tag)
OPERATOR_DELETE(operator_delete_aligned, BLOCK_NEW_ALIGNED, "_ZdlPvSt11align_val_t", ,
                size_t alignment)
OPERATOR_DELETE(operator_delete_array_aligned, BLOCK_NEW_ARRAY_ALIGNED, "_ZdaPvSt11align_val_t", ,
                size_t alignment)
OPERATOR_DELETE_SIZED(operator_delete_sized_aligned, BLOCK_NEW_ALIGNED,
                      "_ZdlPv" SIZE_CODE "St11align_val_t", alignment, , size_t alignment)
OPERATOR_DELETE_SIZED(operator_delete_array_sized_aligned, BLOCK_NEW_ARRAY_ALIGNED,
                      "_ZdaPv" SIZE_CODE "St11align_val_t", alignment, , size_t alignment)
OPERATOR_DELETE(operator_delete_aligned_nothrow, BLOCK_NEW_ALIGNED,
                "_ZdlPvSt11align_val_tRKSt9nothrow_t", , size_t alignment, const void* tag)
OPERATOR_DELETE(operator_delete_array_aligned_nothrow, BLOCK_NEW_ARRAY_ALIGNED,
                "_ZdaPvSt11align_val_tRKSt9nothrow_t", , size_t alignment, const void* tag)

// --- Tokens of the compiler (alloc_token.c) ------------------------------------------------------

#define TOKEN_OPERATOR(name, call, kind, ...)                                                      \
    void* name(__VA_ARGS__);                                                                       \
    KEEL_EXPORT void* name(__VA_ARGS__) {                                                          \
        return of_kind(kind, call);                                                                \
    }
// The operators of one form, `w` or `a`. What follows the partition ends each list of parameters.
#define TOKEN_OPERATORS_OF(prefix, form, kind, aligned_kind, partition, ...)                       \
    TOKEN_OPERATOR(prefix##form, new_or_throw(size, partition), kind, size_t size __VA_ARGS__)     \
    TOKEN_OPERATOR(prefix##form##RKSt9nothrow_t, new_or_null(size, partition), kind, size_t size,  \
                   const void* tag __VA_ARGS__)                                                    \
    TOKEN_OPERATOR(prefix##form##St11align_val_t,                                                  \
                   new_aligned_or_throw(size, alignment, partition), aligned_kind, size_t size,    \
                   size_t alignment __VA_ARGS__)                                                   \
    TOKEN_OPERATOR(prefix##form##St11align_val_tRKSt9nothrow_t,                                    \
                   new_aligned_nothrow(size, alignment, partition), aligned_kind, size_t size,     \
                   size_t alignment, const void* tag __VA_ARGS__)
#if __SIZEOF_SIZE_T__ == __SIZEOF_LONG__
#define TOKEN_OPERATORS(prefix, ...)                                                               \
    TOKEN_OPERATORS_OF(prefix, _Znwm, BLOCK_NEW, BLOCK_NEW_ALIGNED, __VA_ARGS__)                   \
    TOKEN_OPERATORS_OF(prefix, _Znam, BLOCK_NEW_ARRAY, BLOCK_NEW_ARRAY_ALIGNED, __VA_ARGS__)
#else
#define TOKEN_OPERATORS(prefix, ...)                                                               \
    TOKEN_OPERATORS_OF(prefix, _Znwj, BLOCK_NEW, BLOCK_NEW_ALIGNED, __VA_ARGS__)                   \
    TOKEN_OPERATORS_OF(prefix, _Znaj, BLOCK_NEW_ARRAY, BLOCK_NEW_ARRAY_ALIGNED, __VA_ARGS__)
#endif

TOKEN_OPERATORS(__alloc_token_, entry_partition_of(token), , size_t token)
TOKEN_OPERATORS(__alloc_token_0_, 0, )
TOKEN_OPERATORS(__alloc_token_1_, 1, )
TOKEN_OPERATORS(__alloc_token_2_, 2, )
TOKEN_OPERATORS(__alloc_token_3_, 3, )
