/* successive FOLDER: linked statically, records itself three times into FOLDER/0 to FOLDER/2. In
 * each recording, main reports blocks of 1001 bytes, and a thread that runs all the time reports
 * blocks of 1003 bytes; half of them are freed. Before each recording but the first, a block is
 * reported while nothing is recorded. Each but the first frees ten blocks of the previous one. */
#include "common.h"
#include "keel/recorder.h"

static const int rounds[] = {100, 40000, 200};
static _Alignas(4096) char heap[2][80000 * 16];
static pthread_barrier_t barrier;

/* The addresses of a round differ from those of the previous round. */
static void* place(int reporter, int round, int i) {
    return heap[reporter] + ((round % 2) * 40000 + i) * 16;
}

static void report(int reporter, int round) {
    for (int i = 0; i < rounds[round]; i++)
        kl_record_alloc(place(reporter, round, i), 1001 + 2 * (size_t)reporter);
    for (int i = 0; i < rounds[round]; i += 2) kl_record_free(place(reporter, round, i));
}

static void* work(void* unused) {
    for (int round = 0; round < 3; round++) {
        pthread_barrier_wait(&barrier);
        report(1, round);
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

int main(int count, char** arguments) {
    pthread_t thread;
    if (count != 2 || pthread_barrier_init(&barrier, NULL, 2) != 0) return 2;
    if (pthread_create(&thread, NULL, work, NULL) != 0) return 3;
    for (int round = 0; round < 3; round++) {
        char path[512];
        char mark[32];
        snprintf(path, sizeof path, "%s/%d", arguments[1], round);
        snprintf(mark, sizeof mark, "recording %d", round);
        if (round > 0) kl_record_alloc(heap, 1005);
        if (kl_record_start(path) != 0) return 4;
        kl_record_mark(mark);
        for (int i = 0; round > 0 && i < 10; i++) kl_record_free(place(0, round - 1, 2 * i + 1));
        pthread_barrier_wait(&barrier);
        report(0, round);
        pthread_barrier_wait(&barrier);
        if (kl_record_stop() != 0) return 5;
    }
    return pthread_join(thread, NULL);
}
