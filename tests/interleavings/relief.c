// heap/relief.c: the keeper sorts the remote frees of a heap whose thread may continue at any
// moment, and each page ends exactly once.
#include "allocator/heap/relief.h"
#include "allocator/alloc/alloc.h"
#include "allocator/heap/remote_batch.h"
#include "allocator/space/run.h"
#include "base/counters.h"
#include "explore.h"

static struct heap* heap;
static struct page* page; // of `heap`
static void* blocks[2];   // of `page`, in use by the program

static unsigned slices_before;

// A full page of four blocks, two of which are already in the remote queue.
static void prepare_loan(void) {
    bool from_slices;
    heap = heap_acquire();
    heap->filled[CLASS_COUNT - 1] = 2; // the first pages have fewer blocks
    page = heap_fresh_page(heap, CLASS_COUNT - 1, &from_slices);
    EXPLORE_CHECK(page->capacity == 4);
    for (unsigned i = 0; i < 4; i++) {
        struct block* rest;
        struct block* block = page_carve(page, &rest);
        if (i < 2)
            remote_batch_send_block(page, block);
        else
            blocks[i - 2] = block;
    }
    heap_retire_current(heap, CLASS_COUNT - 1);
    slices_before = (unsigned)run_live_slices();
    explore_name(&heap->remote_queue, sizeof heap->remote_queue, "remote_queue");
    explore_name(heap, sizeof *heap, "heap");
    explore_refuse_memory();
}

static void relieve(void) {
    while (heap_relieve(heap, false)) {
    }
}
static void send_last_two(void) {
    remote_batch_send_block(page, blocks[0]);
    remote_batch_send_block(page, blocks[1]);
}
static void send_last(void) {
    remote_batch_send_block(page, blocks[1]);
}
static void owner_frees_and_drains(void) {
    // Like free_local for a full page.
    EXPLORE_CHECK(!page_push(page, blocks[0]) && page_is_full(page));
    heap_page_not_full(heap, page);
    (void)heap_drain(heap);
}
static void owner_drains(void) {
    (void)heap_drain(heap);
}

// Whichever thread was last: once all remote frees are sorted, the page has ended exactly once.
static void check_returned(void) {
    for (unsigned i = 0; i < 4 && !remote_queue_is_empty(&heap->remote_queue); i++)
        (void)heap_drain(heap);
    EXPLORE_CHECK(remote_queue_is_empty(&heap->remote_queue));
    EXPLORE_CHECK(atomic_get(&page->owner) == 0);
    EXPLORE_CHECK(run_live_slices() == slices_before - WIDE_PAGE_SLICES);
    EXPLORE_CHECK(heap_check(heap) && run_check());
}

// The owner still sleeps and no thread sends any more: the memory that the keeper may release is
// released, or the keeper will inspect the heap again.
static void check_relieved(void) {
    EXPLORE_CHECK(atomic_get(&page->owner) == 0 || heap_can_be_relieved(heap));
    check_returned();
}

static const struct explore_scenario relief_and_sender = {
    .name = "heaps, the keeper relieves while one sends",
    .prepare = prepare_loan,
    .threads = 2,
    .called = {"keeper", "sender"},
    .run = {relieve, send_last_two},
    .check = check_relieved,
    .preemptions = EXPLORE_ALL,
    .weak = 1,
};
static const struct explore_scenario relief_and_owner = {
    .name = "heaps, the keeper relieves, the owner continues, one sends",
    .prepare = prepare_loan,
    .threads = 3,
    .called = {"keeper", "owner", "sender"},
    .run = {relieve, owner_frees_and_drains, send_last},
    .check = check_returned,
    .preemptions = 2,
};
static const struct explore_scenario relief_and_drain = {
    .name = "heaps, keeper and owner drain the same queue",
    .prepare = prepare_loan,
    .threads = 3,
    .called = {"keeper", "owner", "sender"},
    .run = {relieve, owner_drains, send_last_two},
    .check = check_returned,
    .preemptions = 2,
};

// The keeper relieves while the owner marks the page full: the page may end only after the owner's
// last write to it.
static void prepare_retirement(void) {
    bool from_slices;
    heap = heap_acquire();
    heap->filled[CLASS_COUNT - 1] = 2;
    page = heap_fresh_page(heap, CLASS_COUNT - 1, &from_slices);
    struct block* rest;
    for (unsigned i = 0; i < 4; i++) remote_batch_send_block(page, page_carve(page, &rest));
    slices_before = (unsigned)run_live_slices();
    explore_name(&heap->remote_queue, sizeof heap->remote_queue, "remote_queue");
    explore_name(heap, sizeof *heap, "heap");
    explore_refuse_memory();
}
static void owner_retires(void) {
    EXPLORE_CHECK(page_take_free(page) == NULL); // the owner's last access to the page
    heap_retire_current(heap, CLASS_COUNT - 1);
}
static void relieve_and_reuse(void) {
    relieve();
    if (atomic_get(&page->owner) == 0) page_use(page)->used = 0; // like page_begin
}
static const struct explore_scenario relief_and_retirement = {
    .name = "heaps, the keeper relieves while the owner marks the page full",
    .prepare = prepare_retirement,
    .threads = 2,
    .called = {"keeper", "owner"},
    .run = {relieve_and_reuse, owner_retires},
    .check = check_returned,
    .preemptions = EXPLORE_ALL,
    .weak = 1,
};

