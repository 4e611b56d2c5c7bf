/* keel_sqlite.h: SQLite allocates from Keel. Include it in one source file, and call the function
 * before sqlite3_open and sqlite3_initialize:
 *
 *     #include <sqlite3.h>
 *     #include "keel_sqlite.h"
 *
 *     if (keel_sqlite_install(NULL) != SQLITE_OK) ...      // or a heap, see keel_hooks.h
 *
 * The result is that of sqlite3_config: SQLITE_MISUSE if SQLite is initialized already. All of
 * SQLite uses one heap. It may end after sqlite3_shutdown. */
#ifndef KEEL_SQLITE_H
#define KEEL_SQLITE_H

#include "keel_hooks.h"
#include <limits.h>
#include <sqlite3.h>

static kl_heap_t* keel_sqlite_heap;

KEEL_HOOK void* keel_sqlite_malloc(int size) {
    KEEL_HOOK_RETURN(keel_hook_malloc(keel_sqlite_heap, (size_t)size));
}
KEEL_HOOK void* keel_sqlite_realloc(void* block, int size) {
    KEEL_HOOK_RETURN(keel_hook_realloc(keel_sqlite_heap, block, (size_t)size));
}
KEEL_HOOK void keel_sqlite_free(void* block) {
    kl_free(block);
    KEEL_HOOK_STAYS;
}
/* SQLite adds the usable sizes to its statistics, and uses all of their bytes. */
KEEL_HOOK int keel_sqlite_size(void* block) {
    size_t size = kl_usable_size(block);
    return size < INT_MAX ? (int)size : INT_MAX;
}
/* SQLite rounds each request with this function before it calls malloc. */
KEEL_HOOK int keel_sqlite_round(int size) {
    size_t good = kl_good_size((size_t)size);
    return good < INT_MAX ? (int)good : size;
}
KEEL_HOOK int keel_sqlite_begin(void* unused) {
    (void)unused;
    return SQLITE_OK;
}
KEEL_HOOK void keel_sqlite_end(void* unused) {
    (void)unused;
}

static inline int keel_sqlite_install(kl_heap_t* heap) {
    sqlite3_mem_methods methods;
    int result;
    methods.xMalloc = keel_sqlite_malloc;
    methods.xFree = keel_sqlite_free;
    methods.xRealloc = keel_sqlite_realloc;
    methods.xSize = keel_sqlite_size;
    methods.xRoundup = keel_sqlite_round;
    methods.xInit = keel_sqlite_begin;
    methods.xShutdown = keel_sqlite_end;
    methods.pAppData = NULL;
    result = sqlite3_config(SQLITE_CONFIG_MALLOC, &methods); /* copies the structure */
    if (result == SQLITE_OK) keel_sqlite_heap = heap;
    return result;
}

#endif
