// heap/pool.c and heap/heap.c: a heap has one holder at a time, which finds it as the previous
// holder left it while other threads push into its queue; and each slice that it keeps is taken by
// one thread.
#include "allocator/alloc/alloc.h"
#include "allocator/heap/relief.h"
#include "allocator/heap/remote_batch.h"
#include "allocator/heap/watch.h"
#include "allocator/space/run.h"
#include "allocator/space/window.h"
#include "base/counters.h"
#include "explore.h"

enum { CLASS = 4, BLOCKS = 3 };

static struct heap* heap;
static struct page* page;    // of `heap`
static void* blocks[BLOCKS]; // of `page`, in use by the program

// --- change of holder: the heap is parked; its holder drains it ---

static void prepare_parked(void) {
    bool from_slices;
    heap = heap_acquire();
    page = heap_fresh_page(heap, CLASS, &from_slices);
    struct block* rest;
    struct block* block = page_carve(page, &rest);
    block->next = rest;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = block;
        block = block->next;
    }
    heap->bin[CLASS].first = block;
    heap_leave();
    thread_heap = (struct heap*)&heap_none;
    explore_local(&thread_heap, sizeof thread_heap);
    explore_name(&heap->remote_queue, sizeof heap->remote_queue, "remote_queue");
    explore_name(heap, sizeof *heap, "heap");
    explore_name(blocks[0], page->block_bytes, "block 0");
    explore_name(blocks[1], page->block_bytes, "block 1");
    explore_refuse_memory();
}

static void send_0(void) {
    remote_batch_send_block(page, blocks[0]);
}
static void send_0_1(void) {
    remote_batch_send_block(page, blocks[0]);
    remote_batch_send_block(page, blocks[1]);
}
static void live_and_end(void) {
    struct heap* mine = heap_acquire();
    EXPLORE_CHECK(mine != NULL);
    (void)heap_drain(mine);
    mine->refills_seen++; // two holders would race here, and in heap_drain
    heap_leave();
}
static void look_after_parked(void) {
    struct heap* parked = heap_take_parked();
    if (parked == NULL) return;
    parked->refills_seen++;
    (void)heap_drain(parked);
    heap_park(parked);
}

static void check_drained(unsigned sent) {
    unsigned heaps = 0;
    unsigned parked = 0;
    for (struct heap* each = heap_first(); each != NULL; each = each->next_all) heaps++;
    while (!remote_queue_is_empty(&heap->remote_queue)) (void)heap_drain(heap);
    EXPLORE_CHECK(heap_check(heap));
    unsigned drained = 0;
    for (const struct block* block = page_use(page)->local_free; block != NULL; block = block->next)
        drained++;
    EXPLORE_CHECK(drained == sent);
    while (heap_take_parked() != NULL) parked++;
    EXPLORE_CHECK(parked == heaps && heaps <= 3);
}
static void check_1_drained(void) {
    check_drained(1);
}
static void check_2_drained(void) {
    check_drained(2);
}

static const struct explore_scenario one_after_another = {
    .name = "heaps, two threads run while one sends",
    .prepare = prepare_parked,
    .threads = 3,
    .called = {"first", "second", "sender"},
    .run = {live_and_end, live_and_end, send_0},
    .check = check_1_drained,
    .preemptions = EXPLORE_ALL,
};
static const struct explore_scenario adopted_and_inspected = {
    .name = "heaps, one runs, the keeper inspects, one sends twice",
    .prepare = prepare_parked,
    .threads = 3,
    .called = {"thread", "keeper", "sender"},
    .run = {live_and_end, look_after_parked, send_0_1},
    .check = check_2_drained,
    .preemptions = EXPLORE_ALL,
};
static const struct explore_scenario next_holder = {
    .name = "heaps, change of holder from the keeper to a thread, in every order",
    .prepare = prepare_parked,
    .threads = 3,
    .called = {"keeper", "second keeper", "sender"},
    .run = {look_after_parked, look_after_parked, send_0},
    .check = check_1_drained,
    .preemptions = EXPLORE_ALL,
    .weak = 3,
};

TEST(heaps_one_after_another) {
    explore_holds(&one_after_another);
}
TEST(heaps_adopted_and_inspected) {
    explore_holds(&adopted_and_inspected);
}
TEST(heaps_change_of_holder) {
    explore_holds(&next_holder);
}
// Seeded: two threads use the pool at once and take the same heap.
TEST(heaps_find_a_split_lock) {
    explore_break("os_lock_try", "try_state", SPLIT);
    explore_finds(&next_holder, "race");
}
// Seeded: the next holder does not see the writes of the previous one.
TEST(heaps_find_a_weak_lock) {
    explore_break("os_lock_release", "swap", WEAKENED);
    explore_finds(&next_holder, "race");
}
// Seeded: a block that is sent while the holder changes is lost.
TEST(heaps_find_a_split_take) {
    explore_break("remote_queue_take", "swap", SPLIT);
    explore_finds(&adopted_and_inspected, "drained == sent");
}