// Like the beginning of a visit of the thread's own heap (alloc/usage.c): all remote frees that
// were queued are sorted, and the keeper holds none of them.
static void visit(bool waits) {
    if (waits) relief_pause();
    bool entered = remote_queue_enter(&heap->remote_queue);
    if (waits) relief_resume();
    if (entered) (void)heap_drain_entered(heap);
    EXPLORE_CHECK(page_list(page) == PAGE_QUEUED && page_use(page)->used == 2);
    if (entered) remote_queue_leave(&heap->remote_queue);
}
static void owner_visits(void) {
    visit(true);
}
static void owner_visits_at_once(void) {
    visit(false);
}
static void check_half(void) {
    EXPLORE_CHECK(page_use(page)->used == 2 && run_live_slices() == slices_before);
    EXPLORE_CHECK(remote_queue_is_empty(&heap->remote_queue) && heap_check(heap) && run_check());
}

static const struct explore_scenario relief_and_visit = {
    .name = "heaps, the keeper relieves while the owner visits",
    .prepare = prepare_loan,
    .threads = 2,
    .called = {"keeper", "owner"},
    .run = {relieve, owner_visits},
    .check = check_half,
    .preemptions = EXPLORE_ALL,
};
static const struct explore_scenario relief_and_hasty_visit = {
    .name = "heaps, the keeper relieves while the owner visits without waiting",
    .prepare = prepare_loan,
    .threads = 2,
    .called = {"keeper", "owner"},
    .run = {relieve, owner_visits_at_once},
    .check = check_half,
    .preemptions = EXPLORE_ALL,
};

// A deep pass: the page is in the owner's queue, as the owner has freed one of its blocks.
static struct page* taken;

static void prepare_queued(void) {
    prepare_loan();
    (void)page_push(page, blocks[0]);
    heap_page_not_full(heap, page);
    taken = NULL;
}
static void relieve_deeply(void) {
    while (heap_relieve(heap, true)) {
    }
}
// Like refill: takes the page's free blocks, or carves.
static void owner_takes(void) {
    taken = heap_next_page(heap, CLASS_COUNT - 1);
    if (taken == NULL) return; // the keeper has it: a fresh page
    struct block* rest;
    if (page_take_free(taken) == NULL) EXPLORE_CHECK(page_carve(taken, &rest) != NULL);
}
// One block is the owner's if it got one, and all others are free.
static void check_queued(void) {
    for (unsigned i = 0; i < 4 && !remote_queue_is_empty(&heap->remote_queue); i++)
        (void)heap_drain(heap);
    EXPLORE_CHECK(remote_queue_is_empty(&heap->remote_queue));
    if (taken != NULL) {
        EXPLORE_CHECK(taken == page && page_list(page) == PAGE_CURRENT);
        EXPLORE_CHECK(page_use(page)->used == 1 && page_check(page));
    } else {
        EXPLORE_CHECK(atomic_get(&page->owner) == 0 ||
                      (page_list(page) == PAGE_QUEUED && page_use(page)->used == 0));
    }
    EXPLORE_CHECK(heap_check(heap) && run_check());
}

static const struct explore_scenario deep_relief_and_owner = {
    .name = "heaps, the keeper empties a queued page, the owner takes it, one sends",
    .prepare = prepare_queued,
    .threads = 3,
    .called = {"keeper", "owner", "sender"},
    .run = {relieve_deeply, owner_takes, send_last},
    .check = check_queued,
    .preemptions = EXPLORE_ALL,
    .weak = 1,
};

TEST(heaps_deep_relief_and_owner) {
    explore_holds(&deep_relief_and_owner);
}
// Seeded: the owner takes the page while the keeper empties it.
TEST(heaps_find_a_split_claim) {
    explore_break("page_leave_queued", "try_small", SPLIT);
    explore_finds(&deep_relief_and_owner, "");
}
TEST(heaps_relief_and_retirement) {
    explore_holds(&relief_and_retirement);
}
// Seeded: the keeper does not see the owner's last accesses to the page.
TEST(heaps_find_a_weak_retirement) {
    explore_break("heap_retire_current", "set_release", WEAKENED);
    explore_finds(&relief_and_retirement, "race");
}
TEST(heaps_relief_and_visit) {
    explore_holds(&relief_and_visit);
}
// Seeded: a visit that does not wait misses the frees that the keeper is sorting.
TEST(heaps_find_a_visit_that_does_not_wait) {
    explore_finds(&relief_and_hasty_visit, "");
}
TEST(heaps_relief_and_sender) {
    explore_holds(&relief_and_sender);
}
TEST(heaps_relief_and_owner) {
    explore_holds(&relief_and_owner);
}
TEST(heaps_relief_and_drain) {
    explore_holds(&relief_and_drain);
}
// Seeded: keeper and owner both act as the consumer.
TEST(heaps_find_a_split_entry_to_the_queue) {
    explore_break("remote_queue_enter", "try_state", SPLIT);
    explore_finds(&relief_and_drain, "");
}
// Seeded: the next consumer does not see the writes of the previous one.
TEST(heaps_find_a_weak_leave_of_the_queue) {
    explore_break("remote_queue_leave", "set_release", WEAKENED);
    explore_finds(&relief_and_drain, "race");
}
