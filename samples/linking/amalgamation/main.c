/* A program that is compiled together with Keel. With KEEL_OVERRIDE its malloc must be Keel's,
 * otherwise libc's. */
#include "keel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef KEEL_OVERRIDE
#define KEEL_OVERRIDE 0
#endif

/* Keel has internal functions with these names; they must not collide with the program's. */
int heap_first(void) {
    return 7;
}
int page_begin(void) {
    return heap_first();
}

int main(void) {
    char* block = malloc(100);
    char* text = strdup("from libc");
    char* ours = kl_malloc(100);
    int everything = kl_contains(block) && kl_contains(text);
    int nothing = !kl_contains(block) && !kl_contains(text);
    int well = kl_contains(ours) && (KEEL_OVERRIDE ? everything : nothing) && page_begin() == 7;
    kl_free(ours);
    free(text);
    free(block);
    puts(well ? "all memory comes from the expected malloc" : "wrong malloc");
    return !well;
}
