#include "allocator/heap/bin.h"
#include "allocator/heap/watch.h"
#include "allocator/space/arena.h"
#include "allocator/space/run.h"
#include "allocator/warm/fill.h"
#include "allocator/warm/reserve.h"
#include "base/bits.h"
#include "base/counters.h"
#include "base/panic.h"
#include "os/memory.h"

// Pages of the queue that one search looks at; the plain flavour takes the first.
#define NEXT_PAGE_PROBES (KEEL_SECURE ? 4u : 1u)

static void queue_append(struct page_queue* queue, struct page* page) {
    KEEL_ASSERT(page_list(page) != PAGE_QUEUED);
    page_use(page)->next = NULL;
    page_use(page)->prev = queue->last;
    if (queue->last != NULL)
        page_use(queue->last)->next = page;
    else
        queue->first = page;
    queue->last = page;
    atomic_set_release(&page_use(page)->list, PAGE_QUEUED);
}

static void queue_remove(struct page_queue* queue, struct page* page) {
    KEEL_ASSERT(queue->first != NULL && queue->last != NULL);
    KEEL_ASSERT(page_use(page)->prev != NULL || queue->first == page);
    KEEL_ASSERT(page_use(page)->next != NULL || queue->last == page);
    struct page_use* use = page_use(page);
    if (use->prev != NULL)
        page_use(use->prev)->next = use->next;
    else
        queue->first = use->next;
    if (use->next != NULL)
        page_use(use->next)->prev = use->prev;
    else
        queue->last = use->prev;
    page_set_list(page, PAGE_UNLISTED);
}

static void make_current(struct heap* heap, unsigned size_class, struct page* page) {
    KEEL_ASSERT(heap->current[size_class] == NULL && bin_first(heap, size_class) == NULL);
    KEEL_ASSERT(page_check(page));
    KEEL_ASSERT(page->size_class == size_class && page_list(page) != PAGE_QUEUED);
    KEEL_ASSERT(page_heap(atomic_get(&page->owner)) == heap);
    heap->current[size_class] = page;
    uint64_t bit = UINT64_C(1) << (size_class % 64);
    heap->class_count += (heap->classes[size_class / 64] & bit) == 0;
    heap->classes[size_class / 64] |= bit;
    page_set_list(page, PAGE_CURRENT);
}

struct page* heap_next_page(struct heap* heap, unsigned size_class) {
    KEEL_ASSERT(size_class < CLASS_COUNT);
    struct page_queue* queue = &heap->queue[size_class];
    for (unsigned probes = 0; probes < NEXT_PAGE_PROBES; probes++) {
        struct page* page = queue->first;
        // The keeper may be emptying the page: then the caller does without.
        if (page == NULL || !page_leave_queued(page, PAGE_CURRENT)) return NULL;
        queue_remove(queue, page);
        if (!KEEL_SECURE || page_is_worth_taking(page)) {
            make_current(heap, size_class, page);
            return page;
        }
        queue_append(queue, page);
    }
    return NULL;
}

static bool is_wide(unsigned size_class) {
    return size_class_bytes[size_class] > ONE_SLICE_BYTES_MAX;
}

void heap_retire_current(struct heap* heap, unsigned size_class) {
    KEEL_ASSERT(heap->current[size_class] != NULL && bin_first(heap, size_class) == NULL);
    KEEL_ASSERT(page_list(heap->current[size_class]) == PAGE_CURRENT);
    struct page* page = heap->current[size_class];
    heap->current[size_class] = NULL;
    // The program has got all of its blocks by now: how far does it fill them?
    if (is_wide(size_class) && (page_use(page)->fresh & PAGE_COLD) != 0)
        fill_watch(page->start, page->bytes, SLICE_BYTES);
    if (KEEL_SECURE && page_has_free(page)) { // its free blocks are in quarantine
        queue_append(&heap->queue[size_class], page);
        return;
    }
    KEEL_ASSERT(page_use(page)->used == page->capacity && page_check(page));
    if (heap->filled[size_class] < FILLED_ENOUGH) heap->filled[size_class]++;
    heap->earned++;
    if (!is_wide(size_class)) page_end_trust(page); // wide blocks may be given out and not filled
    page_set_list(page, PAGE_UNLISTED);
    atomic_set_release(&page->owner, (uintptr_t)heap | PAGE_FULL); // last: see heap/relief.c
}

