#include "allocator/guarded/placement.h"
#include "base/bits.h"
#include "base/panic.h"
#include "os/memory.h"
#include "os/thread.h"
#include <string.h>

#define CANARY_BYTES ((size_t)32) // at most, on each side
#define CANARY 0xC5

// malloc aligns blocks to 16 bytes, and those of up to 8 bytes to 8.
static size_t alignment_of(size_t bytes, size_t alignment) {
    size_t least = bytes > 8 ? 16 : 8;
    return alignment < least ? least : alignment;
}

static char* place_at_end(const char* area, size_t area_bytes, size_t bytes, size_t alignment) {
    uintptr_t end = (uintptr_t)area + area_bytes;
    return (char*)round_down(end - bytes, alignment_of(bytes, alignment));
}

bool guarded_fits(const char* area, size_t area_bytes, size_t bytes, size_t alignment) {
    return bytes <= area_bytes && place_at_end(area, area_bytes, bytes, alignment) >= area;
}

// The bytes on each side that are filled: those in the memory, at most CANARY_BYTES.
static size_t before_block(const struct guarded* block) {
    KEEL_ASSERT(block->start >= block->area);
    size_t bytes = (size_t)(block->start - block->area);
    return bytes < CANARY_BYTES ? bytes : CANARY_BYTES;
}
static size_t behind_block(const struct guarded* block) {
    KEEL_ASSERT(block->start + block->bytes <= block->area + block->area_bytes);
    size_t bytes = (size_t)(block->area + block->area_bytes - (block->start + block->bytes));
    return bytes < CANARY_BYTES ? bytes : CANARY_BYTES;
}

void guarded_place(struct guarded* block, size_t bytes, size_t alignment, bool at_begin) {
    KEEL_ASSERT(bytes > 0 && bytes <= block->area_bytes);
    bool begin = at_begin && alignment <= os_page_bytes();
    block->bytes = bytes;
    block->start =
        begin ? block->area : place_at_end(block->area, block->area_bytes, bytes, alignment);
    size_t before = before_block(block);
    memset(block->start - before, CANARY, before);
    memset(block->start + bytes, CANARY, behind_block(block));
}

char* guarded_page_to_keep(const struct guarded* block) {
    size_t page = os_page_bytes();
    char* end = block->start + block->bytes + behind_block(block);
    char* from = (char*)round_down((uintptr_t)block->start - before_block(block), page);
    return (size_t)(end - from) <= page ? from : NULL;
}

void guarded_clean(struct guarded* block) {
    if (block->kept != NULL) memset(block->kept, 0, os_page_bytes());
    block->kept = NULL;
}

static const char* other_than_canary(const char* from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)from[i] != CANARY) return from + i;
    }
    return NULL;
}

const char* guarded_overwritten(const struct guarded* block) {
    const char* byte = other_than_canary(block->start + block->bytes, behind_block(block));
    size_t before = before_block(block);
    return byte != NULL ? byte : other_than_canary(block->start - before, before);
}

static KEEL_TLS uint32_t thread_number;

void guarded_forget_thread(void) {
    thread_number = 0;
}

KEEL_NOINLINE void guarded_record_call(struct guarded_call* call) {
    if (thread_number == 0) thread_number = os_thread_id();
    call->thread = thread_number;
    uintptr_t place = (uintptr_t)__builtin_frame_address(0) + sizeof(uintptr_t);
    call_walk(&call->walked, GUARDED_FRAMES, (uintptr_t)__builtin_return_address(0), place);
}

KEEL_NOINLINE void guarded_record_found(struct guarded_call* call) {
    call->thread = os_thread_id();
    call_walk_unwind(&call->walked, GUARDED_FRAMES, (uintptr_t)__builtin_return_address(0));
}
