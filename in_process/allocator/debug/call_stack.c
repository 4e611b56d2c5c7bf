#include "allocator/debug/call_stack.h"
#include "allocator/debug/settings.h"
#include "allocator/guarded/call_walk.h"
#include "base/bits.h"
#include "os/lock.h"
#include "os/memory.h"
#include <string.h>

#define BUCKETS (1u << 20) // only those that are used take memory
#define CHUNK_SHIFT 17u    // words of 8 bytes in a chunk: 1 MiB
#define CHUNK_BYTES ((size_t)8 << CHUNK_SHIFT)
#define CHUNKS 256u
#define CHUNKS_WHOLE 128u // then new stacks have few frames
#define FRAMES_FEW 4u

// --- The table of stacks -------------------------------------------------------------------------

static struct {
    struct os_lock lock;
    atomic_word chunks[CHUNKS];
    uint32_t used; // words of all chunks; word 0 is not used, so that no stack has the number 0
    atomic_state buckets[BUCKETS];
} table;

struct call_stack* call_stack_of(uint32_t number) {
    if (number == 0) return NULL;
    char* chunk = (char*)atomic_get_acquire(&table.chunks[number >> CHUNK_SHIFT]);
    return (struct call_stack*)(chunk + (size_t)(number & ((1u << CHUNK_SHIFT) - 1)) * 8);
}

static uint64_t hash_of(const struct walked* walked) {
    uint64_t hash = walked->depth;
    for (uint32_t i = 0; i < walked->depth; i++)
        hash = bit_spread(hash ^ hash >> 29 ^ walked->addresses[i]);
    return hash >> 32;
}

static bool is_stack(const struct call_stack* stack, const struct walked* walked) {
    return stack->depth == walked->depth &&
           memcmp(stack->addresses, walked->addresses, walked->depth * sizeof(uintptr_t)) == 0;
}

static uint32_t find(const struct walked* walked, atomic_state* bucket) {
    uint32_t number = atomic_get_acquire(bucket);
    while (number != 0 && !is_stack(call_stack_of(number), walked))
        number = call_stack_of(number)->next;
    return number;
}

// The caller holds the lock. Returns 0 if there is no memory.
static uint32_t reserve(size_t bytes) {
    uint32_t words = (uint32_t)(bytes / 8);
    uint32_t in_chunk = 1u << CHUNK_SHIFT;
    if (table.used == 0) table.used = 1;
    if ((table.used & (in_chunk - 1)) + words > in_chunk)
        table.used = (table.used + in_chunk - 1) & ~(in_chunk - 1);
    uint32_t chunk = table.used >> CHUNK_SHIFT;
    if (chunk >= CHUNKS) return 0;
    if (atomic_get(&table.chunks[chunk]) == 0) {
        void* memory = os_map(CHUNK_BYTES, os_page_bytes());
        if (memory == NULL) return 0;
        atomic_set_release(&table.chunks[chunk], (uintptr_t)memory);
    }
    uint32_t number = table.used;
    table.used += words;
    return number;
}

static uint32_t add(const struct walked* walked, atomic_state* bucket) {
    size_t bytes = walked->depth * sizeof(uintptr_t);
    os_lock_acquire(&table.lock);
    uint32_t number = find(walked, bucket);
    if (number == 0 && (number = reserve(sizeof(struct call_stack) + bytes)) != 0) {
        struct call_stack* stack = call_stack_of(number);
        stack->next = atomic_get(bucket);
        stack->depth = walked->depth;
        memcpy(stack->addresses, walked->addresses, bytes);
        atomic_set_release(bucket, number);
    }
    os_lock_release(&table.lock);
    return number;
}

static atomic_state* bucket_of(const struct walked* walked) {
    return &table.buckets[hash_of(walked) % BUCKETS];
}

// A program may have more different stacks than any memory holds: for example, if it allocates at
// each level of a deep recursion.
static uint32_t number_of(struct walked* walked) {
    if (walked->depth == 0) return 0;
    uint32_t number = find(walked, bucket_of(walked));
    if (number != 0) return number;
    if (atomic_get(&table.chunks[CHUNKS_WHOLE]) != 0 && walked->depth > FRAMES_FEW) {
        walked->depth = FRAMES_FEW;
        number = find(walked, bucket_of(walked));
    }
    return number != 0 ? number : add(walked, bucket_of(walked));
}

void call_stack_visit(call_stack_visitor* visit, void* context) {
    const uint32_t in_chunk = 1u << CHUNK_SHIFT;
    for (uint32_t number = 1; number < table.used;) {
        struct call_stack* stack = call_stack_of(number);
        if (stack->depth == 0) { // the rest of the chunk
            number = (number + in_chunk) & ~(in_chunk - 1);
            continue;
        }
        visit(context, stack, number);
        number += (uint32_t)(sizeof *stack / 8) + stack->depth;
    }
}

void call_stack_before_fork(void) {
    os_lock_acquire(&table.lock);
}
void call_stack_after_fork(void) {
    os_lock_release(&table.lock);
}

KEEL_NOINLINE uint32_t call_stack_capture(void) {
    struct walked walked;
    const uint32_t wanted = (uint32_t)setting(SETTING_STACK);
    if (wanted == 0) return 0;
    uintptr_t place = (uintptr_t)__builtin_frame_address(0) + sizeof(uintptr_t);
    call_walk(&walked, wanted, (uintptr_t)__builtin_return_address(0), place);
    return number_of(&walked);
}