// --- the slices kept in `empty`: the owner puts and takes, others take ---

static struct page* spare[2];
static struct page* fresh[2]; // the pages that the owner received
static unsigned pages_live;

static struct page* full_page(void) {
    bool from_slices;
    struct page* one = heap_fresh_page(heap, CLASS, &from_slices);
    heap_retire_current(heap, CLASS);
    return one;
}

static void prepare_spare(void) {
    heap = heap_acquire();
    spare[0] = full_page();
    spare[1] = full_page();
    explore_name(heap->kept, sizeof heap->kept, "kept");
    explore_name(spare[0]->start, SLICE_BYTES, "slice 0");
    explore_name(spare[1]->start, SLICE_BYTES, "slice 1");
    explore_refuse_memory();
    pages_live = 2;
}

static void begin_fresh(unsigned i) {
    bool from_slices;
    fresh[i] = heap_fresh_page(heap, CLASS, &from_slices);
    EXPLORE_CHECK(fresh[i] != NULL);
    heap_retire_current(heap, CLASS);
    pages_live++;
}
static void empty_one(unsigned i) {
    pages_live--;
    (void)heap_page_emptied(heap, spare[i]);
}
static void owner_puts_and_takes(void) {
    empty_one(0);
    begin_fresh(0);
}
static void owner_puts_two_takes_two(void) {
    empty_one(0);
    empty_one(1);
    begin_fresh(0);
    begin_fresh(1);
}
static void release_kept_slices(void) {
    heap_release_kept(heap);
}

static bool is_free(const char* start) {
    struct window* window = window_find(start);
    size_t slice = (size_t)(start - window->base) / SLICE_BYTES;
    return (atomic_get(&window->superblocks[slice / 64].free) >> (slice % 64) & 1) != 0;
}

static void check_slices(void) {
    unsigned kept = 0;
    for (unsigned i = 0; i < HEAP_KEPT_MAX; i++) {
        uintptr_t entry = atomic_get(&heap->kept[i]);
        if (entry == 0) continue;
        kept++;
        const char* start = (const char*)(entry - 1); // of one slice
        EXPLORE_CHECK(!is_free(start));
        for (unsigned j = 0; j < 2; j++)
            EXPLORE_CHECK(fresh[j] == NULL || fresh[j]->start != start);
    }
    EXPLORE_CHECK(atomic_get(&policy.kept) == kept);
    for (unsigned j = 0; j < 2; j++) EXPLORE_CHECK(fresh[j] == NULL || !is_free(fresh[j]->start));
    EXPLORE_CHECK(fresh[0] == NULL || fresh[0] != fresh[1]);
    EXPLORE_CHECK(run_live_slices() == kept + pages_live);
    EXPLORE_CHECK(run_check());
}

static const struct explore_scenario kept_slice = {
    .name = "heaps, the owner uses the slice that another thread takes",
    .prepare = prepare_spare,
    .threads = 2,
    .called = {"owner", "thief"},
    .run = {owner_puts_and_takes, release_kept_slices},
    .check = check_slices,
    .preemptions = EXPLORE_ALL,
    .weak = 3,
};
static const struct explore_scenario kept_slices = {
    .name = "heaps, the owner uses two slices that two other threads take",
    .prepare = prepare_spare,
    .threads = 3,
    .called = {"owner", "thief", "second thief"},
    .run = {owner_puts_two_takes_two, release_kept_slices, release_kept_slices},
    .check = check_slices,
    .preemptions = 3,
};

// The owner puts nine slices into eight entries while another thread takes all.
static struct page* filled[HEAP_KEPT_MAX + 1];

static void prepare_full_row(void) {
    heap = heap_acquire();
    for (unsigned i = 0; i <= HEAP_KEPT_MAX; i++) filled[i] = full_page();
    explore_name(heap->kept, sizeof heap->kept, "kept");
    explore_refuse_memory();
    pages_live = 0; // at the end
}
static void owner_puts_nine(void) {
    for (unsigned i = 0; i <= HEAP_KEPT_MAX; i++) (void)heap_page_emptied(heap, filled[i]);
}

static const struct explore_scenario full_row = {
    .name = "heaps, the owner puts nine slices while another thread takes all",
    .prepare = prepare_full_row,
    .threads = 2,
    .called = {"owner", "thief"},
    .run = {owner_puts_nine, release_kept_slices},
    .check = check_slices,
    .preemptions = 2,
};

