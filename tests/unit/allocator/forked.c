// A forked child whose parent had a sender between the exchange of a queue's head and the write of
// its link. The child does not have that sender.
#include "allocator/alloc/alloc.h"
#include "allocator/alloc/user_heap.h"
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

int main(void) {
    option_set(OPTION_KEEPER, KEEPER_NEVER);
    kl_free(kl_malloc(1));
    test_own_queue();
    test_own_queue_behind_a_default();
    test_parked_queue();
    return 0;
}
