/* sites: four threads each call one malloc (1001 bytes) 500 times by each of two paths, and
 * another malloc (1003 bytes) 500 times. */
#include "common.h"

static void* inner(size_t size) {
    return kept(malloc(size));
}
static void first(void) {
    free(inner(1001));
}
static void second(void) {
    free(inner(1001));
}
static void third(void) {
    free(kept(malloc(1003)));
}
static void* work(void* unused) {
    for (int i = 0; i < 500; i++) {
        first();
        second();
        third();
    }
    return unused;
}

int main(void) {
    pthread_t ids[4];
    for (int i = 0; i < 4; i++) pthread_create(&ids[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
    return 0;
}