TEST(heaps_full_row_of_kept_slices) {
    explore_holds(&full_row);
}
TEST(heaps_kept_slice) {
    explore_holds(&kept_slice);
}
TEST(heaps_kept_slices) {
    explore_holds(&kept_slices);
}
// Seeded: the owner and another thread both get the slice.
TEST(heaps_find_a_split_release_of_kept) {
    explore_break("heap_release_kept", "swap", SPLIT);
    explore_finds(&kept_slice, "");
}
TEST(heaps_find_a_split_take_of_kept) {
    explore_break("heap_take_run", "swap", SPLIT);
    explore_finds(&kept_slice, "");
}

// --- the watch list: a heap with something to do is in it ---

// One look of a slow path, without the age that a parked heap must have.
static void look(void) {
    struct heap* looked = watch_take(true);
    if (looked == NULL) return;
    if (heap_unpark(looked)) {
        looked->refills_seen++; // two threads that look at one heap would race here
        (void)heap_drain(looked);
        atomic_set(&looked->reclaim_next, CLASS_COUNT);
        heap_park(looked);
    }
    watch_finish(looked, heap_is_parked(looked) && heap_can_be_reclaimed(looked));
}
static void prepare_watched(void) {
    prepare_parked();
    look(); // now nothing is to be done, and the list is empty
    EXPLORE_CHECK(watch_is_empty() && heap_is_parked(heap));
    explore_name(&heap->watched, sizeof heap->watched, "watched");
}
static void prepare_listed(void) {
    prepare_parked();
    EXPLORE_CHECK(!watch_is_empty());
    explore_name(&heap->watched, sizeof heap->watched, "watched");
}

// Looks by one thread after the others: they do all that is to be done, and each heap that the
// list yields is another one.
static void check_watched(void) {
    for (unsigned i = 0; i < 4; i++) look();
    EXPLORE_CHECK(watch_is_empty());
    for (struct heap* each = heap_first(); each != NULL; each = each->next_all) {
        EXPLORE_CHECK(heap_is_parked(each) && !heap_can_be_reclaimed(each));
        EXPLORE_CHECK(heap_check(each) && atomic_get(&each->watched) == 0);
    }
}

// Two parked heaps, of which one is in the list.
static struct heap* second_heap;

static void prepare_two_parked(void) {
    prepare_parked();
    struct heap* first = heap_acquire();
    thread_heap = (struct heap*)&heap_none;
    second_heap = heap_acquire();
    heap_leave();
    thread_heap = first;
    heap_leave();
    thread_heap = (struct heap*)&heap_none;
    EXPLORE_CHECK(second_heap != first);
    for (unsigned i = 0; i < 4; i++) look();
    EXPLORE_CHECK(watch_is_empty());
    heap_watch(first);
}
static void list_second(void) {
    heap_watch(second_heap);
}

static const struct explore_scenario watched_sender = {
    .name = "heaps, one sends to a parked heap while two look at the list",
    .prepare = prepare_watched,
    .threads = 3,
    .called = {"sender", "first", "second"},
    .run = {send_0_1, look, look},
    .check = check_watched,
    .preemptions = EXPLORE_ALL,
    .weak = 1,
};
static const struct explore_scenario watched_end = {
    .name = "heaps, a thread takes a listed heap and ends while one looks",
    .prepare = prepare_listed,
    .threads = 3,
    .called = {"thread", "looker", "sender"},
    .run = {live_and_end, look, send_0},
    .check = check_watched,
    .preemptions = 3,
};

static const struct explore_scenario watched_two = {
    .name = "heaps, one lists a heap while two look at another one",
    .prepare = prepare_two_parked,
    .threads = 3,
    .called = {"lister", "first", "second"},
    .run = {list_second, look, look},
    .check = check_watched,
    .preemptions = EXPLORE_ALL,
    .weak = 1,
};

TEST(heaps_watched_two) {
    explore_holds(&watched_two);
}
TEST(heaps_watched_sender) {
    explore_holds(&watched_sender);
}
TEST(heaps_watched_end) {
    explore_holds(&watched_end);
}
// Seeded: a sender and a thread that ends its look both find the heap listed.
TEST(heaps_find_a_split_watch) {
    explore_break("heap_watch", "swap", SPLIT);
    explore_finds(&watched_sender, "");
}
TEST(heaps_find_a_watch_without_order) {
    explore_break("watch_finish", "swap", WEAKENED);
    explore_finds(&watched_sender, "");
}
// Seeded: a heap that is added while the list is taken is lost.
TEST(heaps_find_a_split_take_of_the_list) {
    explore_break("watch_take", "swap", SPLIT);
    explore_finds(&watched_two, "");
}
