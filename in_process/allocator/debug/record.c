#include "allocator/debug/record.h"
#include "allocator/debug/checker.h"
#include "allocator/space/page_map.h"
#include "base/bits.h"
#include "base/panic.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/thread.h"
#include <string.h>

#define CHUNK_SHIFT 14u
#define CHUNK_RECORDS (1u << CHUNK_SHIFT) // 1 MiB
#define CHUNKS 8192u
#define WAIT_US 100u
#define MARK UINT64_C(0x4b65656c00000000) // the upper half of a block's first word

_Static_assert(sizeof(struct record) == 64, "one cache line each");

static struct {
    struct os_lock lock; // for new chunks
    atomic_word chunks[CHUNKS];
    atomic_state end;
} records;

static struct shard {
    KEEL_ALIGNED(KEEL_CACHE_LINE) struct os_lock lock;
    uint32_t first; // unused record; 0: none
} shards[RECORD_SHARDS];

static KEEL_TLS uint32_t thread_number;

uint32_t record_thread(void) {
    if (KEEL_UNLIKELY(thread_number == 0)) thread_number = os_thread_id();
    return thread_number;
}

void record_forget_thread(void) {
    thread_number = 0;
}

uint32_t record_end(void) {
    return atomic_get_acquire(&records.end);
}

struct record* record_of_number(uint32_t number) {
    if (number == 0 || number >> CHUNK_SHIFT >= CHUNKS) return NULL;
    struct record* chunk =
        (struct record*)atomic_get_acquire(&records.chunks[number >> CHUNK_SHIFT]);
    return chunk == NULL ? NULL : &chunk[number & (CHUNK_RECORDS - 1)];
}

// The number is stored in the record's chunk: a chunk is aligned to its size, and its first record,
// which no block has, states the number of the chunk.
uint32_t record_number(const struct record* record) {
    uintptr_t chunk = (uintptr_t)record & ~(uintptr_t)(CHUNK_RECORDS * sizeof *record - 1);
    uint32_t index = (uint32_t)(((uintptr_t)record - chunk) / sizeof *record);
    return ((const struct record*)chunk)->next << CHUNK_SHIFT | index;
}

static bool make_chunk(uint32_t chunk) {
    size_t bytes = CHUNK_RECORDS * sizeof(struct record);
    if (chunk >= CHUNKS) return false;
    os_lock_acquire(&records.lock);
    if (atomic_get(&records.chunks[chunk]) == 0) {
        struct record* first = os_map(bytes, bytes);
        if (first != NULL) {
            first->next = chunk;
            atomic_set_release(&records.chunks[chunk], (uintptr_t)first);
        }
    }
    os_lock_release(&records.lock);
    return atomic_get(&records.chunks[chunk]) != 0;
}

static struct record* make(void) {
    for (;;) {
        uint32_t number = atomic_add(&records.end, 1);
        if (number >> CHUNK_SHIFT >= CHUNKS) {
            (void)atomic_sub(&records.end, 1);
            return NULL;
        }
        if ((number & (CHUNK_RECORDS - 1)) == 0) continue; // the chunk's first record
        if (!make_chunk(number >> CHUNK_SHIFT)) return NULL;
        return record_of_number(number);
    }
}

// --- Blocks behind the first slice of their lower block ------------------------------------------

#define FAR_BUCKETS 65536u

// A hash table by the block's address. The records of a bucket are linked by `next_far`.
static struct {
    struct os_lock lock;
    uint32_t buckets[FAR_BUCKETS]; // numbers of records; 0: none
    atomic_state count;
} far;

static uint32_t* far_bucket(const void* block) {
    return &far.buckets[(bit_spread((uintptr_t)block >> 12) >> 40) % FAR_BUCKETS];
}

static void far_add(struct record* record) {
    uint32_t* bucket = far_bucket(record_block(record));
    os_lock_acquire(&far.lock);
    record->next_far = *bucket;
    *bucket = record_number(record);
    (void)atomic_add(&far.count, 1);
    os_lock_release(&far.lock);
}

static void far_remove(const struct record* record) {
    uint32_t* link = far_bucket(record_block(record));
    os_lock_acquire(&far.lock);
    while (*link != record_number(record)) link = &record_of_number(*link)->next_far;
    *link = record->next_far;
    (void)atomic_sub(&far.count, 1);
    os_lock_release(&far.lock);
}

static struct record* far_find(const void* address) {
    if (atomic_get(&far.count) == 0) return NULL;
    os_lock_acquire(&far.lock);
    struct record* record = record_of_number(*far_bucket(address));
    while (record != NULL && record_block(record) != address)
        record = record_of_number(record->next_far);
    os_lock_release(&far.lock);
    return record;
}

