/* counts THREADS ROUNDS: each thread performs every operation ROUNDS times; each size is
 * allocated and freed once per round. */
#include "common.h"
#include <malloc.h>

static long rounds;

static void* work(void* unused) {
    for (long i = 0; i < rounds; i++) {
        void* a = kept(malloc(1001));
        void* b = kept(calloc(7, 149)); /* 1043 */
        void* c = kept(realloc(NULL, 1005));
        c = kept(realloc(c, 1007)); /* releases 1005, creates 1007 */
        void* d = NULL;
        if (posix_memalign(&d, 64, 1009) != 0) abort();
        void* e = kept(aligned_alloc(128, 1024 + 128));
        void* f = kept(memalign(256, 1011));
        c = kept(reallocarray(c, 3, 339)); /* 1017 */
        free(a);
        free(b);
#ifdef __GLIBC__
        if (realloc(c, 0) != NULL) abort(); /* a free */
#else
        free(c); /* musl's realloc makes a block of 0 bytes */
#endif
        free(d);
        free(e);
        free(f);
        free(NULL);                                   /* no operation */
        if (malloc((size_t)-1 >> 1) != NULL) abort(); /* fails: no operation */
        void* g = kept(malloc(1013));
        if (realloc(g, (size_t)-1 >> 1) != NULL) abort(); /* fails: g stays live */
        if (malloc_usable_size(g) < 1013) abort();
        free(g);
    }
    return unused;
}

int main(int count, char** arguments) {
    if (count != 3) return 2;
    int threads = atoi(arguments[1]);
    rounds = atol(arguments[2]);
    pthread_t ids[64];
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, NULL);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    printf("done\n");
    return 7;
}
