/* crowd COUNT: starts COUNT children, at most eight at a time. Every second one executes this
 * program as "leaf", which allocates 25 blocks of 1005 bytes; the others allocate 10 of 1003. */
#include "common.h"

static int child(char* self, int number) {
    if (number % 2 == 0) execl(self, self, "leaf", NULL);
    for (int i = 0; i < 10; i++) free(kept(malloc(1003)));
    _exit(0);
}

int main(int count, char** arguments) {
    if (count != 2) return 2;
    if (strcmp(arguments[1], "leaf") == 0) {
        for (int i = 0; i < 25; i++) free(kept(malloc(1005)));
        return 0;
    }
    int children = atoi(arguments[1]);
    int running = 0;
    int status = 0;
    for (int started = 0; started < children || running > 0;) {
        if (started < children && running < 8) {
            pid_t pid = fork();
            if (pid < 0) return 3;
            if (pid == 0) child(arguments[0], started);
            started++;
            running++;
        } else {
            if (wait(&status) < 0 || status != 0) return 4;
            running--;
        }
    }
    return 0;
}
