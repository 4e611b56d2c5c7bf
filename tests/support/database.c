// A real program for platforms that have no packages: SQLite with a database in memory. Fills
// tables, changes and sorts them, and checks each result. With the argument `idle` it prints its
// resident KiB after a first query instead. tests/support/musl.sh builds it.
#include <fcntl.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sqlite3* database;

static void fail(const char* what) {
    fprintf(stderr, "database: %s: %s\n", what, sqlite3_errmsg(database));
    exit(1);
}

static void run(const char* text) {
    if (sqlite3_exec(database, text, NULL, NULL, NULL) != SQLITE_OK) fail(text);
}

// The query has one row of one column.
static void expect(const char* query, const char* value) {
    sqlite3_stmt* statement;
    if (sqlite3_prepare_v2(database, query, -1, &statement, NULL) != SQLITE_OK) fail(query);
    if (sqlite3_step(statement) != SQLITE_ROW) fail(query);
    const char* found = (const char*)sqlite3_column_text(statement, 0);
    if (found == NULL || strcmp(found, value) != 0) {
        fprintf(stderr, "database: %s: %s instead of %s\n", query, found ? found : "NULL", value);
        exit(1);
    }
    if (sqlite3_finalize(statement) != SQLITE_OK) fail(query);
}

// The present pages of the mappings that /proc/self/maps lists. Under qemu these are the program's,
// whereas the size in /proc/self/status includes the emulator.
static long resident_kib(void) {
    static uint64_t words[512]; // of /proc/self/pagemap: one for each page; bit 63: it is present
    char line[512];
    unsigned long start, end;
    long pages = 0, page_bytes = sysconf(_SC_PAGESIZE);
    FILE* maps = fopen("/proc/self/maps", "r");
    int file = open("/proc/self/pagemap", O_RDONLY);
    if (maps == NULL || file < 0) fail("/proc/self");
    while (fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%lx-%lx", &start, &end) != 2 || strstr(line, "[v") != NULL) continue;
        unsigned long page = start / page_bytes, left = end / page_bytes - page;
        while (left > 0) {
            unsigned long count = left < 512 ? left : 512;
            ssize_t bytes = pread(file, words, count * 8, (off_t)(page * 8));
            if (bytes != (ssize_t)(count * 8)) fail("/proc/self/pagemap");
            for (unsigned long i = 0; i < count; i++) pages += (long)(words[i] >> 63);
            page += count, left -= count;
        }
    }
    close(file);
    fclose(maps);
    return pages * (page_bytes / 1024);
}

int main(int count, char** words) {
    if (sqlite3_open(":memory:", &database) != SQLITE_OK) fail("open");
    expect("SELECT 6 * 7", "42");
    if (count == 2 && strcmp(words[1], "idle") == 0) {
        printf("%ld\n", resident_kib());
        return 0;
    }
    run("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, data BLOB)");
    run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)"
        " INSERT INTO t SELECT i, 'name ' || (i * 7919 % 50021), zeroblob(i % 900) FROM n");
    run("CREATE INDEX t_name ON t (name)");
    expect("SELECT count(*) || ' ' || sum(length(data)) FROM t", "50000 22375500");
    expect("SELECT id FROM t WHERE name = 'name 7919'", "1");
    run("DELETE FROM t WHERE id % 3 = 0");
    run("UPDATE t SET name = name || name || name, data = zeroblob(length(data) * 3)");
    expect("SELECT count(*) || ' ' || sum(length(data)) || ' ' || sum(length(name)) FROM t",
           "33334 44801001 977841");
    expect(
        "SELECT count(*) FROM (SELECT a.id FROM t a JOIN t b ON a.name = b.name ORDER BY a.data)",
        "33334");
    expect("PRAGMA integrity_check", "ok");
    if (sqlite3_close(database) != SQLITE_OK) fail("close");
    printf("ok\n1 passed, 0 failed, 0 skipped\n");
}
