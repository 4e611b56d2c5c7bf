// A forked child whose parent had a sender between the exchange of a queue's head and the write of
// its link. The child does not have that sender.
#include "allocator/alloc/alloc.h"
#include "allocator/alloc/user_heap.h"
#include "allocator/heap/relief.h"
#include "base/options.h"
#include "check.h"
#include "keel/heap.h"
#include "keel/keel.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 3000, BYTES = 200, LINK_PENDING = 1 };

static void* blocks[BLOCKS];

static void* free_all(void* unused) {
    (void)unused;
    for (unsigned i = 0; i < BLOCKS; i++) kl_free(blocks[i]);
    return NULL;
}

static void allocate_all(void) {
    for (unsigned i = 0; i < BLOCKS; i++) CHECK((blocks[i] = kl_malloc(BYTES)) != NULL);
}

static void run_to_end(void* (*run)(void*), void* argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, argument) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

// The first half of remote_queue_push. `block` is the only one of its batch.
static void push_half(struct heap* heap, void* block) {
    struct remote_chain chain = {0, 0};
    remote_chain_add(&chain, (struct block_list){block, block, 1}, (uint32_t)kl_usable_size(block));
    atomic_set((atomic_word*)block, LINK_PENDING);
    (void)atomic_swap(&heap->remote_queue.head, chain.first);
}

