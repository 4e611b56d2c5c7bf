/* keel_lua.h: a state of Lua allocates from Keel. For Lua 5.1 to 5.4:
 *
 *     #include <lua.h>
 *     #include "keel_lua.h"
 *
 *     kl_heap_t* heap = kl_heap_new_with_limit(64 << 20);
 *     lua_State* state = lua_newstate(keel_lua_alloc, heap);      // NULL: see keel_hooks.h
 *     ...
 *     lua_close(state);
 *     kl_heap_delete(heap);
 *
 * Each state can have its own heap with its own limit. If the limit is reached, Lua collects
 * garbage, and then raises its error "not enough memory". Unlike luaL_newstate, lua_newstate sets
 * no panic function (lua_atpanic). LuaJIT accepts an allocator only if it is built with GC64. */
#ifndef KEEL_LUA_H
#define KEEL_LUA_H

#include "keel_hooks.h"

/* A lua_Alloc. `old_size` is the size of the block, or, without a block, the type of the new
 * object. */
KEEL_HOOK void* keel_lua_alloc(void* heap, void* block, size_t old_size, size_t size) {
    if (size == 0) {
        if (block != NULL) kl_free_sized(block, old_size);
        KEEL_HOOK_STAYS;
        return NULL;
    }
    KEEL_HOOK_RETURN(keel_hook_realloc((kl_heap_t*)heap, block, size));
}

#endif
