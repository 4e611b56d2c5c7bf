/* threads COUNT ATONCE: short-lived threads, each with a name; a block of 1001 bytes each, freed by
 * a key's destructor, and one of 1003 bytes that the destructor's last pass allocates and frees,
 * after the recorder's own. */
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
