/* exchange THREADS ROUNDS: threads exchange blocks through shared variables and free the blocks
 * that they get, so that addresses are reused across threads as fast as the allocator allows: the
 * recorder's hardest case. Before that, main allocates one block of 1001 bytes. */
#include "common.h"

enum { PLACES = 8 };
static _Atomic(void*) places[PLACES];
static long rounds;

static void* work(void* seed) {
    uint64_t random = (uint64_t)seed * 0x9e3779b97f4a7c15u + 1;
    for (long i = 0; i < rounds; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        /* Sizes too large for the thread caches, so that blocks go through the shared lists. */
        size_t size = 1100 + random % 3 * 16;
        void* mine = kept(malloc(size));
        void* found = atomic_exchange(&places[random >> 20 & (PLACES - 1)], mine);
        if (found != NULL && (random >> 30 & 3) == 0) {
            found = kept(realloc(found, 1100 + (random >> 40) % 3 * 400));
        }
        free(found);
    }
    return NULL;
}

int main(int count, char** arguments) {
    if (count != 3) return 2;
    int threads = atoi(arguments[1]);
    rounds = atol(arguments[2]);
    pthread_t ids[64];
    free(kept(malloc(1001))); /* before there is any other thread */
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, work, (void*)(uintptr_t)(i + 1));
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < PLACES; i++) free(atomic_load(&places[i]));
    return 0;
}
