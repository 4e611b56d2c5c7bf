// A forked child whose parent had a sender between the push of a block and the announcement of its
// page. The child does not have that sender.
#include "allocator/alloc/alloc.h"
#include "allocator/alloc/user_heap.h"
#include "allocator/heap/relief.h"
#include "allocator/heap/remote_batch.h"
#include "base/options.h"
#include "check.h"
#include "keel/heap.h"
#include "keel/keel.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 3000, BYTES = 200 };

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

// A heap whose thread sends a block and stops between the two steps. No thread of this program
// holds it.
static struct heap* absent;

static void* lend_heap(void* unused) {
    (void)unused;
    kl_free(kl_malloc(BYTES));
    absent = thread_heap;
    thread_heap = (struct heap*)&heap_none; // the heap is not parked when the thread ends
    return NULL;
}

static struct page* half_sent;

static void push_half(void* block) {
    struct page* page = half_sent = page_of_block(block);
    atomic_set(&absent->sending, (uintptr_t)page);
    CHECK(remote_list_push(page, list_of_one(block)));
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
    CHECK(half_sent == NULL || atomic_get(&page_remote(half_sent)->list) == 0);
}

// A block of a page of its own: no other thread frees blocks of that page.
static void* lone_block(void) {
    static size_t bytes = 20000;
    return kl_malloc(bytes += 4000);
}

static void test_own_queue(void) {
    struct heap* heap = thread_heap;
    allocate_all();
    void* block = lone_block();
    push_half(block);
    CHECK(!remote_queue_contains(&heap->remote_queue, half_sent));
    check_child(drain_own, heap);
    // The sender has announced the page, and stopped before it said so.
    CHECK(remote_queue_announce(&heap->remote_queue, block));
    check_child(drain_own, heap);
    reclaim_heap(heap);
    CHECK(atomic_get(&page_remote(half_sent)->list) == 0);
    check_child(drain_own, heap);
}

// The sender has announced the page, and the owner has since taken the queue from the senders, but
// not this page yet: the child must not announce it a second time.
static void test_own_pending_queue(void) {
    struct heap* heap = thread_heap;
    struct block_list list;
    allocate_all();
    void* block = lone_block();
    void* last = lone_block(); // before: an allocation may drain the queue
    push_half(block);
    CHECK(remote_queue_announce(&heap->remote_queue, block));
    CHECK(remote_list_push(page_of_block(last), list_of_one(last)));
    (void)remote_queue_announce(&heap->remote_queue, last);
    CHECK(remote_queue_enter(&heap->remote_queue));
    struct page* page = remote_queue_take(&heap->remote_queue, &list);
    remote_queue_leave(&heap->remote_queue);
    CHECK(page == page_of_block(last) && atomic_get(&heap->remote_queue.head) == 0);
    CHECK(remote_queue_contains(&heap->remote_queue, half_sent));
    (void)page_push_list(page, list_head(list.word), list.tail, list_count(list.word));
    check_child(drain_own, heap);
    reclaim_heap(heap);
    CHECK(atomic_get(&page_remote(half_sent)->list) == 0);
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
    push_half(lone_block());
    return NULL;
}

static void drain_parked(struct heap* heap) {
    (void)free_all(NULL);
    reclaim_all();
    CHECK(remote_queue_is_empty(&heap->remote_queue));
    CHECK(half_sent == NULL || atomic_get(&page_remote(half_sent)->list) == 0);
}

static void test_parked_queue(void) {
    struct heap* heap = NULL;
    run_to_end(allocate_and_end, &heap);
    CHECK(heap != NULL && heap != thread_heap);
    check_child(drain_parked, heap);
}

// --- A fork between two steps of relief. This thread plays the keeper for its own heap. ---

enum { PAGES = 512, PAGE_BLOCKS = 8, PAGE_BLOCK_BYTES = 32768, TINY_IN_PAGE = 8192 };

static void* loans[PAGES * PAGE_BLOCKS]; // each eighth one begins a page

static void* free_one_of_each_page(void* unused) {
    for (unsigned i = 0; i < PAGES; i++) kl_free(loans[(size_t)i * PAGE_BLOCKS]);
    return unused;
}

// Half of the pages are announced; of the others one block is kept.
static void relieve_half(struct heap* heap) {
    reclaim_heap(heap);
    heap->filled[size_class_of(PAGE_BLOCK_BYTES)] = 2; // the first pages have fewer
    for (unsigned i = 0; i < PAGES * PAGE_BLOCKS; i++)
        CHECK((loans[i] = kl_malloc(PAGE_BLOCK_BYTES)) != NULL);
    for (unsigned i = 0; i < PAGES; i++)
        CHECK(page_of(loans[i * PAGE_BLOCKS])->start == loans[i * PAGE_BLOCKS]);
    run_to_end(free_one_of_each_page, NULL);
    for (unsigned i = 0; i < PAGES / 2 / RELIEF_STEP_MAX; i++) CHECK(heap_relieve(heap, false));
    CHECK(atomic_get(&heap->remote_queue.kept_count) == PAGES / 2);
    CHECK(remote_queue_has_announced(&heap->remote_queue));
}

static void drain_both_halves(struct heap* heap) {
    uint64_t before = atomic_get(&heap->counts[HEAP_BATCHES_TAKEN]);
    for (unsigned i = 0; i < PAGES && !remote_queue_is_empty(&heap->remote_queue); i++)
        (void)heap_drain(heap);
    CHECK(atomic_get(&heap->counts[HEAP_BATCHES_TAKEN]) - before == PAGES);
    for (unsigned i = 0; i < PAGES; i++)
        CHECK(page_use(page_of_block(loans[i * PAGE_BLOCKS]))->used == PAGE_BLOCKS - 1);
}

static void relieve_rest(struct heap* heap) {
    while (heap_relieve(heap, false)) continue;
    CHECK(atomic_get(&heap->remote_queue.kept_count) == PAGES);
    drain_both_halves(heap);
}

static void test_relief(void) {
    struct heap* heap = thread_heap;
    relieve_half(heap);
    check_child(drain_both_halves, heap);
    check_child(relieve_rest, heap);
    drain_both_halves(heap);
    for (unsigned i = 0; i < PAGES * PAGE_BLOCKS; i++) {
        if (i % PAGE_BLOCKS != 0) kl_free(loans[i]);
    }
    check_work_bounds();
}

// The length of a list makes no step longer: a page of 8,191 freed blocks of 8 bytes is one unit.
static void* free_most(void* tiny) {
    for (unsigned i = 1; i < TINY_IN_PAGE; i++) kl_free(((void**)tiny)[i]);
    return NULL;
}

static void test_relief_of_tiny_blocks(void) {
    static void* tiny[TINY_IN_PAGE];
    struct heap* heap = thread_heap;
    reclaim_heap(heap);
    for (unsigned i = 0; i < TINY_IN_PAGE; i++) CHECK((tiny[i] = kl_malloc(8)) != NULL);
    run_to_end(free_most, tiny);
    CHECK(!heap_relieve(heap, false));
    CHECK(!remote_queue_is_empty(&heap->remote_queue));
    CHECK(!remote_queue_has_announced(&heap->remote_queue));
    (void)heap_drain(heap);
    CHECK(remote_queue_is_empty(&heap->remote_queue));
    kl_free(tiny[0]);
    check_work_bounds();
}

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    kl_free(kl_malloc(1));
    run_to_end(lend_heap, NULL);
    test_own_queue();
    test_own_pending_queue();
    test_own_queue_behind_a_default();
    test_parked_queue();
    test_relief();
    test_relief_of_tiny_blocks();
    return 0;
}
