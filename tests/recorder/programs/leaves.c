/* leaves HOW PROGRAM [FOLDER]: allocates 100 blocks of 1001 bytes, then executes PROGRAM, which the
 * recorder cannot follow: in the root FOLDER ("chroot"), as another user ("setuid"), or because of
 * PROGRAM itself ("exec"; with "child" in a child). Exits with 77 if that is not allowed. */
#include "common.h"

int main(int count, char** arguments) {
    if (count < 3) return 2;
    const char* how = arguments[1];
    for (int i = 0; i < 100; i++) free(kept(malloc(1001)));
    if (strcmp(how, "chroot") == 0 && (chroot(arguments[3]) != 0 || chdir("/") != 0)) return 77;
    if (strcmp(how, "setuid") == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 77;
    pid_t child = strcmp(how, "child") == 0 ? fork() : 0;
    if (child == 0) {
        execl(arguments[2], arguments[2], "2", NULL);
        _exit(3);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 4;
}
