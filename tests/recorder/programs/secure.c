/* secure: reports 1000 blocks of its own. Exits with 77 if the system does not regard it as a
 * program that gains privileges, and with 3 if it is recorded. */
#include "common.h"
#include "keel/recorder.h"
#include <sys/auxv.h>

static char heap[1000];

int main(void) {
    if (getauxval(AT_SECURE) == 0) return 77;
    if (kl_record_gate.on) return 3;
    for (int i = 0; i < 1000; i++) kl_record_alloc(heap + i, 1);
    return 0;
}
