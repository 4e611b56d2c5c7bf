// A string that is one byte too long overwrites the byte behind its block with 0. The secure
// flavour notices this only if that byte is not 0. It depends on the key of the process, so many
// processes look at it.
#include <keel/keel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 150
#define BLOCKS 300

static int look(void) {
    static const size_t sizes[] = {1, 8, 24, 100, 5000, 70000, 200000, 5000000};
    for (size_t i = 0; i < BLOCKS; i++) {
        unsigned char* block = kl_malloc(sizes[i % (sizeof sizes / sizeof *sizes)]);
        if (block == NULL) return 2;
        if (block[kl_usable_size(block)] == 0) return 1;
    }
    return 0;
}

int main(int count, char** arguments) {
    int zeros = 0;
    if (count > 1) return look();
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", arguments[0], "look", (char*)NULL);
            _exit(2);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) > 1) {
            puts("a child did not run");
            return 1;
        }
        zeros += status != 0;
    }
    if (zeros > 0)
        printf("FAIL a byte behind a block is 0 in %d of %d processes\n", zeros, PROCESSES);
    printf("%d passed, %d failed, 0 skipped\n", zeros == 0, zeros > 0);
    return zeros > 0;
}
