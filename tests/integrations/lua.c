// integrations/memory/keel_lua.h with the library of Lua.
#include "check.h"
#if HAVE_LIBRARY
#include "live.h"
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
//
#include "keel_lua.h"

static const char work[] = "local t = {}\n"
                           "for i = 1, 5000 do t[i] = ('x'):rep(i % 500) .. i end\n"
                           "for i = 1, 5000, 2 do t[i] = nil end\n"
                           "collectgarbage()\n"
                           "return #table.concat({t[2], t[4], t[4998]})\n";

static lua_Integer run(kl_heap_t* heap) {
    lua_State* state = lua_newstate(keel_lua_alloc, heap);
    CHECK(state != NULL);
    luaL_openlibs(state);
    CHECK_EQUAL(luaL_dostring(state, work), 0);
    lua_Integer result = lua_tointeger(state, -1);
    if (heap != NULL) CHECK(live_blocks(heap) > 1000);
    lua_close(state);
    return result;
}

TEST(all_blocks_are_in_the_heap) {
    kl_heap_t* heap = kl_heap_new();
    CHECK_EQUAL(run(heap), 2 + 1 + 4 + 1 + 498 + 4);
    CHECK_EQUAL(live_blocks(heap), 0);
    kl_heap_delete(heap);
}

TEST(without_a_heap_the_blocks_are_of_kl_malloc) {
    CHECK_EQUAL(run(NULL), 2 + 1 + 4 + 1 + 498 + 4);
}

TEST(each_state_has_its_own_limit) {
    kl_heap_t* small = kl_heap_new_with_limit(8 << 20);
    kl_heap_t* large = kl_heap_new();
    const char* request = "return #(('x'):rep(20 << 20))";
    lua_State* limited = lua_newstate(keel_lua_alloc, small);
    lua_State* free = lua_newstate(keel_lua_alloc, large);
    luaL_openlibs(limited);
    luaL_openlibs(free);
    CHECK_EQUAL(luaL_loadstring(limited, request), LUA_OK);
    CHECK_EQUAL(lua_pcall(limited, 0, 1, 0), LUA_ERRMEM);
    CHECK_EQUAL(luaL_dostring(free, request), 0);
    CHECK_EQUAL(lua_tointeger(free, -1), 20 << 20);
    lua_close(limited);
    lua_close(free);
    CHECK_EQUAL(live_blocks(small) + live_blocks(large), 0);
}
#else
TEST(lua) {
    SKIP("lua.h is not installed (Debian: liblua5.4-dev)");
}
#endif
