// heap/remote_queue.[hc] and heap/remote_batch.c: every block that is freed is taken once, no page
// stays unannounced, and no thread waits.
#include "allocator/heap/remote_queue.h"
#include "allocator/heap/pool.h"
#include "allocator/heap/remote_batch.h"
#include "engine.h"
#include "explore.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 2, LISTS = 4 }; // lists of two blocks, alternately of page 0 and page 1

static struct heap* heap; // the pages' owner
static struct remote_queue* queue;
static struct page* page[PAGES];
static struct block_list sent[LISTS];
static struct block* second[LISTS]; // in front of the list's last block
static unsigned taken[LISTS][2];
static unsigned taken_count; // blocks

static struct block* take_carved(struct block** carved) {
    struct block* block = *carved;
    *carved = block->next;
    return block;
}

static void prepare_blocks(unsigned size_class) {
    static const char* const names[] = {"last block 0", "last block 1", "last block 2",
                                        "last block 3"};
    struct block* carved[PAGES];
    bool from_slices;
    heap = heap_acquire();
    queue = &heap->remote_queue;
    for (unsigned i = 0; i < PAGES; i++) {
        page[i] = heap_fresh_page(heap, size_class, &from_slices);
        struct block* rest;
        carved[i] = page_carve(page[i], &rest);
        carved[i]->next = rest;
        heap->current[size_class] = NULL; // for the next one
    }
    for (unsigned i = 0; i < LISTS; i++) {
        struct block* last = take_carved(&carved[i % PAGES]);
        second[i] = take_carved(&carved[i % PAGES]);
        sent[i] = (struct block_list){list_word(second[i], 2), last};
        explore_name(last, size_class_bytes[size_class], names[i]);
    }
    explore_name(queue, sizeof *queue, "remote_queue");
    explore_name(page_remote(page[0]), sizeof(struct page_remote), "page 0");
    explore_name(page_remote(page[1]), sizeof(struct page_remote), "page 1");
    explore_name(heap, sizeof *heap, "heap");
}
static void prepare(void) {
    prepare_blocks(2);
}
static void prepare_smallest(void) {
    prepare_blocks(0);
}

// Like a thread that sends a batch.
static void push(unsigned i) {
    second[i]->next = sent[i].tail;
    if (remote_list_push(page[i % PAGES], sent[i]))
        (void)remote_queue_announce(queue, sent[i].tail);
}

static void push_0(void) {
    push(0);
}
static void push_2(void) {
    push(2);
}
static void push_1(void) {
    push(1);
}
static void push_0_1(void) {
    push(0);
    push(1);
}
static void push_3_2(void) {
    push(3);
    push(2);
}

static void note_taken(const struct block* block, unsigned of_page) {
    for (unsigned i = of_page; i < LISTS; i += PAGES) {
        if (block != second[i] && block != sent[i].tail) continue;
        EXPLORE_CHECK(taken[i][block == second[i]]++ == 0);
        taken_count++;
        return;
    }
    EXPLORE_CHECK(!"a block that was sent");
}

static bool take_one(void) {
    struct block_list list;
    struct page* from = remote_queue_take(queue, &list);
    if (from == NULL) return false;
    struct block* block = list_head(list.word);
    uint32_t count = list_count(list.word);
    EXPLORE_CHECK(count > 0 && count <= 2 * LISTS);
    for (uint32_t i = 1; i < count; i++) {
        struct block* next = block->next;
        note_taken(block, from == page[1]);
        block->next = NULL; // now only the owner writes to it
        block = next;
    }
    EXPLORE_CHECK(block == list.tail);
    note_taken(block, from == page[1]);
    block->next = NULL;
    return true;
}

static void take_twice(void) {
    for (unsigned i = 0; i < 2; i++) (void)take_one();
}
static void take_three_times(void) {
    for (unsigned i = 0; i < 3; i++) (void)take_one();
}

// No push is in progress: everything can be taken, and then the queue is empty.
static void check_taken(unsigned lists) {
    while (take_one()) continue;
    EXPLORE_CHECK(remote_queue_is_empty(queue));
    for (unsigned i = 0; i < PAGES; i++)
        EXPLORE_CHECK(atomic_get(&page_remote(page[i])->list) == 0);
    EXPLORE_CHECK(taken_count == 2 * lists);
}
static void check_2(void) {
    check_taken(2);
}
static void check_3(void) {
    check_taken(3);
}
static void check_4(void) {
    check_taken(4);
}

static const struct explore_scenario one_page = {
    .name = "remote frees, two producers, one page",
    .prepare = prepare,
    .threads = 3,
    .called = {"producer A", "producer B", "consumer"},
    .run = {push_0, push_2, take_twice},
    .check = check_2,
    .preemptions = EXPLORE_ALL,
    .weak = 4,
};
static const struct explore_scenario two_pages = {
    .name = "remote frees, two producers, two pages each",
    .prepare = prepare,
    .threads = 3,
    .called = {"producer A", "producer B", "consumer"},
    .run = {push_0_1, push_3_2, take_three_times},
    .check = check_4,
    .preemptions = EXPLORE_ALL,
    .weak = 0,
};
static const struct explore_scenario three_producers = {
    .name = "remote frees, three producers, two pages",
    .prepare = prepare,
    .threads = 4,
    .called = {"producer A", "producer B", "producer C", "consumer"},
    .run = {push_0, push_1, push_2, take_twice},
    .check = check_3,
    .preemptions = EXPLORE_ALL,
    .weak = 1,
};
static const struct explore_scenario smallest = {
    .name = "remote frees, blocks of 8 bytes",
    .prepare = prepare_smallest,
    .threads = 3,
    .called = {"producer A", "producer B", "consumer"},
    .run = {push_0_1, push_2, take_three_times},
    .check = check_3,
    .preemptions = EXPLORE_ALL,
    .weak = 2,
};

