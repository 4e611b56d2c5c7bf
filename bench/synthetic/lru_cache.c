// A cache with a limit of memory: keys are requested with a skewed frequency, a miss allocates
// the value, and the least recently used values are freed until the limit holds.
#include "synthetic.h"

#include <stdlib.h>

enum { BUCKETS = 1 << 16, KEYS = 1 << 18, STEPS = 4000000, LIMIT = 64 * MIB };

struct entry {
    struct entry *newer, *older, *collided;
    size_t key, bytes;
    char* value;
};
struct cache {
    struct entry** bucket;
    struct entry *newest, *oldest;
    size_t used;
};

static void unlink_entry(struct cache* c, struct entry* e) {
    *(e->newer != NULL ? &e->newer->older : &c->newest) = e->older;
    *(e->older != NULL ? &e->older->newer : &c->oldest) = e->newer;
}
static void link_newest(struct cache* c, struct entry* e) {
    e->newer = NULL;
    e->older = c->newest;
    *(c->newest != NULL ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}
static void evict_oldest(struct cache* c) {
    struct entry* e = c->oldest;
    struct entry** at = &c->bucket[e->key % BUCKETS];
    while (*at != e) at = &(*at)->collided;
    *at = e->collided;
    unlink_entry(c, e);
    c->used -= e->bytes;
    free(e->value);
    free(e);
}
static struct entry* find(struct cache* c, size_t key) {
    struct entry* e = c->bucket[key % BUCKETS];
    while (e != NULL && e->key != key) e = e->collided;
    return e;
}

static void add(struct cache* c, size_t key, size_t bytes) {
    struct entry* e = take(sizeof *e);
    *e = (struct entry){NULL, NULL, c->bucket[key % BUCKETS], key, bytes, take(bytes)};
    c->bucket[key % BUCKETS] = e;
    link_newest(c, e);
    c->used += bytes;
    while (c->used > LIMIT) evict_oldest(c);
}

static uint64_t run(const struct extent* extent) {
    struct cache c = {calloc(BUCKETS, sizeof *c.bucket), NULL, NULL, 0};
    uint64_t seed = 59, hits = 0;
    for (size_t i = 0, steps = scaled(extent, STEPS); i < steps; i++) {
        // Each power of two is equally frequent, so that small keys are requested most.
        size_t key = between_log(&seed, 1, KEYS);
        struct entry* e = find(&c, key);
        if (e == NULL) {
            // In the second half the values are larger: what was freed does not fit any more.
            add(&c, key, between_log(&seed, i < steps / 2 ? 64 : 256, 8 * KIB));
            continue;
        }
        hits += (unsigned char)e->value[0];
        unlink_entry(&c, e);
        link_newest(&c, e);
    }
    while (c.oldest != NULL) evict_oldest(&c);
    free(c.bucket);
    return hits;
}

const struct workload lru_cache = {
    "lru-cache",
    "a cache of 64 MiB with values of 64 B to 8 KiB; the oldest values are freed; sizes shift",
    "fragmentation: a full heap whose sizes change; watch the peak above 64 MiB",
    "our own: the fragmentation test of Redis has this shape",
    "the rate of malloc: hits allocate nothing",
    run,
};
