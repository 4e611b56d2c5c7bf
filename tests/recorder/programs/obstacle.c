// A library that prevents changes of the program's code: it starts a thread (-DTHREAD), or lets the
// system refuse to execute what was written.
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

#ifdef THREAD
static void* wait_long(void* unused) {
    for (;;) pause();
    return unused;
}
#endif

__attribute__((constructor)) static void prevent(void) {
#ifdef THREAD
    pthread_t thread;
    pthread_create(&thread, NULL, wait_long, NULL);
#else
    if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0) _exit(77); // an old kernel
#endif
}
