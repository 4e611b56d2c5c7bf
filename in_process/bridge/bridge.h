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
};
