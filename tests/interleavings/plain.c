// Accesses that are not atomic. The code under test is compiled with -fsanitize=thread, and this
// file replaces that sanitizer's runtime: the compiler calls it before each access to memory. It
// saves overwritten values, so that a run can be undone, and reports two accesses, at least one of
// them a write, that no declared ordering separates. Therefore only atomic operations need to be
// interleaved.
#include "engine.h"
#include <string.h>

#define CELLS 16384u // of 8 bytes each
#define UNDO_MAX 65536u
#define IGNORED_MAX 4u

enum kind { PLAIN_WRITE, PLAIN_READ, ATOMIC_WRITE, ATOMIC_READ, KINDS };

static struct cell {
    uintptr_t granule;
    uint32_t run;
    bool dirty[8];                      // plainly written since the last plain_written
    uint8_t seen_by;                    // one bit per thread
    uint16_t at[KINDS][THREADS_MAX][8]; // the thread's clock at its last access of that kind
} cells[CELLS];
static uint32_t run_number;
static unsigned cells_used;

static struct {
    void* address;
    uint64_t bytes; // the old value
    unsigned count;
} undo[UNDO_MAX];
static unsigned undo_count;

static struct {
    const char* start;
    size_t bytes;
} ignored[IGNORED_MAX];
static unsigned ignored_count;

void plain_run_begin(void) {
    run_number++;
    cells_used = 0;
    undo_count = 0;
}

void plain_ignore(const void* start, size_t bytes) {
    if (ignored_count == IGNORED_MAX) explore_fail("too many thread-local variables");
    ignored[ignored_count].start = start;
    ignored[ignored_count++].bytes = bytes;
}

static bool is_ignored(const void* p) {
    if (phase == OUTSIDE || switch_is_stack(p)) return true;
    for (unsigned i = 0; i < ignored_count; i++) {
        if ((const char*)p >= ignored[i].start &&
            (const char*)p < ignored[i].start + ignored[i].bytes)
            return true;
    }
    return false;
}

void plain_log(void* p, unsigned bytes) {
    if (undo_count == UNDO_MAX) explore_fail("too many writes in a run");
    undo[undo_count].address = p;
    undo[undo_count].count = bytes;
    memcpy(&undo[undo_count++].bytes, p, bytes);
}

void plain_undo(void) {
    while (undo_count > 0) {
        undo_count--;
        memcpy(undo[undo_count].address, &undo[undo_count].bytes, undo[undo_count].count);
    }
}

static struct cell* cell_of(uintptr_t granule) {
    unsigned slot = (unsigned)(granule * 0x9E3779B97F4A7C15u >> 40) % CELLS;
    while (cells[slot].run == run_number && cells[slot].granule != granule)
        slot = (slot + 1) % CELLS;
    struct cell* cell = &cells[slot];
    if (cell->run != run_number) {
        if (++cells_used > CELLS / 2) explore_fail("too much memory touched in a run");
        memset(cell, 0, sizeof *cell);
        cell->granule = granule;
        cell->run = run_number;
    }
    return cell;
}

static const char* const kind_names[KINDS] = {"a plain write", "a plain read", "an atomic write",
                                              "an atomic read"};

static bool conflict(enum kind a, enum kind b) {
    bool write = a == PLAIN_WRITE || a == ATOMIC_WRITE || b == PLAIN_WRITE || b == ATOMIC_WRITE;
    bool plain = a <= PLAIN_READ || b <= PLAIN_READ;
    return write && plain;
}

static void check_cell(const struct cell* cell, unsigned first, unsigned end, enum kind kind,
                       const char* address) {
    const struct clocks* known = memory_clocks(self);
    for (unsigned other = 0; other < THREADS_MAX; other++) {
        if (other == self || (cell->seen_by >> other & 1) == 0) continue;
        for (unsigned k = 0; k < KINDS; k++) {
            if (!conflict(kind, (enum kind)k)) continue;
            for (unsigned i = first; i < end; i++) {
                if (cell->at[k][other][i] <= known->of[other]) continue;
                explore_fail("race at %p: %s of %s, and %s of %s that nothing orders before it",
                             (const void*)address, kind_names[kind], scenario_now()->called[self],
                             kind_names[k], scenario_now()->called[other]);
            }
        }
    }
}

