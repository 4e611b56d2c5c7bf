// integrations/memory/keel_sqlite.h with the library of SQLite.
#include "check.h"
#if HAVE_LIBRARY
#include "live.h"
#include <sqlite3.h>
#include <string.h>
//
#include "keel_sqlite.h"

static sqlite3* opened(void) {
    sqlite3* database;
    CHECK_EQUAL(sqlite3_open(":memory:", &database), SQLITE_OK);
    const char* work = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT);"
                       "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000)"
                       "INSERT INTO item SELECT i, printf('%0*d', i % 300, i) FROM n;"
                       "CREATE INDEX by_name ON item(name);";
    CHECK_EQUAL(sqlite3_exec(database, work, NULL, NULL, NULL), SQLITE_OK);
    return database;
}

TEST(all_blocks_are_in_the_heap) {
    kl_heap_t* heap = kl_heap_new();
    CHECK_EQUAL(keel_sqlite_install(heap), SQLITE_OK);
    sqlite3* database = opened();
    size_t live = live_blocks(heap);
    CHECK_WITH(live > 100, "%zu blocks", live);
    void* block = sqlite3_malloc(1000);
    CHECK(kl_heap_contains(heap, block));
    // SQLite adds up what keel_sqlite_size returns.
    CHECK(sqlite3_msize(block) == kl_usable_size(block) && sqlite3_msize(block) >= 1000);
    memset(block, 1, sqlite3_msize(block));
    sqlite3_free(block);
    CHECK_EQUAL(live_blocks(heap), live);
    CHECK_EQUAL(sqlite3_close(database), SQLITE_OK);
    CHECK_EQUAL(sqlite3_memory_used(), 0);
    sqlite3_shutdown();
    CHECK_EQUAL(live_blocks(heap), 0);
    kl_heap_delete(heap);
}

TEST(without_a_heap_the_blocks_are_of_kl_malloc) {
    CHECK_EQUAL(keel_sqlite_install(NULL), SQLITE_OK);
    sqlite3* database = opened();
    void* block = sqlite3_malloc(100);
    CHECK(kl_usable_size(block) >= 100 && kl_heap_contains(kl_heap_backing(), block));
    sqlite3_free(block);
    CHECK_EQUAL(sqlite3_close(database), SQLITE_OK);
}

TEST(a_heap_with_a_limit_is_an_error_of_sqlite) {
    kl_heap_t* heap = kl_heap_new_with_limit(16 << 20);
    CHECK_EQUAL(keel_sqlite_install(heap), SQLITE_OK);
    sqlite3* database = opened();
    const char* work = "CREATE TABLE large AS SELECT zeroblob(900000) FROM item LIMIT 100";
    CHECK_EQUAL(sqlite3_exec(database, work, NULL, NULL, NULL), SQLITE_NOMEM);
    CHECK_EQUAL(sqlite3_exec(database, "SELECT count(*) FROM item", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQUAL(sqlite3_close(database), SQLITE_OK);
    sqlite3_shutdown();
    CHECK_EQUAL(live_blocks(heap), 0);
}

TEST(it_is_refused_after_sqlite_has_begun) {
    CHECK_EQUAL(sqlite3_initialize(), SQLITE_OK);
    CHECK_EQUAL(keel_sqlite_install(NULL), SQLITE_MISUSE);
}
#else
TEST(sqlite) {
    SKIP("sqlite3.h is not installed (Debian: libsqlite3-dev)");
}
#endif
