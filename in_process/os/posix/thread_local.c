// Thread-local variables without malloc, for systems whose own ones are allocated by malloc when a
// thread first uses them: malloc would call itself. Those are macOS, and Android before its version
// 10. There the compiler gets -femulated-tls: it calls the function of this file for the address of
// a variable. The function of the compiler's own library has the same name, and calls malloc.
//
// Each thread has one mapping of its own:
//
//   key of pthreads -> | places[VARIABLES] | values, in the order in which the thread used them |
//
// It needs pthread_getspecific, and pthread_setspecific for one of the first keys of the process,
// not to allocate. So it is on macOS, in bionic, glibc and musl; not on OpenBSD.
#include "base/atomic.h"
#include "base/bits.h"
#include "os/process.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#if !defined(MAP_ANONYMOUS)
#define MAP_ANONYMOUS MAP_ANON
#endif

enum { VARIABLES = 64, BLOCK_BYTES = 16384 };

// As the compiler lays it out; `number` is 0 at first.
struct variable {
    size_t bytes;
    size_t alignment;
    atomic_word number;
    const void* value; // at first; NULL: zero
};

struct block {
    void* places[VARIABLES]; // NULL: the thread has not used that variable
    size_t used;             // bytes of the block
    unsigned rounds;         // of destructors that it has outlived
};

static pthread_key_t key;
static atomic_state key_made; // 0 no, 1 a thread makes it, 2 yes
static atomic_word last_number;

void* __emutls_get_address(struct variable* variable);

static KEEL_COLD KEEL_NORETURN void fail(void) {
    static const char text[] = "keel: no memory for the variables of a thread\n";
    os_abort(text, sizeof text - 1);
    __builtin_trap();
}

// Destructors of other keys may still allocate: the block stays until the last round. What they use
// in that round stays mapped after the thread.
static void on_thread_exit(void* ended) {
    struct block* block = ended;
    if (++block->rounds < PTHREAD_DESTRUCTOR_ITERATIONS && pthread_setspecific(key, block) == 0)
        return;
    int saved = errno;
    (void)munmap(block, BLOCK_BYTES);
    errno = saved;
}

static void make_key(void) {
    uint32_t expected = 0;
    if (atomic_try_state(&key_made, &expected, 1)) {
        if (pthread_key_create(&key, on_thread_exit) != 0) fail();
        atomic_set_release(&key_made, 2);
    }
    while (atomic_get_acquire(&key_made) != 2) (void)sched_yield();
}

// A thread that has seen a number other than 0 may use the key.
static KEEL_COLD uintptr_t number_of(struct variable* variable) {
    make_key();
    uintptr_t number = atomic_add(&last_number, 1) + 1, before = 0;
    if (!atomic_try_word(&variable->number, &before, number)) number = before;
    if (number >= VARIABLES) fail();
    return number;
}

static KEEL_COLD struct block* block_new(void) {
    int saved = errno;
    struct block* block =
        mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    if (block == MAP_FAILED) fail();
    block->used = sizeof *block;
    if (pthread_setspecific(key, block) != 0) fail();
    return block;
}

static KEEL_COLD void* place_new(struct block* block, const struct variable* variable,
                                 uintptr_t number) {
    size_t at = round_up(block->used, variable->alignment);
    if (at > BLOCK_BYTES || variable->bytes > BLOCK_BYTES - at) fail();
    block->used = at + variable->bytes;
    void* place = (char*)block + at;
    if (variable->value != NULL) memcpy(place, variable->value, variable->bytes);
    block->places[number] = place;
    return place;
}

void* __emutls_get_address(struct variable* variable) {
    uintptr_t number = atomic_get_acquire(&variable->number);
    if (KEEL_UNLIKELY(number == 0)) number = number_of(variable);
    struct block* block = pthread_getspecific(key);
    if (KEEL_UNLIKELY(block == NULL)) block = block_new();
    void* place = block->places[number];
    return KEEL_LIKELY(place != NULL) ? place : place_new(block, variable, number);
}