static char* kept_start(uintptr_t entry) {
    return (char*)round_down(entry, SLICE_BYTES);
}
static unsigned kept_slices(uintptr_t entry) {
    return (unsigned)(entry % SLICE_BYTES);
}

bool heap_keep_run(struct heap* heap, char* start, unsigned slices) {
    KEEL_ASSERT((uintptr_t)start % SLICE_BYTES == 0 && slices > 0);
    KEEL_ASSERT(slices <= HEAP_KEPT_SLICES && ((uintptr_t)heap & HEAP_USER) == 0);
    uintptr_t before = (uintptr_t)start + slices;
    if (policy_admits_kept(slices)) {
        before = atomic_swap(&heap->kept[heap->kept_next++ % HEAP_KEPT_MAX], before);
        policy_keep((int64_t)slices - (int64_t)kept_slices(before));
        if (policy_has_keeper()) heap_watch(heap); // it takes them if this thread becomes idle
    }
    if (before != 0) run_release(kept_start(before), kept_slices(before));
    return before != 0;
}

char* heap_take_run(struct heap* heap, unsigned slices) {
    KEEL_ASSERT(slices > 0 && slices <= HEAP_KEPT_SLICES);
    for (unsigned i = 1; i <= HEAP_KEPT_MAX; i++) {
        unsigned index = (heap->kept_next - i) % HEAP_KEPT_MAX; // the one kept last comes first
        if (kept_slices(atomic_get(&heap->kept[index])) != slices) continue;
        uintptr_t entry = atomic_swap(&heap->kept[index], 0);
        if (entry == 0) continue;
        heap->kept_next = index;
        policy_keep(-(int64_t)slices);
        return kept_start(entry);
    }
    return NULL;
}

static char* spare_take(struct heap* heap) {
    KEEL_ASSERT(atomic_get(&heap->spare_wanted) <= HEAP_SPARE_MAX);
    for (unsigned i = 0; i < atomic_get(&heap->spare_wanted); i++) {
        if (atomic_get(&heap->spare[i]) == 0) continue;
        char* start = (char*)atomic_swap(&heap->spare[i], 0);
        if (start != NULL) return start;
    }
    return NULL;
}

static bool spare_put_one(atomic_word* place) {
    struct run run = run_allocate_narrow(1, RUN_WARM);
    if (run.start == NULL) return false;
    if (!run.warm) os_touch(run.start, SLICE_BYTES);
    uintptr_t expected = 0;
    KEEL_ASSERT((uintptr_t)run.start % SLICE_BYTES == 0);
    if (!atomic_try_word(place, &expected, (uintptr_t)run.start)) run_release(run.start, 1);
    return true;
}

bool heap_fill_spare(struct heap* heap) {
    KEEL_ASSERT(atomic_get(&heap->spare_wanted) <= HEAP_SPARE_MAX);
    unsigned wanted = atomic_get(&heap->spare_wanted);
    for (unsigned i = 0; i < HEAP_SPARE_MAX; i++) {
        if (i < wanted) {
            if (atomic_get(&heap->spare[i]) == 0 && !spare_put_one(&heap->spare[i])) return false;
        } else if (atomic_get(&heap->spare[i]) != 0) {
            char* start = (char*)atomic_swap(&heap->spare[i], 0);
            if (start != NULL) run_release(start, 1);
        }
    }
    return true;
}

// Takes a slice that the heap has kept or that the keeper has provided.
static char* own_slice_take(struct heap* heap) {
    char* start = heap_take_run(heap, 1);
    return start == NULL && heap_is_realtime(heap) ? spare_take(heap) : start;
}

// A realtime thread makes no system call.
static struct run run_without_arena(struct heap* heap, unsigned slices, bool worth_warm) {
    if (!worth_warm) return run_allocate_narrow(slices, RUN_SMALL);
    struct run run = heap_is_realtime(heap) ? run_allocate_warm(slices) : reserve_take(slices);
    return run.start != NULL ? run : run_allocate_narrow(slices, RUN_WARM);
}

