/* culprit: note_event by kept
 * Of each round's blocks all are freed but one, which keeps the memory around it. */
#include <stdlib.h>
#include <string.h>

static char* events[400];

__attribute__((noinline)) static void note_event(int round) {
    events[round] = malloc(48);
    memset(events[round], 1, 48);
}

__attribute__((noinline)) static void process_round(int round) {
    void* blocks[200];
    for (int i = 0; i < 200; i++) {
        blocks[i] = malloc(48);
        if (i == 100) note_event(round);
    }
    for (int i = 0; i < 200; i++) free(blocks[i]);
}

int main(void) {
    for (int round = 0; round < 400; round++) process_round(round);
    return events[0][0] - events[399][47];
}
