/* Records its own allocations: recorded FILE. `keel import FILE` converts FILE to a journal. */
#include <keel/recorder.h>
#include <stdio.h>

/* Keel's recorder has internal names like these; they must not collide with the program's. */
int session = 7;

int main(int count, char** arguments) {
    if (count != 2) return 2;
    if (kl_record_start(arguments[1]) != 0) return 1;
    static char block[100];
    kl_record_alloc(block, sizeof block);
    kl_record_free(block);
    if (kl_record_stop() != 0 || session != 7) return 1;
    FILE* recording = fopen(arguments[1], "rb");
    if (recording == NULL || fseek(recording, 0, SEEK_END) != 0 || ftell(recording) <= 0) return 1;
    fclose(recording);
    puts("recorded");
    return 0;
}