static void touch(const char* address, size_t bytes, enum kind kind) {
    uint16_t now = memory_clocks(self)->of[self];
    while (bytes > 0) {
        unsigned first = (unsigned)((uintptr_t)address % 8);
        unsigned end = bytes < 8 - first ? first + (unsigned)bytes : 8;
        struct cell* cell = cell_of((uintptr_t)address / 8);
        if ((cell->seen_by & ~(1u << self)) != 0) check_cell(cell, first, end, kind, address);
        cell->seen_by = (uint8_t)(cell->seen_by | 1u << self);
        for (unsigned i = first; i < end; i++) {
            cell->at[kind][self][i] = now;
            if (kind == PLAIN_WRITE) cell->dirty[i] = true;
        }
        address += end - first;
        bytes -= end - first;
    }
}

void plain_check_atomic(const void* p, unsigned bytes, bool write) {
    touch(p, bytes, write ? ATOMIC_WRITE : ATOMIC_READ);
}

bool plain_written(const void* p, unsigned bytes) {
    struct cell* cell = cell_of((uintptr_t)p / 8);
    bool written = false;
    unsigned first = (unsigned)((uintptr_t)p % 8);
    for (unsigned i = first; i < first + bytes; i++) {
        written |= cell->dirty[i];
        cell->dirty[i] = false;
    }
    return written;
}

static void plain_read(const void* p, size_t bytes) {
    if (phase == RUNNING && !is_ignored(p)) touch(p, bytes, PLAIN_READ);
}

static void plain_write(void* p, size_t bytes) {
    if (is_ignored(p)) return;
    if (phase == RUNNING) touch(p, bytes, PLAIN_WRITE);
    for (size_t done = 0; done < bytes; done += 8)
        plain_log((char*)p + done, bytes - done < 8 ? (unsigned)(bytes - done) : 8);
}

// The functions that the compiler calls.
#define ACCESS_OF(bytes)                                                                           \
    void __tsan_read##bytes(void* p);                                                              \
    void __tsan_write##bytes(void* p);                                                             \
    void __tsan_unaligned_read##bytes(void* p);                                                    \
    void __tsan_unaligned_write##bytes(void* p);                                                   \
    void __tsan_read_write##bytes(void* p);                                                        \
    void __tsan_read##bytes(void* p) {                                                             \
        plain_read(p, bytes);                                                                      \
    }                                                                                              \
    void __tsan_write##bytes(void* p) {                                                            \
        plain_write(p, bytes);                                                                     \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(void* p) {                                                   \
        plain_read(p, bytes);                                                                      \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void* p) {                                                  \
        plain_write(p, bytes);                                                                     \
    }                                                                                              \
    void __tsan_read_write##bytes(void* p) {                                                       \
        plain_read(p, bytes);                                                                      \
        plain_write(p, bytes);                                                                     \
    }
ACCESS_OF(1)
ACCESS_OF(2)
ACCESS_OF(4)
ACCESS_OF(8)
ACCESS_OF(16)

void __tsan_read_range(void* p, size_t bytes);
void __tsan_write_range(void* p, size_t bytes);
void* __tsan_memset(void* p, int value, size_t bytes);
void* __tsan_memcpy(void* to, const void* from, size_t bytes);
void* __tsan_memmove(void* to, const void* from, size_t bytes);
void __tsan_init(void);
void __tsan_func_entry(void* caller);
void __tsan_func_exit(void);

void __tsan_read_range(void* p, size_t bytes) {
    plain_read(p, bytes);
}
void __tsan_write_range(void* p, size_t bytes) {
    plain_write(p, bytes);
}
void* __tsan_memset(void* p, int value, size_t bytes) {
    plain_write(p, bytes);
    return memset(p, value, bytes);
}
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
    plain_read(from, bytes);
    plain_write(to, bytes);
    return memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
    plain_read(from, bytes);
    plain_write(to, bytes);
    return memmove(to, from, bytes);
}
void __tsan_init(void) {}
void __tsan_func_entry(void* caller) {
    (void)caller;
}
void __tsan_func_exit(void) {}
