/* locked: a library whose constructor runs before the recorder's. It causes the first malloc of
 * the process, which the C library calls while it holds one of its locks. The first argument
 * selects the lock: that of newlocale, setlocale or pthread_atfork. A recorder that takes the same
 * lock at its start hangs or corrupts it, so that a later caller hangs. The alarm ends the process
 * then. */
#include "common.h"
#include <locale.h>

static void nothing(void) {}

/* glibc passes main's arguments to constructors too. */
__attribute__((constructor)) static void lock(int count, char** arguments) {
    if (count != 2) _exit(3);
    const char* what = arguments[1];
    alarm(100);
    for (int again = 0; again < 8; again++) {
        if (strcmp(what, "newlocale") == 0 && newlocale(LC_ALL_MASK, "C.UTF-8", NULL) == NULL)
            _exit(4);
        if (strcmp(what, "setlocale") == 0 && setlocale(LC_ALL, "C.UTF-8") == NULL) _exit(5);
        /* The first handlers are stored in a static table. */
        for (int i = 0; strcmp(what, "pthread_atfork") == 0 && i < 100; i++)
            pthread_atfork(nothing, nothing, nothing);
    }
    alarm(0);
}