static struct run run_for(struct heap* heap, unsigned slices, bool worth_warm) {
    KEEL_ASSERT(slices > 0);
    size_t bytes = slices * SLICE_BYTES;
    struct run run = {NULL, false, false, 0};
    if (!limit_admits(bytes) || !heap_admits(heap, bytes)) return run;
    if (heap->arena != NULL)
        run = arena_take(heap->arena, slices, 1);
    else
        run = run_without_arena(heap, slices, worth_warm);
    if (run.start != NULL) heap_hold(heap, bytes);
    return run;
}

// The slices of a fresh page, and their number, which may be fewer than *slices: near a limit only
// a shorter run may be left.
static struct run run_for_page(struct heap* heap, unsigned size_class, unsigned* slices,
                               bool worth_warm) {
    unsigned least = page_slices(size_class, 0);
    KEEL_ASSERT(*slices >= least && least > 0);
    struct run run = {NULL, false, false, 0};
    for (unsigned tried = *slices; run.start == NULL && tried >= least; tried /= 2) {
        *slices = tried;
        run = run_for(heap, tried, worth_warm);
    }
    return run;
}

// A realtime thread makes no system call. Memory of an arena is the program's.
static unsigned cold_flags(struct heap* heap) {
    bool ahead = !heap_is_realtime(heap) && heap->arena == NULL;
    return PAGE_COLD | (ahead ? PAGE_AHEAD : 0u);
}

// True: a page of this class will be filled, as far as is known, so it should be resident. The
// estimate of wide pages is one for all of their classes, so one filled page of the class suffices.
static bool is_worth_warm(struct heap* heap, unsigned size_class) {
    if (heap_is_realtime(heap) || policy_is_preferred()) return true;
    if (!is_wide(size_class)) return heap->filled[size_class] >= FILLED_ENOUGH;
    return heap->filled[size_class] > 0 && fill_expects(SLICE_BYTES) && !fill_is_probe(SLICE_BYTES);
}

static bool has_earned(const struct heap* heap, unsigned size_class) {
    return heap->earned > 0 && !is_wide(size_class);
}

// Later pages of wide blocks begin cold, so that they show whether the program fills them.
static bool may_trust(const struct heap* heap, unsigned size_class, unsigned slices) {
    if (is_wide(size_class) && heap->filled[size_class] > 0) return false;
    return policy_trusts(slices, has_earned(heap, size_class));
}

// A page that will be filled, but whose slices are not resident, gets its next 64 KiB by one call
// instead of a page fault for each 4 KiB. Returns the number of resident system pages.
static unsigned provide_quantum(char* start, unsigned slices, unsigned resident) {
    KEEL_ASSERT(resident * SYSTEM_PAGE < slices * SLICE_BYTES);
    size_t from = resident * SYSTEM_PAGE;
    size_t end = from + SLICE_BYTES;
    if (end > slices * SLICE_BYTES) end = slices * SLICE_BYTES;
    os_provide(start + from, end - from);
    return (unsigned)(end / SYSTEM_PAGE);
}

struct page* heap_fresh_page(struct heap* heap, unsigned size_class, bool* from_slices) {
    KEEL_ASSERT(heap->current[size_class] == NULL);
    unsigned slices = page_slices(size_class, heap->filled[size_class]);
    KEEL_ASSERT(class_partition(size_class) == partition_now());
    bool worth_warm = is_worth_warm(heap, size_class);
    bool trusts = !worth_warm && may_trust(heap, size_class, slices);
    heap->draws++;
    bool shared = class_partition(size_class) == 0; // kept slices are of partition 0
    char* start = slices == 1 && shared ? own_slice_take(heap) : NULL;
    unsigned fresh = 0;
    unsigned untouched = 0;
    bool cold = false; // no system page is known to be resident
    *from_slices = start == NULL;
    if (start == NULL) {
        struct run run = run_for_page(heap, size_class, &slices, worth_warm || trusts);
        if (run.start == NULL) return NULL;
        count_event(EVENT_RESERVE_MISS, !run.warm && worth_warm);
        if (run.warm && trusts) {
            fresh |= PAGE_TRUSTED;
            heap->earned -= has_earned(heap, size_class);
            policy_trust(slices);
        }
        fresh |= run.zero ? PAGE_ZERO : 0u;
        untouched = run.untouched;
        cold = !run.warm;
        start = run.start;
    }
    KEEL_ASSERT((uintptr_t)start % SLICE_BYTES == 0 && atomic_get(&page_of(start)->owner) == 0);
    unsigned resident = cold ? 0 : page_resident(start, slices);
    unsigned all = slices * (unsigned)(SLICE_BYTES / SYSTEM_PAGE);
    if (worth_warm && resident < all && (cold_flags(heap) & PAGE_AHEAD) != 0)
        resident = provide_quantum(start, slices, resident);
    fresh |= resident < all ? cold_flags(heap) : PAGE_WARM;
    struct page* page = page_begin(start, slices, size_class, (uintptr_t)heap, fresh, resident);
    if (untouched > 0) page_note_untouched(page, untouched);
    make_current(heap, size_class, page);
    atomic_bump(&heap->counts[HEAP_PAGES_BEGUN], 1);
    return page;
}

