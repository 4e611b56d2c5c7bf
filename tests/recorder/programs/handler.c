/* handler ROUNDS: allocates 1001 bytes ROUNDS times, while a timer's handler allocates 1003
 * bytes wherever it interrupts. Needs an async-signal-safe allocator (bump.c). Prints how often the
 * handler ran. */
#include "common.h"
#include <sys/time.h>

static volatile long handled;

static void handle(int signal) {
    (void)signal;
    free(kept(malloc(1003)));
    handled++;
}

int main(int count, char** arguments) {
    if (count != 2) return 2;
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 40}, {0, 40}};
    setitimer(ITIMER_REAL, &every, NULL);
    for (long i = 0; i < atol(arguments[1]); i++) free(kept(malloc(1001)));
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    char text[32];
    int length = snprintf(text, sizeof text, "%ld\n", handled);
    return write(1, text, (size_t)length) == length ? 0 : 3;
}
