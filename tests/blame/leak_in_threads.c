/* culprit: serve_request by kept
 * Four threads serve requests, and keep a buffer of every tenth one. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static void serve_request(int number) {
    char* buffer = malloc(2000);
    memset(buffer, number, 2000);
    if (number % 10 != 0) free(buffer);
}

static void* work(void* unused) {
    char* scratch = malloc(5000);
    for (int i = 0; i < 1000; i++) serve_request(i);
    free(scratch);
    return unused;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    return 0;
}
