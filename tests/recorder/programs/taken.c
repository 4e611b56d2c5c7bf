/* taken: takes the addresses of functions, and calls them by name and by address until its input
 * ends. Compiled with -no-pie, the addresses are those of stubs in the program, because code and
 * not only data contains them. Prints a line at the start. Exits with 5. */
#include "common.h"
#include <poll.h>

static void (*volatile give_back)(void*);
static void* (*volatile make)(size_t);
static void* (*volatile change)(void*, size_t);

int main(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    give_back = free;
    make = malloc;
    change = realloc;
    printf("ready\n");
    fflush(stdout);
    while (poll(&input, 1, 1) == 0) {
        free(kept(realloc(kept(malloc(1001)), 1003)));
        give_back(kept(change(kept(make(1005)), 1007)));
    }
    return 5;
}
