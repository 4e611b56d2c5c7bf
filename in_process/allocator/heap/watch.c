#include "allocator/heap/watch.h"
#include "allocator/heap/pool.h"
#include "allocator/heap/relief.h"
#include "allocator/warm/reserve.h"
#include "base/panic.h"
#include "os/lock.h"

static struct {
    struct os_lock lock;
    atomic_word added;  // newest heap; linked by next_watched
    atomic_word round;  // next heap of the round; linked likewise. Written under the lock
    atomic_state forks; // a heap is in the list if its `watched` is this number + 1
} watch;

static uint32_t mark(void) {
    return atomic_get(&watch.forks) + 1;
}

static void add(struct heap* heap) {
    KEEL_ASSERT(((uintptr_t)heap & HEAP_USER) == 0 && atomic_get(&heap->watched) != 0);
    uintptr_t first = atomic_get(&watch.added);
    do {
        heap->next_watched = (struct heap*)first;
    } while (!atomic_try_word(&watch.added, &first, (uintptr_t)heap));
}

void heap_watch(struct heap* heap) {
    if (((uintptr_t)heap & HEAP_USER) != 0) return;
    uint32_t listed = mark();
    if (atomic_swap(&heap->watched, listed) != listed) add(heap);
}

struct heap* watch_take(bool begin) {
    if (!os_lock_try(&watch.lock)) return NULL;
    struct heap* heap = (struct heap*)atomic_get(&watch.round);
    if (heap == NULL && begin && atomic_get(&watch.added) != 0)
        heap = (struct heap*)atomic_swap(&watch.added, 0);
    if (heap != NULL) atomic_set(&watch.round, (uintptr_t)heap->next_watched);
    os_lock_release(&watch.lock);
    return heap;
}

// What only the keeper does for a heap that a thread holds.
static bool keeper_has_work(struct heap* heap) {
    if (!policy_has_keeper()) return false;
    return heap_is_realtime(heap) || heap_can_be_relieved(heap) || heap_has_kept(heap);
}

void watch_finish(struct heap* heap, bool again) {
    KEEL_ASSERT(atomic_get(&heap->watched) == mark());
    if (again) {
        add(heap);
        return;
    }
    (void)atomic_swap(&heap->watched, 0);
    if (heap_is_parked(heap) ? heap_can_be_reclaimed(heap) : keeper_has_work(heap))
        heap_watch(heap);
}

bool watch_is_empty(void) {
    return atomic_get(&watch.round) == 0 && atomic_get(&watch.added) == 0;
}

void watch_before_fork(void) {
    os_lock_acquire(&watch.lock);
}
void watch_after_fork(void) {
    os_lock_release(&watch.lock);
}
void watch_forget(void) {
    (void)atomic_add(&watch.forks, 1);
    atomic_set(&watch.added, 0);
    atomic_set(&watch.round, 0);
}

// The heaps of a list, which are marked as members; SIZE_MAX: one is not, or is there twice.
static size_t length(const struct heap* heap, size_t most) {
    size_t count = 0;
    for (; heap != NULL && count <= most; heap = heap->next_watched, count++)
        if (atomic_get(&heap->watched) != mark()) return SIZE_MAX;
    return count <= most ? count : SIZE_MAX;
}

bool watch_check(size_t heaps) {
    if (!KEEL_CHECKS) return true;
    size_t added = length((const struct heap*)atomic_get(&watch.added), heaps);
    size_t round = length((const struct heap*)atomic_get(&watch.round), heaps);
    return added != SIZE_MAX && round != SIZE_MAX && added + round <= heaps;
}
