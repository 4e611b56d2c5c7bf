// Some threads only allocate, the others only free. Batches pass through a shared queue.
#include "synthetic.h"

#include <pthread.h>
#include <stdlib.h>

enum { BATCH = 120, QUEUE = 32, BATCHES = 16000 };

struct batch {
    void* block[BATCH];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    struct batch* batch[QUEUE];
    size_t first, count;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .not_empty = PTHREAD_COND_INITIALIZER,
           .not_full = PTHREAD_COND_INITIALIZER};

struct role {
    bool frees;
    uint64_t seed, sum;
    size_t batches;
};

static void produce(struct role* role) {
    for (size_t i = 0; i < role->batches; i++) {
        struct batch* batch = take(sizeof *batch);
        size_t bytes = between_log(&role->seed, 16, 1024);
        for (unsigned at = 0; at < BATCH; at++) batch->block[at] = take(bytes);
        role->sum += bytes;
        pthread_mutex_lock(&queue.lock);
        while (queue.count == QUEUE) pthread_cond_wait(&queue.not_full, &queue.lock);
        queue.batch[(queue.first + queue.count++) % QUEUE] = batch;
        pthread_cond_signal(&queue.not_empty);
        pthread_mutex_unlock(&queue.lock);
    }
}

static void consume(struct role* role) {
    for (size_t i = 0; i < role->batches; i++) {
        pthread_mutex_lock(&queue.lock);
        while (queue.count == 0) pthread_cond_wait(&queue.not_empty, &queue.lock);
        struct batch* batch = queue.batch[queue.first];
        queue.first = (queue.first + 1) % QUEUE;
        queue.count--;
        pthread_cond_signal(&queue.not_full);
        pthread_mutex_unlock(&queue.lock);
        for (unsigned at = 0; at < BATCH; at++) free(batch->block[at]);
        free(batch);
    }
}

static void play(void* argument) {
    struct role* role = argument;
    if (role->frees)
        consume(role);
    else
        produce(role);
}

static uint64_t run(const struct extent* extent) {
    struct role roles[MOST_THREADS];
    unsigned pairs = extent->threads / 2;
    uint64_t sum = 0;
    for (unsigned i = 0; i < 2 * pairs; i++)
        roles[i] = (struct role){i % 2 == 1, 5 + i, 0, scaled(extent, BATCHES)};
    in_threads(2 * pairs, play, roles, sizeof *roles);
    for (unsigned i = 0; i < 2 * pairs; i++) sum += roles[i].sum;
    return sum;
}

const struct workload xmalloc = {
    "xmalloc",
    "half of the threads only allocate blocks of 16 to 1,024 B, the others only free them",
    "remote frees: every block is freed by a thread that never allocates",
    "C. Lever and D. Boreham, malloc() performance in a multithreaded Linux environment, 2000",
    "the cost of local calls; the queue's lock and its sleeping threads are part of the time",
    run,
};