TEST(remote_queue_one_page) {
    explore_holds(&one_page);
}
TEST(remote_queue_two_pages) {
    explore_holds(&two_pages);
}
TEST(remote_queue_three_producers) {
    explore_holds(&three_producers);
}
TEST(remote_queue_smallest_blocks) {
    explore_holds(&smallest);
}

// Seeded: of two lists that are pushed at once one is lost.
TEST(remote_queue_finds_a_split_push) {
    explore_break("remote_list_push", "try_word", SPLIT);
    explore_finds(&one_page, "");
}
// Seeded: of two pages that are announced at once one is lost.
TEST(remote_queue_finds_a_split_announcement) {
    explore_break("remote_queue_announce", "try_word", SPLIT);
    explore_finds(&two_pages, "");
}
// Seeded: a block or a page that arrives between the consumer's read and its exchange is lost.
TEST(remote_queue_finds_a_split_take) {
    explore_break("remote_queue_take", "swap", SPLIT);
    explore_finds(&one_page, "");
}
// Seeded: nothing orders the consumer's reads after the producer's writes.
TEST(remote_queue_finds_a_weak_push) {
    explore_break("remote_list_push", "try_word", WEAKENED);
    explore_finds(&one_page, "race");
}
TEST(remote_queue_finds_a_weak_announcement) {
    explore_break("remote_queue_announce", "try_word", WEAKENED);
    explore_finds(&one_page, "race");
}
TEST(remote_queue_finds_a_weak_take) {
    explore_break("remote_queue_take", "swap", WEAKENED);
    explore_finds(&one_page, "race");
}

// --- Fork ----------------------------------------------------------------------------------------

KEEL_ALIGNED(HEAP_SPACING) static struct heap sender[2]; // of the two producers

static void send(unsigned i) {
    (void)remote_batch_add(&sender[i / 2], page[i % PAGES], sent[i].tail);
    remote_batch_flush(&sender[i / 2]);
}
static void send_0(void) {
    send(0);
}
static void send_2(void) {
    send(2);
}

// In a forked child, where this thread is the only one: a list that is pushed now arrives, nothing
// arrives twice, and no block that has been pushed is left behind.
static bool child_receives(void) {
    struct block_list list;
    bool seen[3] = {false};
    struct block* const last[3] = {sent[0].tail, second[0], sent[2].tail};
    if (remote_list_push(page[0], list_of_one(second[0])))
        (void)remote_queue_announce(queue, second[0]);
    while (remote_queue_take(queue, &list) != NULL) {
        struct block* block = list_head(list.word);
        for (uint32_t i = list_count(list.word); i > 0; i--) {
            unsigned which = 0;
            while (which < 3 && last[which] != block) which++;
            if (which == 3 || seen[which]) return false;
            seen[which] = true;
            block = i > 1 ? block->next : NULL;
        }
    }
    return seen[1] && atomic_get(&page_remote(page[0])->list) == 0 && remote_queue_is_empty(queue);
}

// A real fork at every moment that differs in the words that the child reads: the explorer
// distinguishes the moments by the reads before it.
static void fork_now(bool repair) {
    (void)atomic_get(&queue->head);
    (void)atomic_get(&page_remote(page[0])->list);
    for (unsigned i = 0; i < 2; i++) (void)atomic_get(&sender[i].sending);
    pid_t child = fork();
    if (child == 0) {
        phase = CHECKING; // the child has no other threads to schedule
        for (unsigned i = 0; repair && i < 2; i++) remote_batch_repair(&sender[i]);
        _exit(child_receives() ? 0 : 1);
    }
    int status = -1;
    EXPLORE_CHECK(child > 0 && waitpid(child, &status, 0) == child);
    EXPLORE_CHECK(status == 0);
}
static void fork_and_repair(void) {
    fork_now(true);
}
static void fork_only(void) {
    fork_now(false);
}
static void take_and_fork(void) {
    struct block_list list;
    (void)remote_queue_take(queue, &list);
    fork_now(true);
}

static const struct explore_scenario forked = {
    .name = "remote frees, a fork between two producers",
    .prepare = prepare,
    .threads = 3,
    .called = {"producer A", "producer B", "fork"},
    .run = {send_0, send_2, fork_and_repair},
    .preemptions = EXPLORE_ALL,
};
static const struct explore_scenario forked_with_consumer = {
    .name = "remote frees, a fork after the consumer has taken a page",
    .prepare = prepare,
    .threads = 3,
    .called = {"producer A", "producer B", "consumer"},
    .run = {send_0, send_2, take_and_fork},
    .preemptions = EXPLORE_ALL,
};
static const struct explore_scenario forked_without_repair = {
    .name = "remote frees, a fork without repair",
    .prepare = prepare,
    .threads = 2,
    .called = {"producer A", "fork"},
    .run = {send_0, fork_only},
    .preemptions = EXPLORE_ALL,
};

TEST(remote_queue_in_a_forked_child) {
    explore_holds(&forked);
}
TEST(remote_queue_in_a_forked_child_of_a_consumer) {
    explore_holds(&forked_with_consumer);
}
// Seeded: the child has a list that no thread will announce.
TEST(remote_queue_finds_a_missing_repair) {
    explore_finds(&forked_without_repair, "status == 0");
}
