// Starts many threads that allocate at the same time. Prints how often a thread of the process gave
// up its processor to wait, and the number of page faults.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static pthread_barrier_t barrier;

static void* run(void* unused) {
    (void)unused;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 10; i++) free(malloc(1001));
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(int count, char** arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 100;
    pthread_t* thread = malloc((size_t)threads * sizeof *thread);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], &small, run, NULL) != 0) return 1;
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld %ld\n", usage.ru_nvcsw, usage.ru_minflt);
    free(thread);
    return 0;
}
