/* locked: a library whose constructor runs before the recorder's, and whose first malloc, the first of the
 * process, is one that the C library makes while it holds a lock of its own. The first argument says which:
 * newlocale's, setlocale's, pthread_atfork's. A recorder that takes the same lock to start up hangs, or
 * leaves it broken, and then the next to want it hangs: the alarm ends that. */
#include "common.h"
#include <locale.h>

static void nothing(void) {}

/* glibc hands main's arguments to constructors too. */
__attribute__((constructor)) static void lock(int count, char** arguments) {
    if (count != 2) _exit(3);
    const char* what = arguments[1];
    alarm(100);
    for (int again = 0; again < 8; again++) {
        if (strcmp(what, "newlocale") == 0 && newlocale(LC_ALL_MASK, "C.UTF-8", NULL) == NULL)
            _exit(4);
        if (strcmp(what, "setlocale") == 0 && setlocale(LC_ALL, "C.UTF-8") == NULL) _exit(5);
        /* The first of them lie in a table that is there from the beginning. */
        for (int i = 0; strcmp(what, "pthread_atfork") == 0 && i < 100; i++)
            pthread_atfork(nothing, nothing, nothing);
    }
    alarm(0);
}