void heap_page_not_full(struct heap* heap, struct page* page) {
    KEEL_ASSERT(page_heap(atomic_get(&page->owner)) == heap);
    KEEL_ASSERT(page_list(page) == PAGE_UNLISTED && page_has_free(page));
    atomic_set(&page->owner, (uintptr_t)heap);
    queue_append(&heap->queue[page->size_class], page);
}

// A user heap counts what it holds, and an arena's slices are its own.
static bool may_keep(const struct heap* heap, const char* start) {
    return ((uintptr_t)heap & HEAP_USER) == 0 && arena_of(start) == NULL;
}

bool heap_page_emptied(struct heap* heap, struct page* page) {
    KEEL_ASSERT(page_use(page)->used == 0 && !page_is_large(page));
    KEEL_ASSERT(page_heap(atomic_get(&page->owner)) == heap);
    enum page_list list = page_list(page);
    if (list == PAGE_CURRENT) return false;
    if (list == PAGE_QUEUED) queue_remove(&heap->queue[page->size_class], page);
    char* start = page->start;
    unsigned slices = (unsigned)(page->bytes / SLICE_BYTES);
    bool keeps = slices == 1 && class_partition(page->size_class) == 0 && may_keep(heap, start);
    if (is_wide(page->size_class)) fill_end(start, SLICE_BYTES);
    atomic_bump(&heap->counts[HEAP_PAGES_ENDED], 1);
    if (keeps) {
        page_end(page);
        return heap_keep_run(heap, start, slices);
    }
    page_release(page);
    heap_unhold(heap, slices * SLICE_BYTES);
    return true;
}

// Returns blocks that other threads have freed to their page. True: the page was released.
static bool accept_list(struct heap* heap, struct page* page, struct block_list list) {
    KEEL_ASSERT(list_count(list.word) > 0 && list.tail != NULL);
    KEEL_ASSERT(page_heap(atomic_get(&page->owner)) == heap);
    struct block* head = list_head(list.word);
    uint32_t count = list_count(list.word);
    KEEL_REQUIRE(count <= page_use(page)->used, head);
    bool full = page_is_full(page);
    bool empty = page_push_list(page, head, list.tail, count);
    if (full && !empty) heap_page_not_full(heap, page);
    return empty && heap_page_emptied(heap, page);
}

// Announced pages come first: a page with kept blocks is rarely the one that the owner needs.
static struct page* take_list(struct remote_queue* queue, struct block_list* list) {
    KEEL_ASSERT(atomic_get(&queue->taken) != 0);
    struct page* page = remote_queue_take(queue, list);
    if (KEEL_LIKELY(page != NULL) || atomic_get(&queue->kept_first) == 0) return page;
    page = (struct page*)atomic_get(&queue->kept_first);
    *list = remote_queue_take_kept(queue, page);
    return page;
}

bool heap_drain_entered(struct heap* heap) {
    KEEL_ASSERT(atomic_get(&heap->remote_queue.taken) != 0);
    struct block_list list;
    struct page* page;
    unsigned taken = 0;
    unsigned released = 0;
    while (taken + 3 * released < REMOTE_DRAIN_MAX &&
           (page = take_list(&heap->remote_queue, &list)) != NULL) {
        released += accept_list(heap, page, list);
        taken++;
    }
    atomic_bump(&heap->counts[HEAP_BATCHES_TAKEN], taken);
    count_work(WORK_DRAIN_PAGES, taken);
    return released > 0;
}

