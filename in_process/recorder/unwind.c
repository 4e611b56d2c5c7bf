// The rules that are in use are in a table for all threads, direct-mapped by return address:
//
//   entry:  key = address ^ rule ^ generation    rule, in one word
//
// A reader takes both words and checks that they fit together. So it needs no lock, and notices an
// entry that another thread has half written. A new generation makes all entries invalid.
#include "unwind.h"

#include "base/atomic.h"
#include "base/attributes.h"
#include "os/unwind_rules.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#define HAS_RULES 1
#else
#define HAS_RULES 0
#endif

enum { ENTRIES = 8192, OFFSET_BITS = 28 };

struct entry {
    atomic_bits key;
    atomic_bits rule;
};

static struct entry entries[ENTRIES];
static atomic_bits generation;

__attribute__((constructor(101))) static void rules_load(void) {
    unwind_rules_prepare();
#if !defined(__GLIBC__)
    unwind_rules_search(); // musl's loader calls no malloc that this library replaces
#endif
}

void unwind_forget(void) {
    atomic_add_release(&generation, 1);
}

// A word per rule: bits 0 to 3 its frame kind, 4 to 7 its base kind, then two offsets of 28 bits.
static uint64_t rule_pack(struct unwind_rule rule) {
    const uint64_t mask = (UINT64_C(1) << OFFSET_BITS) - 1;
    return rule.frame_kind | rule.base_kind << 4 | ((uint64_t)rule.frame_offset & mask) << 8 |
           ((uint64_t)rule.base_offset & mask) << (8 + OFFSET_BITS);
}

KEEL_INLINE struct unwind_rule rule_unpack(uint64_t word) {
    return (struct unwind_rule){
        .frame_kind = word & 15,
        .base_kind = word >> 4 & 15,
        .frame_offset = (int32_t)((int64_t)(word << (56 - OFFSET_BITS)) >> (64 - OFFSET_BITS)),
        .base_offset = (int32_t)((int64_t)word >> (64 - OFFSET_BITS)),
    };
}

KEEL_COLD static uint64_t rule_remember(struct entry* entry, uintptr_t address, uint64_t salt) {
    struct unwind_rule rule = unwind_rule_find(address);
    uint64_t word = rule_pack(rule);
    struct unwind_rule packed = rule_unpack(word);
    bool fits = packed.frame_offset == rule.frame_offset && packed.base_offset == rule.base_offset;
    if (!fits) word = rule_pack((struct unwind_rule){.frame_kind = FRAME_UNKNOWN});
    atomic_set(&entry->rule, word);
    atomic_set(&entry->key, address ^ word ^ salt);
    return word;
}

KEEL_INLINE struct unwind_rule rule_of(uintptr_t address, uint64_t salt) {
    struct entry* entry = &entries[(address * UINT64_C(0x9e3779b97f4a7c15)) >> 51];
    uint64_t word = atomic_get(&entry->rule);
    if (KEEL_UNLIKELY((atomic_get(&entry->key) ^ word ^ salt) != address)) {
        word = rule_remember(entry, address, salt);
    }
    return rule_unpack(word);
}

_Static_assert(ENTRIES == 1 << (64 - 51), "the index of an entry is the upper bits of a hash");

// Code without tables, such as that of just-in-time compilers, usually keeps a frame pointer: it
// points to the caller's frame pointer, and the return address is beside that. In other code the
// register has any value, so it must be a little above the stack pointer, within the thread's
// stack. A thread of the C library has its thread pointer at the upper end of its stack.
enum { FRAME_BYTES_MAX = 1 << 18, STACK_BYTES_MAX = 8 << 20 };
// glibc's variable for the end of the first thread's stack; musl has none.
#pragma weak __libc_stack_end
extern void* __libc_stack_end;

KEEL_COLD static bool is_frame_pointer(uintptr_t bp, uintptr_t sp) {
    if (bp < sp || bp - sp > FRAME_BYTES_MAX || bp % sizeof(uintptr_t) != 0) return false;
    uintptr_t first = &__libc_stack_end != NULL ? (uintptr_t)__libc_stack_end : 0;
    uintptr_t ends[] = {first, (uintptr_t)__builtin_thread_pointer()};
    for (int i = 0; i < 2; i++) {
        bool is_in_stack = sp < ends[i] && ends[i] - sp <= STACK_BYTES_MAX;
        if (is_in_stack && bp + 2 * sizeof(uintptr_t) <= ends[i]) return true;
    }
    return false;
}

// The code that Python 3.12 makes for perf has no frame pointer. After its call it returns at once:
// add rsp, 8; ret.
KEEL_COLD static bool returns_at_once(uintptr_t address) {
    static const unsigned char code[] = {0x48, 0x83, 0xc4, 0x08, 0xc3};
    return memcmp((const void*)address, code, sizeof code) == 0;
}

// Adds an offset to an address and reads the word there.
KEEL_INLINE uintptr_t word_at(uintptr_t address, int32_t offset) {
    return *(const uintptr_t*)(address + (uintptr_t)(intptr_t)offset);
}

KEEL_NOINLINE int unwind_walk(void** addresses, int count) {
    if (!HAS_RULES) return -1;
    // The caller's frame pointer, the return address, and the caller's stack from there on.
    const uintptr_t* frame = __builtin_frame_address(0);
    uintptr_t bp = frame[0], address = frame[1], sp = (uintptr_t)(frame + 2);
    uint64_t salt = (atomic_get_acquire(&generation) + 1) * UINT64_C(0xd6e8feb86659fd93);
    // Whether the address is surely code: it was found by tables, not by a frame pointer.
    bool is_code = true;
    for (int found = 0; found < count;) {
        addresses[found++] = (void*)address;
        struct unwind_rule rule = rule_of(address, salt);
        uintptr_t cfa = 0;
        switch (rule.frame_kind) {
        case FRAME_LAST:
            return found;
        case FRAME_FROM_SP:
            cfa = sp + (uintptr_t)(intptr_t)rule.frame_offset;
            break;
        case FRAME_FROM_BP:
            cfa = bp + (uintptr_t)(intptr_t)rule.frame_offset;
            break;
        case FRAME_AT_BP:
            cfa = word_at(bp, rule.frame_offset);
            break;
        case FRAME_NO_TABLE:
            if (is_code && returns_at_once(address)) {
                cfa = sp + 2 * sizeof(uintptr_t);
                break;
            }
            if (!is_frame_pointer(bp, sp)) return found;
            is_code = false;
            cfa = bp + 2 * sizeof(uintptr_t);
            bp = word_at(bp, 0);
            break;
        default:
            return -1;
        }
        // The stack grows downwards. A frame elsewhere is that of another stack, or an error.
        if (cfa <= sp || cfa % sizeof(uintptr_t) != 0) return -1;
        if (rule.base_kind == BASE_AT_CFA) bp = word_at(cfa, rule.base_offset);
        if (rule.base_kind == BASE_AT_BP) bp = word_at(bp, rule.base_offset);
        address = word_at(cfa, -(int32_t)sizeof(uintptr_t));
        sp = cfa;
        if (address == 0) return found;
    }
    return count;
}
