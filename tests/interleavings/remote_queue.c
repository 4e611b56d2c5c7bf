// heap/remote_queue.[hc]: every batch that is pushed is taken completely and once; no thread waits.
#include "allocator/heap/remote_queue.h"
#include "allocator/page/page.h"
#include "allocator/slices/run.h"
#include "engine.h"
#include "explore.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCHES = 6 }; // of two blocks, or of one of 8 bytes

static struct remote_queue queue;
static struct page* page;
static struct block_list sent[BATCHES];
static unsigned taken[BATCHES];
static unsigned taken_count;

static void prepare_blocks(unsigned size_class) {
    static const char* const names[] = {"batch 0", "batch 1", "batch 2",
                                        "batch 3", "batch 4", "batch 5"};
    struct run run = run_allocate(1);
    page = page_begin(run.start, size_class, (uintptr_t)&queue, 0);
    struct block* block = page_carve(page);
    for (unsigned i = 0; i < BATCHES; i++) {
        sent[i] = (struct block_list){block, block, 1};
        if (size_class > 0) {
            sent[i].tail = block->next;
            sent[i].count = 2;
        }
        block = sent[i].tail->next;
        explore_name(sent[i].tail, page->block_bytes, names[i]);
    }
}

static void prepare(void) {
    prepare_blocks(2);
}
static void prepare_smallest(void) {
    prepare_blocks(0);
}

static void push(unsigned i) {
    sent[i].head->next = sent[i].count > 1 ? sent[i].tail : NULL; // linked as by the freeing thread
    remote_queue_push_batch(&queue, sent[i], page->block_bytes);
}

static void push_0(void) {
    push(0);
}
static void push_1(void) {
    push(1);
}
static void push_2(void) {
    push(2);
}
static void push_0_1(void) {
    push(0);
    push(1);
}
static void push_2_3(void) {
    push(2);
    push(3);
}

static bool take_one(void) {
    struct block_list batch;
    if (!remote_queue_take(&queue, &batch)) return false;
    unsigned i = 0;
    while (i < BATCHES && sent[i].tail != batch.tail) i++;
    EXPLORE_CHECK(i < BATCHES);
    EXPLORE_CHECK(batch.head == sent[i].head && batch.count == sent[i].count);
    EXPLORE_CHECK(batch.count == 1 || batch.head->next == batch.tail);
    EXPLORE_CHECK(taken[i]++ == 0);
    taken_count++;
    batch.tail->next = NULL; // now only the owner writes to it
    return true;
}

static void take_three_times(void) {
    for (unsigned i = 0; i < 3; i++) (void)take_one();
}
static void take_five_times(void) {
    for (unsigned i = 0; i < 5; i++) (void)take_one();
}

