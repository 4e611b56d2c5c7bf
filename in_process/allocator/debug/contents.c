#include "allocator/debug/contents.h"
#include "allocator/debug/checker.h"
#include "allocator/debug/settings.h"
#include "allocator/space/arena.h"
#include "allocator/space/page_map.h"
#include "base/bits.h"
#include "os/memory.h"
#include <string.h>

#define GUARD UINT64_C(0xe7d6c5b4a3928170)
#define NEW_BYTE 0xAC
#define FREED UINT64_C(0xdbdbdbdbdbdbdbdb)
#define GUARD_MOST ((size_t)256) // bytes that are verified before an aligned block

// From this size on, the pages of a freed block are discarded. They cost the quarantine address
// space, which is counted as a small share of their size.
#define DISCARD_BYTES ((size_t)256 << 10)
#define DISCARD_SHARE 64u

// --- Patterns: each byte is that of an aligned word at its address -------------------------------

static unsigned char pattern_byte(uint64_t pattern, const char* at) {
    return ((const unsigned char*)&pattern)[(uintptr_t)at & 7];
}

static void pattern_write(char* from, const char* end, uint64_t pattern) {
    for (; from < end && ((uintptr_t)from & 7) != 0; from++)
        *from = (char)pattern_byte(pattern, from);
    for (; end - from >= 8; from += 8) *(uint64_t*)(void*)from = pattern;
    for (; from < end; from++) *from = (char)pattern_byte(pattern, from);
}

static bool is_pattern(const char* at, uint64_t pattern) {
    return *(const unsigned char*)at == pattern_byte(pattern, at);
}

// The first byte that differs, or NULL.
static const char* pattern_first_wrong(const char* from, const char* end, uint64_t pattern) {
    for (; from < end && ((uintptr_t)from & 7) != 0; from++) {
        if (!is_pattern(from, pattern)) return from;
    }
    for (; end - from >= 64; from += 64) { // in one step, for the compiler's vector instructions
        const uint64_t* words = (const uint64_t*)(const void*)from;
        uint64_t differs = 0;
        for (unsigned i = 0; i < 8; i++) differs |= words[i] ^ pattern;
        if (differs != 0) break;
    }
    for (; end - from >= 8 && *(const uint64_t*)(const void*)from == pattern; from += 8) {
    }
    for (; from < end; from++) {
        if (!is_pattern(from, pattern)) return from;
    }
    return NULL;
}

static const char* pattern_last_wrong(const char* from, const char* end, uint64_t pattern) {
    while (end > from && is_pattern(end - 1, pattern)) end--;
    return end > from ? end - 1 : NULL;
}

// --- Around the block ----------------------------------------------------------------------------

static char* guard_start(const struct record* record) {
    size_t bytes = record->prefix - sizeof(uint64_t);
    return record_block(record) - (bytes < GUARD_MOST ? bytes : GUARD_MOST);
}

static char* canary_start(const struct record* record) {
    return record_block(record) + record->size;
}

char* contents_end(const struct record* record) {
    return record->start + page_usable_bytes(page_around(record->start));
}

static char* canary_end(const struct record* record) {
    char* end = contents_end(record);
    bool limited = record->roomy != 0 && end - canary_start(record) > (ptrdiff_t)CANARY_ROOMY;
    return limited ? canary_start(record) + CANARY_ROOMY : end;
}

size_t contents_capacity(const struct record* record) {
    return (size_t)(contents_end(record) - record_block(record)) - CANARY_BYTES;
}

void contents_seal(const struct record* record) {
    record_mark(record);
    pattern_write(guard_start(record), record_block(record), GUARD);
    pattern_write(canary_start(record), canary_end(record), GUARD);
}

static struct wrong verify(const struct record* record) {
    const char* block = record_block(record);
    struct wrong wrong = {pattern_last_wrong(guard_start(record), block, GUARD)};
    if (wrong.byte == NULL && !record_is_marked(record))
        wrong.byte = record->start + sizeof(uint64_t) - 1;
    if (wrong.byte == NULL)
        wrong.byte = pattern_first_wrong(canary_start(record), canary_end(record), GUARD);
    return wrong;
}

struct wrong contents_verify(const struct record* record) {
    checker_pause();
    struct wrong wrong = verify(record);
    checker_resume();
    return wrong;
}

// --- The program's bytes -------------------------------------------------------------------------

void contents_fill_new(const struct record* record) {
    size_t most = setting(SETTING_FILL);
    memset(record_block(record), NEW_BYTE, record->size < most ? record->size : most);
}

void contents_resize(struct record* record, size_t size, bool zero) {
    size_t before = record->size, most = setting(SETTING_FILL);
    record->size = size;
    size_t end = zero || size < most ? size : most;
    if (end > before) memset(record_block(record) + before, zero ? 0 : NEW_BYTE, end - before);
    contents_seal(record);
}

// The system pages that are inside the block.
static char* pages_start(const struct record* record) {
    return (char*)round_up((uintptr_t)record_block(record), os_page_bytes());
}
static char* pages_end(const struct record* record) {
    return (char*)round_down((uintptr_t)canary_start(record), os_page_bytes());
}

void contents_fill_freed(struct record* record) {
    char* block = record_block(record);
    char* end = canary_start(record);
    char* pages = pages_start(record);
    size_t charge = (size_t)(contents_end(record) - record->start);
    record->emptied = 0;
    if (record->size >= DISCARD_BYTES && arena_of(record->start) == NULL)
        record->emptied = os_discard(pages, (size_t)(pages_end(record) - pages)) ? 1 : 0;
    if (record->emptied != 0) {
        pattern_write(block, pages, FREED);
        pattern_write(pages_end(record), end, FREED);
        charge = 2 * os_page_bytes() + charge / DISCARD_SHARE;
    } else {
        pattern_write(block, end, FREED);
    }
    record->charge = (uint32_t)(charge / 16);
}

#define PAGES_AT_ONCE 256u

// The first byte of discarded pages that is not zero. Only resident pages are read.
static const char* discarded_first_wrong(char* from, const char* end) {
    unsigned char resident[PAGES_AT_ONCE];
    size_t unit = os_page_bytes();
    while (from < end) {
        size_t bytes = (size_t)(end - from);
        if (bytes > PAGES_AT_ONCE * unit) bytes = PAGES_AT_ONCE * unit;
        bool known = os_resident(from, bytes, resident);
        for (size_t at = 0; at < bytes; at += unit) {
            if (known && (resident[at / unit] & 1) == 0) continue;
            const char* wrong = pattern_first_wrong(from + at, from + at + unit, 0);
            if (wrong != NULL) return wrong;
        }
        from += bytes;
    }
    return NULL;
}

static struct wrong verify_freed(const struct record* record) {
    const char* block = record_block(record);
    const char* end = canary_start(record);
    struct wrong wrong = {NULL};
    if (record->emptied == 0) {
        wrong.byte = pattern_first_wrong(block, end, FREED);
    } else {
        wrong.byte = pattern_first_wrong(block, pages_start(record), FREED);
        if (wrong.byte == NULL)
            wrong.byte = discarded_first_wrong(pages_start(record), pages_end(record));
        if (wrong.byte == NULL) wrong.byte = pattern_first_wrong(pages_end(record), end, FREED);
    }
    return wrong.byte != NULL ? wrong : verify(record);
}

struct wrong contents_verify_freed(const struct record* record) {
    checker_pause();
    struct wrong wrong = verify_freed(record);
    checker_resume();
    return wrong;
}
