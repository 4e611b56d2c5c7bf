/* threads COUNT AT_ONCE: short threads, each with a name. Each allocates a block of 1001 bytes,
 * which a key's destructor frees. The destructor runs four times, and its first three runs allocate
 * a block of 1003 bytes that the next one frees, the last after the recorder's destructor. */
#include "common.h"
#include <sys/prctl.h>

static pthread_key_t key;

static void destroy(void* block) {
    static _Thread_local int pass;
    free(block);
    if (++pass < 4) {
        pthread_setspecific(key, kept(malloc(1003)));
    }
}

static void* work(void* number) {
    char name[16];
    snprintf(name, sizeof name, "worker %d", (int)(intptr_t)number % 10);
    prctl(PR_SET_NAME, name);
    pthread_setspecific(key, kept(malloc(1001)));
    return NULL;
}

int main(int count, char** arguments) {
    if (count != 3) return 2;
    int total = atoi(arguments[1]);
    int at_once = atoi(arguments[2]);
    pthread_key_create(&key, destroy);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    static pthread_t ids[4096];
    for (int made = 0; made < total; made += at_once) {
        for (int i = 0; i < at_once; i++) {
            if (pthread_create(&ids[i], &attributes, work, (void*)(intptr_t)i) != 0) return 3;
        }
        for (int i = 0; i < at_once; i++) pthread_join(ids[i], NULL);
    }
    return 0;
}