// No push is in progress: everything can be taken, and then the queue is empty.
static void check_taken(unsigned batches) {
    while (take_one()) continue;
    EXPLORE_CHECK(remote_queue_is_empty(&queue));
    for (unsigned i = 0; i < batches; i++) EXPLORE_CHECK(taken[i] == 1);
    EXPLORE_CHECK(taken_count == batches);
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

// In a forked child, where this thread is the only one: a batch that is pushed now arrives, nothing
// arrives twice, and the queue becomes empty.
static bool child_receives(void) {
    struct block_list batch;
    bool seen[BATCHES] = {false};
    push(2);
    for (unsigned taken_here = 0; remote_queue_take(&queue, &batch); taken_here++) {
        unsigned i = 0;
        while (i < BATCHES && sent[i].tail != batch.tail) i++;
        if (i == BATCHES || seen[i] || taken_here == BATCHES) return false;
        if (batch.head != sent[i].head || batch.count != sent[i].count) return false;
        seen[i] = true;
    }
    return seen[2] && remote_queue_is_empty(&queue);
}

// A real fork at every moment that differs in the words that the child reads: the explorer
// distinguishes the moments by the reads before it.
static void fork_now(bool repair) {
    (void)atomic_get(&queue.head);
    (void)atomic_get((atomic_word*)sent[1].tail);
    (void)atomic_get((atomic_word*)sent[0].tail);
    pid_t child = fork();
    if (child == 0) {
        phase = CHECKING; // the child has no other threads to schedule
        if (repair) remote_queue_repair(&queue);
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
    (void)take_one();
    fork_now(true);
}

static const struct explore_scenario forked = {
    .name = "queue, a fork between two producers",
    .prepare = prepare,
    .threads = 3,
    .called = {"producer A", "producer B", "fork"},
    .run = {push_0, push_1, fork_and_repair},
    .check = check_2,
    .preemptions = EXPLORE_ALL,
    .weak = 0,
};
static const struct explore_scenario forked_with_consumer = {
    .name = "queue, a fork after the consumer has taken the stack",
    .prepare = prepare,
    .threads = 3,
    .called = {"producer A", "producer B", "consumer"},
    .run = {push_0, push_1, take_and_fork},
    .check = check_2,
    .preemptions = EXPLORE_ALL,
    .weak = 0,
};
static const struct explore_scenario forked_without_repair = {
    .name = "queue, a fork without repair",
    .prepare = prepare,
    .threads = 2,
    .called = {"producer A", "fork"},
    .run = {push_0, fork_only},
    .preemptions = EXPLORE_ALL,
    .weak = 0,
};

static const struct explore_scenario one_each = {
    .name = "queue, two producers, one batch each",
    .prepare = prepare,
    .threads = 3,
    .called = {"producer A", "producer B", "consumer"},
    .run = {push_0, push_1, take_three_times},
    .check = check_2,
    .preemptions = EXPLORE_ALL,
    .weak = 4,
};
static const struct explore_scenario two_each = {
    .name = "queue, two producers, two batches each",
    .prepare = prepare,
    .threads = 3,
    .called = {"producer A", "producer B", "consumer"},
    .run = {push_0_1, push_2_3, take_five_times},
    .check = check_4,
    .preemptions = EXPLORE_ALL,
    .weak = 0,
};
static const struct explore_scenario three_producers = {
    .name = "queue, three producers, one batch each",
    .prepare = prepare,
    .threads = 4,
    .called = {"producer A", "producer B", "producer C", "consumer"},
    .run = {push_0, push_1, push_2, take_three_times},
    .check = check_3,
    .preemptions = EXPLORE_ALL,
    .weak = 1,
};
static const struct explore_scenario smallest = {
    .name = "queue, blocks of 8 bytes",
    .prepare = prepare_smallest,
    .threads = 3,
    .called = {"producer A", "producer B", "consumer"},
    .run = {push_0_1, push_2, take_three_times},
    .check = check_3,
    .preemptions = EXPLORE_ALL,
    .weak = 2,
};

TEST(remote_queue_two_producers_one_each) {
    explore_holds(&one_each);
}
TEST(remote_queue_two_producers_two_each) {
    explore_holds(&two_each);
}
TEST(remote_queue_three_producers) {
    explore_holds(&three_producers);
}
TEST(remote_queue_smallest_blocks) {
    explore_holds(&smallest);
}

TEST(remote_queue_in_a_forked_child) {
    explore_holds(&forked);
}
TEST(remote_queue_in_a_forked_child_of_a_consumer) {
    explore_holds(&forked_with_consumer);
}
// Seeded: the child keeps a link that no thread will write.
TEST(remote_queue_finds_a_missing_repair) {
    explore_finds(&forked_without_repair, "status == 0");
}

// Seeded: two producers see the same message as the one before theirs.
TEST(remote_queue_finds_a_split_push) {
    explore_break("remote_queue_push", "swap", SPLIT);
    explore_finds(&one_each, "taken");
}
// Seeded: a message that is pushed between the consumer's read and its exchange is lost.
TEST(remote_queue_finds_a_split_take) {
    explore_break("remote_queue_take", "swap", SPLIT);
    explore_finds(&one_each, "taken");
}
// Seeded: the link is not marked as pending, so the old content of the block is followed.
TEST(remote_queue_finds_a_link_not_marked) {
    explore_break("remote_queue_push", "set", LEFT_OUT);
    explore_finds(&two_each, "");
}
// Seeded: nothing orders the consumer's reads after the producer's writes.
TEST(remote_queue_finds_a_weak_push) {
    explore_break("remote_queue_push", "swap", WEAKENED);
    explore_finds(&one_each, "race");
}
TEST(remote_queue_finds_a_weak_take) {
    explore_break("remote_queue_take", "swap", WEAKENED);
    explore_finds(&one_each, "race");
}
