// Patterns of several threads: blocks that another thread frees, threads that come and go. Included
// by patterns.c.

static void in_threads(unsigned count, void* (*body)(void*), void* arguments, size_t stride) {
    pthread_t thread[128];
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&thread[i], NULL, body, (char*)arguments + i * stride) != 0) exit(1);
    for (unsigned i = 0; i < count; i++) pthread_join(thread[i], NULL);
}

struct share {
    const struct pattern* pattern;
    void** slot;
    unsigned index, of;
    bool random;
};

static void* share_free(void* argument) {
    struct share* s = argument;
    for (size_t i = s->index; i < s->pattern->slots; i += s->of) give(s->slot[i]);
    thread_sum();
    return NULL;
}
// One thread allocates; `threads` others free; the first allocates as much again.
static void remote(const struct pattern* p, unsigned threads, bool random) {
    void** slot = calloc(p->slots, sizeof *slot);
    for (size_t round = 0; round < p->count; round++) {
        for (size_t i = 0; i < p->slots; i++) slot[i] = take(between(p->low, p->high));
        for (size_t i = p->slots - 1; random && i > 0; i--) {
            size_t other = draw() % (i + 1);
            void* kept = slot[i];
            slot[i] = slot[other];
            slot[other] = kept;
        }
        struct share shares[8];
        for (unsigned i = 0; i < threads; i++)
            shares[i] = (struct share){p, slot, i, threads, random};
        in_threads(threads, share_free, shares, sizeof *shares);
    }
    free(slot);
}
static void remote_in_order(const struct pattern* p) {
    remote(p, 1, false);
}
static void remote_random(const struct pattern* p) {
    remote(p, 1, true);
}
static void remote_random_two(const struct pattern* p) {
    remote(p, 2, true);
}
static void remote_random_four(const struct pattern* p) {
    remote(p, 4, true);
}

static void* own_replace(void* argument) {
    struct share* s = argument;
    seed += 77 * (s->index + 1);
    replace(s->pattern);
    thread_sum();
    return NULL;
}
static void replace_in(const struct pattern* p, unsigned threads) {
    struct share shares[128];
    for (unsigned i = 0; i < threads; i++) shares[i] = (struct share){p, NULL, i, threads, false};
    in_threads(threads, own_replace, shares, sizeof *shares);
}
static void replace_two(const struct pattern* p) {
    replace_in(p, 2);
}
static void replace_hundred(const struct pattern* p) {
    replace_in(p, 100);
}
// Threads that live for a few hundred calls each, one after the other.
static void short_threads(const struct pattern* p) {
    static const struct pattern inner = {"", "", replace, 16, 1024, 32, 300};
    for (size_t i = 0; i < p->count; i++) {
        struct share share = {&inner, NULL, (unsigned)i, 1, false};
        in_threads(1, own_replace, &share, sizeof share);
    }
}

static _Atomic(void*) table[4096];
static void* exchange_body(void* argument) {
    struct share* s = argument;
    seed += 991 * (s->index + 1);
    for (size_t i = 0; i < s->pattern->count; i++) {
        void* block = take(between(s->pattern->low, s->pattern->high));
        void* old = atomic_exchange(&table[draw() % s->pattern->slots], block);
        if (old != NULL) give(old);
    }
    thread_sum();
    return NULL;
}
// Four threads put blocks into a shared table and free what they find there.
static void exchange(const struct pattern* p) {
    struct share shares[4];
    for (unsigned i = 0; i < 4; i++) shares[i] = (struct share){p, NULL, i, 4, false};
    in_threads(4, exchange_body, shares, sizeof *shares);
    for (size_t i = 0; i < p->slots; i++) {
        void* block = atomic_exchange(&table[i], NULL);
        if (block != NULL) give(block);
    }
}

enum { RING = 256 };
static struct { _Atomic(void*) place[RING]; } pipe_ring;
static void* pipe_consume(void* argument) {
    struct share* s = argument;
    for (size_t i = 0; i < s->pattern->count; i++) {
        void* block;
        while ((block = atomic_exchange(&pipe_ring.place[i % RING], NULL)) == NULL) sched_yield();
        give(block);
    }
    thread_sum();
    return NULL;
}
// One thread allocates, the other frees, through a queue of 256 blocks.
static void pipeline(const struct pattern* p) {
    struct share share = {p, NULL, 0, 1, false};
    pthread_t consumer;
    if (pthread_create(&consumer, NULL, pipe_consume, &share) != 0) exit(1);
    for (size_t i = 0; i < p->count; i++) {
        void* block = take(between(p->low, p->high));
        while (atomic_load(&pipe_ring.place[i % RING]) != NULL) sched_yield();
        atomic_store(&pipe_ring.place[i % RING], block);
    }
    pthread_join(consumer, NULL);
}
