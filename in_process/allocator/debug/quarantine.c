#include "allocator/debug/quarantine.h"
#include "allocator/alloc/alloc.h"
#include "allocator/debug/checker.h"
#include "allocator/debug/contents.h"
#include "allocator/debug/fault_report.h"
#include "allocator/debug/settings.h"
#include "os/lock.h"

// A queue of records, linked by `next`. The charge counts in units of 16 bytes.
static struct queue {
    KEEL_ALIGNED(KEEL_CACHE_LINE) struct os_lock lock;
    uint32_t first;
    uint32_t last;
} queues[RECORD_SHARDS];

static atomic_signed charged;
static KEEL_TLS unsigned pauses;
static atomic_state returning; // threads that hold a block that is in no queue any more

static void push(struct queue* queue, struct record* record) {
    uint32_t number = record_number(record);
    record->next = 0;
    os_lock_acquire(&queue->lock);
    if (queue->first == 0)
        queue->first = number;
    else
        record_of_number(queue->last)->next = number;
    queue->last = number;
    os_lock_release(&queue->lock);
}

// The records and blocks in the queue have left the caches: requests those of the next take.
static void prefetch_next(const struct record* next) {
    if (next == NULL) return;
    KEEL_PREFETCH(record_of_number(next->next)); // `next` was requested by the last take
    const char* block = record_block(next);
    for (size_t i = 0; i < next->size && i < 256; i += KEEL_CACHE_LINE) KEEL_PREFETCH(block + i);
    KEEL_PREFETCH(next->start);
}

// Between take and give_back, `returning` counts this thread.
static struct record* take(struct queue* queue) {
    os_lock_acquire(&queue->lock);
    struct record* record = record_of_number(queue->first);
    if (record != NULL) {
        queue->first = record->next;
        prefetch_next(record_of_number(record->next));
        (void)atomic_add_ordered(&returning, 1);
    }
    os_lock_release(&queue->lock);
    return record;
}

// The block of a destroyed heap does not exist any more.
static void give_back(struct record* record, uint32_t stack) {
    (void)atomic_sub(&charged, record->charge);
    if (record_change(record, RECORD_KEPT, RECORD_MOVING) == RECORD_KEPT) {
        struct wrong wrong = contents_verify_freed(record);
        if (wrong.byte != NULL) fault_of_write(record, wrong.byte, true, stack);
        checker_leave(record);
        free_block(record->start);
    }
    record_release(record);
    (void)atomic_sub_ordered(&returning, 1);
}

// Takes from the thread's own queue, else from another one.
static struct record* take_any(void) {
    unsigned own = record_shard();
    for (unsigned i = 0; i < RECORD_SHARDS; i++) {
        struct record* record = take(&queues[(own + i) % RECORD_SHARDS]);
        if (record != NULL) return record;
    }
    return NULL;
}

void quarantine_add(struct record* record, uint32_t stack) {
    int64_t most = (int64_t)(setting(SETTING_QUARANTINE) / 16);
    int64_t total = atomic_add(&charged, record->charge) + record->charge;
    atomic_set_release(&record->state, RECORD_KEPT);
    push(&queues[record_shard()], record);
    for (; pauses == 0 && total > most; total = atomic_get(&charged)) {
        struct record* oldest = take_any();
        if (oldest == NULL) return;
        give_back(oldest, stack);
    }
}

void quarantine_pause(void) {
    pauses++;
}
void quarantine_resume(void) {
    pauses--;
}

void quarantine_empty(uint32_t stack) {
    if (pauses > 0) return;
    for (unsigned i = 0; i < RECORD_SHARDS; i++) {
        for (struct record* record; (record = take(&queues[i])) != NULL;) give_back(record, stack);
    }
}

bool quarantine_is_returning(void) {
    return atomic_get_ordered(&returning) != 0;
}

void quarantine_before_fork(void) {
    for (unsigned i = 0; i < RECORD_SHARDS; i++) os_lock_acquire(&queues[i].lock);
}
void quarantine_after_fork(void) {
    for (unsigned i = 0; i < RECORD_SHARDS; i++) os_lock_release(&queues[i].lock);
}
void quarantine_repair_in_child(void) {
    atomic_set(&returning, 0);
}
