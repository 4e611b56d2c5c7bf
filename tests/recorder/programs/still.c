/* still: allocates 10 blocks of 1003 bytes and waits for two seconds. */
#include "common.h"

int main(void) {
    for (int i = 0; i < 10; i++) free(kept(malloc(1003)));
    sleep(2);
    return 0;
}
