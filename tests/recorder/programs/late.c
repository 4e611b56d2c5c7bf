/* late: allocates blocks and frees some, sleeps for six seconds, then allocates more. */
#include "common.h"
#include <malloc.h>

extern void kl_record_frame_now(void) __attribute__((weak)); /* of the recorder, if it is loaded */

int main(void) {
    static void* early[110];
    for (int i = 0; i < 110; i++) early[i] = kept(malloc(1001));
    for (int i = 0; i < 10; i++) {
        kept(memalign(256, 1003));
        kept(calloc(5, 201)); /* 1005 */
        void* grown = kept(malloc(500));
        kept(realloc(grown, 1007));
        free(kept(malloc(1009)));
        free(early[100 + i]);
    }
    if (kl_record_frame_now != NULL) kl_record_frame_now();
    sleep(6);
    for (int i = 0; i < 50; i++) kept(malloc(1011));
    for (int i = 0; i < 10; i++) free(early[i]);
    if (kl_record_frame_now != NULL) kl_record_frame_now();
    return 0;
}