struct record* record_new(void) {
    struct shard* shard = &shards[record_shard()];
    os_lock_acquire(&shard->lock);
    struct record* record = record_of_number(shard->first);
    if (record != NULL) shard->first = record->next;
    os_lock_release(&shard->lock);
    if (record == NULL) record = make();
    if (record != NULL) atomic_set_release(&record->state, RECORD_MOVING);
    return record;
}

void record_release(struct record* record) {
    struct shard* shard = &shards[record_shard()];
    if (record->far != 0) far_remove(record);
    record->far = 0;
    atomic_set_release(&record->state, RECORD_UNUSED);
    os_lock_acquire(&shard->lock);
    record->next = shard->first;
    shard->first = record_number(record);
    os_lock_release(&shard->lock);
}

// --- From a block to its record ------------------------------------------------------------------

void record_mark(const struct record* record) {
    *(uint64_t*)(void*)record->start = MARK | record_number(record);
}

bool record_is_marked(const struct record* record) {
    return *(const uint64_t*)(const void*)record->start == (MARK | record_number(record));
}

// The start of the lower block that contains the address, or NULL.
static char* lower_block_around(const void* address) {
    const struct page* page = page_around(address);
    if (atomic_get(&page->owner) == 0) return NULL;
    // A mapping need not end with a slice. Then the next one may begin in the same slice.
    if (page->block_bytes == 0) return (const char*)address < page->start ? NULL : page->start;
    size_t offset = (size_t)((const char*)address_untagged(address) - page->start);
    if (offset / page->block_bytes >= page_use(page)->carved) return NULL;
    return page->start + offset - offset % page->block_bytes;
}

struct record* record_near(const void* address) {
    const char* start = lower_block_around(address);
    if (start == NULL) return NULL;
    checker_pause();
    uint64_t word = *(const uint64_t*)(const void*)start ^ MARK;
    checker_resume();
    struct record* record = word < record_end() ? record_of_number((uint32_t)word) : NULL;
    return record != NULL && record->start == start ? record : NULL;
}

struct record* record_around(const void* address) {
    struct record* record = record_near(address);
    return record != NULL ? record : far_find(address_untagged(address));
}

static bool is_in(const struct record* record, const char* address) {
    return address >= record->start && address < record_block(record) + record->size;
}

struct record* record_search(const void* address) {
    struct record* found = record_around(address);
    const char* plain = address_untagged(address);
    if (found != NULL) return found;
    for (uint32_t number = 0; number < record_end(); number++) {
        struct record* record = record_of_number(number);
        if (record == NULL || record->start == NULL) continue;
        bool used = (atomic_get(&record->state) & ~(uint32_t)RECORD_BUSY) != RECORD_UNUSED;
        if (used && is_in(record, plain)) return record;
        if (!used && record_block(record) == plain) found = record;
    }
    return found;
}

void record_place(struct record* record, void* lower, size_t prefix) {
    record->start = lower_block_around(lower);
    record->prefix = prefix + (size_t)((char*)lower - record->start);
    bool far_off = ((uintptr_t)record->start ^ (uintptr_t)record_block(record)) >= SLICE_BYTES;
    record->far = far_off && page_is_large(page_around(record->start));
    if (record->far != 0) far_add(record);
}

// --- States --------------------------------------------------------------------------------------

uint32_t record_change(struct record* record, enum record_state from, enum record_state to) {
    for (;;) {
        uint32_t seen = from;
        if (atomic_try_state(&record->state, &seen, to)) return from;
        if ((seen & RECORD_BUSY) == 0) return seen;
        os_wait(&record->state, seen, WAIT_US);
    }
}

bool record_hold(struct record* record, enum record_state state) {
    uint32_t seen = state;
    return atomic_try_state(&record->state, &seen, (uint32_t)state | RECORD_BUSY);
}

void record_unhold(struct record* record, enum record_state state) {
    atomic_set_release(&record->state, state);
}

void record_before_fork(void) {
    os_lock_acquire(&records.lock);
    os_lock_acquire(&far.lock);
    for (unsigned i = 0; i < RECORD_SHARDS; i++) os_lock_acquire(&shards[i].lock);
}

void record_after_fork(void) {
    for (unsigned i = 0; i < RECORD_SHARDS; i++) os_lock_release(&shards[i].lock);
    os_lock_release(&far.lock);
    os_lock_release(&records.lock);
}
