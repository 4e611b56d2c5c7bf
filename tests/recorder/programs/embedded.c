/* embedded: linked statically, reports the calls of its own allocator: 1000 blocks of 1001
 * bytes, half of them freed, ten grown to 1003, ten aligned ones of 1005, a realloc that fails, a
 * realloc of NULL, ten frees with a size, and ten with alignment and size, of which one is wrong. A
 * forked child and malloc are not recorded. */
#include "common.h"
#include "keel/recorder.h"
#include <errno.h>

static _Alignas(4096) char heap[1 << 20];

static void* place(int i) {
    return heap + i * 1024;
}

static void* report(void* unused) {
    for (int i = 0; i < 500; i++) kl_record_alloc(place(i), 1001);
    return unused;
}

int main(void) {
    if (!kl_record_gate.on) return 3;
    free(kept(malloc(2001)));
    pthread_t id;
    pthread_create(&id, NULL, report, NULL);
    pthread_join(id, NULL);
    for (int i = 500; i < 1000; i++) kl_record_alloc(place(i), 1001);
    for (int i = 0; i < 1000; i += 2) kl_record_free(place(i));
    for (int i = 1; i < 20; i += 2) kl_record_realloc(place(i), place(i - 1), 1003);
    for (int i = 1; i < 20; i += 2) kl_record_aligned(place(i), 256, 1005);
    kl_record_realloc_begin(place(21), 1 << 30);
    kl_record_realloc_end(place(21), NULL, 1 << 30);
    kl_record_realloc(NULL, place(22), 1007);
    kl_record_realloc(place(22), NULL, 0); /* a free */
    for (int i = 100; i < 110; i++) {
        kl_record_alloc(place(2 * i), 1013);
        kl_record_free_sized(place(2 * i), 1013);
        kl_record_aligned(place(2 * i), 128, 1015);
        kl_record_free_aligned_sized(place(2 * i), 128, i == 100 ? 1016 : 1015);
    }
    kl_record_free_sized(NULL, 1013);
    kl_record_alloc(NULL, 1009);
    kl_record_free(NULL);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; i++) kl_record_alloc(place(i), 1011);
        _exit(kl_record_gate.on ? 4 : 0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) return 5;
    return kl_record_start("/tmp/never created") == EALREADY && kl_record_stop() == EINVAL ? 0 : 6;
}