bool heap_drain(struct heap* heap) {
    if (!remote_queue_enter(&heap->remote_queue)) return false;
    bool released = heap_drain_entered(heap);
    remote_queue_leave(&heap->remote_queue);
    return released;
}

unsigned heap_flush_bin(struct heap* heap, unsigned size_class, unsigned limit) {
    struct block* head = bin_at(heap, size_class, 0, NULL);
    if (head == NULL || limit == 0) return 0;
    struct block* tail = head;
    struct block* next;
    unsigned count = 1;
    for (; (next = bin_at(heap, size_class, count, tail)) != NULL && count < limit; tail = next) {
        if (KEEL_SECURE) block_set_next(tail, next);
        count++;
    }
    KEEL_ASSERT(heap->current[size_class] != NULL && count <= limit);
    bin_drop(heap, size_class, count, next);
    atomic_set(&heap->given[size_class], atomic_get(&heap->given[size_class]) - count);
    if (heap->guard_left[size_class] != 0) heap->guard_left[size_class] += count;
    (void)page_push_list(heap->current[size_class], head, tail, count);
    return count;
}

void heap_release_kept(struct heap* heap) {
    for (unsigned i = 0; i < HEAP_KEPT_MAX; i++) {
        if (atomic_get(&heap->kept[i]) == 0) continue;
        uintptr_t entry = atomic_swap(&heap->kept[i], 0);
        if (entry == 0) continue;
        policy_keep(-(int64_t)kept_slices(entry));
        run_release(kept_start(entry), kept_slices(entry));
    }
}

static bool page_of_heap_check(struct heap* heap, struct page* page, unsigned size_class,
                               unsigned list) {
    return atomic_get(&page->owner) == (uintptr_t)heap && page->size_class == size_class &&
           page_list(page) == list && page_check(page);
}

static bool batches_check(const struct heap* heap) {
    uint64_t waiting = 0;
    for (unsigned i = 0; i < HEAP_BATCHES; i++) {
        const struct remote_batch* batch = &heap->batches[i];
        if (batch->page == NULL) continue;
        uint64_t count = list_count(batch->blocks.word);
        if (count == 0 || batch->bytes != count * batch->page->block_bytes) return false;
        waiting += batch->bytes;
    }
    return waiting == heap->waiting_bytes;
}

static bool kept_check(const struct heap* heap) {
    for (unsigned i = 0; i < HEAP_KEPT_MAX; i++) {
        uintptr_t entry = atomic_get(&heap->kept[i]);
        if (entry == 0) continue;
        if (kept_slices(entry) == 0 || kept_slices(entry) > HEAP_KEPT_SLICES) return false;
        if (atomic_get(&page_of(kept_start(entry))->owner) != 0) return false;
    }
    return true;
}

// The classes with a current page are in the set of classes.
static bool classes_check(const struct heap* heap) {
    unsigned count = 0;
    for (unsigned i = 0; i < HEAP_CLASS_WORDS; i++) count += bit_count(heap->classes[i]);
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        if (heap->filled[c] > FILLED_ENOUGH) return false;
        bool listed = (heap->classes[c / 64] >> (c % 64) & 1) != 0;
        if (heap->current[c] != NULL && !listed) return false;
    }
    return count == heap->class_count;
}

bool heap_check(struct heap* heap) {
    if (!batches_check(heap) || !kept_check(heap) || !classes_check(heap)) return false;
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        struct page* current = heap->current[c];
        if (current == NULL && bin_at(heap, c, 0, NULL) != NULL) return false;
        if (current != NULL && !page_of_heap_check(heap, current, c, PAGE_CURRENT)) return false;
        const struct block* block = NULL;
        for (unsigned i = 0; (block = bin_at(heap, c, i, block)) != NULL; i++) {
            if (page_of_block(block) != current) return false;
        }
        struct page* last = NULL;
        for (struct page* page = heap->queue[c].first; page != NULL; page = page_use(page)->next) {
            bool claimed = page_list(page) == PAGE_CLAIMED; // the keeper may be changing it
            if (!claimed && !page_of_heap_check(heap, page, c, PAGE_QUEUED)) return false;
            if (page_use(page)->prev != last) return false;
            if (!claimed && !page_has_free(page)) return false;
            last = page;
        }
        if (heap->queue[c].last != last) return false;
    }
    return true;
}