static void check_child(void (*run)(struct heap* heap), struct heap* heap) {
    int status = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        run(heap);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// Everything that other threads of the child free arrives.
static void drain_own(struct heap* heap) {
    CHECK(atomic_get(&heap->thread_id) == (uint32_t)getpid());
    run_to_end(free_all, NULL);
    reclaim_heap(heap);
    CHECK(remote_queue_is_empty(&heap->remote_queue));
}

static void test_own_queue(void) {
    struct heap* heap = thread_heap;
    allocate_all();
    push_half(heap, kl_malloc(BYTES));
    check_child(drain_own, heap);
    // A consumer has taken the stack, and its first link is still missing; another sender follows.
    CHECK(!heap_drain(heap) && atomic_get(&heap->remote_queue.pending) != 0);
    push_half(heap, kl_malloc(BYTES));
    check_child(drain_own, heap);
}

// The same while the thread's default is a user heap.
static void test_own_queue_behind_a_default(void) {
    struct heap* heap = thread_heap;
    kl_heap_t* other = kl_heap_new();
    CHECK(kl_heap_set_default(other) == kl_heap_backing());
    check_child(drain_own, heap);
    CHECK(kl_heap_set_default(kl_heap_backing()) == other);
    kl_heap_delete(other);
}

static void* allocate_and_end(void* heap) {
    allocate_all();
    *(struct heap**)heap = thread_heap;
    push_half(thread_heap, kl_malloc(BYTES));
    return NULL;
}

static void drain_parked(struct heap* heap) {
    (void)free_all(NULL);
    reclaim_all();
    CHECK(remote_queue_is_empty(&heap->remote_queue));
}

static void test_parked_queue(void) {
    struct heap* heap = NULL;
    run_to_end(allocate_and_end, &heap);
    CHECK(heap != NULL && heap != thread_heap);
    check_child(drain_parked, heap);
}

// --- A fork in the middle of a relief pass. This thread plays the keeper for its own heap. ---

enum { PAGES = 2048, PAGE_BLOCKS = 8, PAGE_BLOCK_BYTES = 32768, STEPS_MAX = 1000 };

enum { TINY_IN_PAGE = 8192, TINY = 4 * TINY_IN_PAGE };

static void* tiny[TINY];
static void* loans[PAGES * PAGE_BLOCKS]; // each eighth one begins a page

static void* free_one_of_each_page(void* unused) {
    for (unsigned i = 0; i < PAGES; i++) kl_free(loans[(size_t)i * PAGE_BLOCKS]);
    return unused;
}

// One batch of each page is in the table of the pass, and none in the queue.
static void begin_pass(struct heap* heap) {
    for (unsigned i = 0; i < PAGES * PAGE_BLOCKS; i++)
        CHECK((loans[i] = kl_malloc(PAGE_BLOCK_BYTES)) != NULL);
    for (unsigned i = 0; i < PAGES; i++)
        CHECK(page_of(loans[i * PAGE_BLOCKS])->start == loans[i * PAGE_BLOCKS]);
    run_to_end(free_one_of_each_page, NULL);
    for (unsigned i = 0; i < PAGES / RELIEF_STEP_MAX; i++) CHECK(heap_relieve(heap, false));
    CHECK(remote_queue_is_empty(&heap->remote_queue) && relief_is_unfinished(heap));
}

// All batches of the pass are back in the queue. Each step leaves the lock after at most
// RELIEF_STEP_MAX units, so there are many.
static void check_pass_ended(struct heap* heap, unsigned steps) {
    CHECK(!relief_is_unfinished(heap) && !relief_is_left());
    CHECK(steps >= PAGES / 2 / RELIEF_STEP_MAX);
    uint64_t before = atomic_get(&heap->counts[HEAP_BATCHES_TAKEN]);
    for (unsigned i = 0; i < STEPS_MAX && !remote_queue_is_empty(&heap->remote_queue); i++)
        (void)heap_drain(heap);
    CHECK(atomic_get(&heap->counts[HEAP_BATCHES_TAKEN]) - before == PAGES);
    for (unsigned i = 0; i < PAGES; i++)
        CHECK(!page_is_full(page_of_block(loans[i * PAGE_BLOCKS])));
}

static void continue_in_child(struct heap* heap) {
    unsigned steps = 0;
    CHECK(relief_is_left() && remote_queue_is_empty(&heap->remote_queue));
    for (; relief_is_left(); steps++) CHECK(steps < STEPS_MAX && reclaim_parked());
    check_pass_ended(heap, steps);
}

// The keeper of the child continues the pass of the parent's.
static void continue_in_keeper_of_child(struct heap* heap) {
    option_set(OPTION_KEEPER, KEEPER_ALWAYS);
    CHECK(relief_is_left() && kl_keeper_start());
    while (relief_is_left()) (void)usleep(1000); // until the alarm
    check_pass_ended(heap, STEPS_MAX);
}

// The fork itself puts nothing back, however full the table is.
static void test_relief(void) {
    struct heap* heap = thread_heap;
    unsigned steps = 0;
    reclaim_heap(heap);
    begin_pass(heap);
    check_child(continue_in_child, heap);
    check_child(continue_in_keeper_of_child, heap);
    CHECK(remote_queue_is_empty(&heap->remote_queue) && relief_is_unfinished(heap));
    for (; heap_relieve(heap, false); steps++) CHECK(steps < STEPS_MAX);
    check_pass_ended(heap, steps);
    for (unsigned i = 0; i < PAGES * PAGE_BLOCKS; i++) {
        if (i % PAGE_BLOCKS != 0) kl_free(loans[i]);
    }
    check_work_bounds();
}

// Blocks of 8 bytes go back one by one: a page of them does not make a step longer.
static void* free_most(void* unused) {
    for (unsigned i = 0; i < TINY; i++) {
        if (i % TINY_IN_PAGE != 0) kl_free(tiny[i]);
    }
    return unused;
}

static void test_relief_of_tiny_blocks(void) {
    struct heap* heap = thread_heap;
    unsigned steps = 0;
    reclaim_heap(heap);
    for (unsigned i = 0; i < TINY; i++) CHECK((tiny[i] = kl_malloc(8)) != NULL);
    run_to_end(free_most, NULL);
    for (; heap_relieve(heap, false); steps++) CHECK(steps < TINY);
    CHECK(steps >= 2 * (TINY - TINY / TINY_IN_PAGE) / RELIEF_STEP_MAX); // taken, and put back
    reclaim_heap(heap);
    for (unsigned i = 0; i < TINY; i += TINY_IN_PAGE) {
        CHECK(page_use(page_of_block(tiny[i]))->used == 1);
        kl_free(tiny[i]);
    }
    check_work_bounds();
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    kl_free(kl_malloc(1));
    test_relief(); // first: the others leave a link in the queue that is never written
    test_relief_of_tiny_blocks();
    test_own_queue();
    test_own_queue_behind_a_default();
    test_parked_queue();
    return 0;
}
