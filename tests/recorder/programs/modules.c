/* modules: allocates 30 times a block of 1001 bytes that the library driver.c frees, one of 1003
 * that the library allocates and grows to 1005 and that main frees, and one of 1007 that only main
 * uses. */
#include "common.h"

extern void* driver_make(void);
extern void* driver_grow(void* block);
extern void driver_free(void* block);

int main(void) {
    for (int i = 0; i < 30; i++) {
        driver_free(kept(malloc(1001)));
        free(driver_grow(driver_make()));
        free(kept(calloc(19, 53))); /* 1007 */
    }
    return 0;
}
