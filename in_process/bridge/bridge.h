// The table through which the lab drives an allocator: the C side of lab/allocators/src/table.rs.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { BRIDGE_ABI = 1 };

struct bridge_table {
    uint32_t abi, has_hints;
    void (*version)(char*, size_t);
    void* (*malloc)(size_t);
    void (*free)(void*);
    void* (*calloc)(size_t, size_t);
    void* (*realloc)(void*, size_t);
    void* (*aligned)(size_t, size_t); // the alignment first
    size_t (*usable_size)(void*);     // this and all below may be NULL
    int (*init)(void);
    void (*thread_init)(void);
    void (*thread_exit)(void);
    void (*teardown)(void);
    void (*free_sized)(void*, size_t); // this and all below only if has_hints
    void (*free_aligned)(void*, size_t);
    void (*free_aligned_sized)(void*, size_t, size_t);
    void (*hint_names)(char*, size_t);
};

// What the bridge exports beyond the C library's names. A program calls the first one before the
// part that counts, while it has one thread: times of earlier calls are dropped.
void keel_bridge_begin(void);
void free_sized(void* block, size_t bytes);
